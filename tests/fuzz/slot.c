/* Sends a slot's init malformed messages, under AddressSanitizer and UBSan: scripts/test fuzz.
 *
 * The init's code is included whole. What would act on this machine is replaced: no process is
 * started, none gets a signal, and an exit returns here. Each message is in memory that ends where it
 * ends, so that one byte read too far is found.
 *
 *     slot-fuzz ROUNDS SEED
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <sanitizer/asan_interface.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAIN = 4711, OTHER = 4712, MOST_LOOKS = 1000 };

static jmp_buf out;
static long count_spawned, count_refused, count_signals, count_ended;
static int looks_until_main, looks_until_others, looks;
static double clock_s;

static int fuzz_kill(pid_t pid, int number) {
    (void)pid;
    count_signals++;
    if (number == SIGKILL) {
        looks_until_main = looks_until_others = 0;
    }
    return 0;
}

static _Noreturn void fuzz_exit(int code) {
    (void)code;
    count_refused++;
    longjmp(out, 1);
}

/* Reads all that the kernel would read of a command. */
static int fuzz_spawn(pid_t *pid, const char *file, const posix_spawn_file_actions_t *files,
                      const posix_spawnattr_t *how, char *const argv[], char *const envp[]) {
    size_t bytes = strlen(file);
    (void)files, (void)how;
    for (char *const *each = argv; *each; each++) {
        bytes += strlen(*each);
    }
    for (char *const *each = envp; *each; each++) {
        bytes += strlen(*each);
    }
    count_spawned++;
    *pid = MAIN;
    return bytes % 7 == 0 ? ENOENT : 0;
}

/* The main process ends after some looks, and one that it leaves after some more. */
static pid_t fuzz_wait4(pid_t pid, int *status, int flags, struct rusage *used) {
    (void)pid;
    if (++looks > MOST_LOOKS) {
        abort(); /* it never ends */
    }
    memset(used, 0, sizeof *used);
    *status = 0;
    if (looks_until_main >= 0) {
        if (looks_until_main-- > 0 && flags == WNOHANG) {
            return 0;
        }
        looks_until_main = -1;
        return MAIN;
    }
    if (looks_until_others >= 0) {
        if (looks_until_others-- > 0 && flags == WNOHANG) {
            return 0;
        }
        looks_until_others = -1;
        return OTHER;
    }
    errno = ECHILD;
    return -1;
}

/* Nothing is waited for: the clock goes on instead. */
static int fuzz_ppoll(struct pollfd *polled, nfds_t count, const struct timespec *until,
                      const sigset_t *mask) {
    (void)mask;
    clock_s += until == NULL ? 1 : (double)until->tv_sec + (double)until->tv_nsec / 1e9 + 1e-6;
    int others = poll(polled + 1, count - 1, 0);
    polled[0].revents = POLLIN; /* a child may have ended */
    return others + 1;
}

static int fuzz_clock(clockid_t clock, struct timespec *at) {
    (void)clock;
    at->tv_sec = (time_t)clock_s;
    at->tv_nsec = (long)((clock_s - (double)at->tv_sec) * 1e9);
    return 0;
}

/* What is read after a message's end is found: the rest of the buffer is not to be used. */
static ssize_t fuzz_recvmsg(int sock, struct msghdr *message, int flags) {
    char *buffer = message->msg_iov->iov_base;
    size_t room = message->msg_iov->iov_len;
    ASAN_UNPOISON_MEMORY_REGION(buffer, room);
    ssize_t size = recvmsg(sock, message, flags | MSG_DONTWAIT);
    if (size < 0 && errno == EAGAIN) {
        size = 0; /* no holder would ever say more */
    }
    if (size >= 0) {
        ASAN_POISON_MEMORY_REGION(buffer + size, room - (size_t)size);
    }
    return size;
}

/* A file in memory whose content ends where the file does, not at the end of its page. */
static void *fuzz_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    (void)at, (void)protection, (void)flags, (void)offset;
    if (size == 0 || size > 1 << 20) {
        return MAP_FAILED;
    }
    char *body = malloc(size);
    return pread(fd, body, size, 0) == (ssize_t)size ? body : MAP_FAILED;
}

#define kill fuzz_kill
#define _exit fuzz_exit
#define posix_spawnp fuzz_spawn
#define wait4 fuzz_wait4
#define ppoll fuzz_ppoll
#define clock_gettime fuzz_clock
#define recvmsg fuzz_recvmsg
#define mmap fuzz_mmap
#include "../../ec2_agent/sandbox/slot.c"
#undef kill
#undef _exit
#undef clock_gettime
#undef recvmsg
#undef mmap

static uint64_t state;

static uint32_t any(uint32_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

static char body[1 << 18];
static size_t length;

static void add(const void *bytes, size_t count) {
    memcpy(body + length, bytes, count);
    length += count;
}

/* A command that is as it should be. */
static void make_run(void) {
    struct run run = {.kind = 'J', .has_stdin = (char)any(2), .argc = 1 + any(4), .envc = any(5)};
    static const double times[] = {-1, 0, 0.5, 600, 1e300};
    run.timeout_s = times[any(5)];
    run.grace_s = times[1 + any(4)];
    length = 0;
    add(&run, sizeof run);
    for (uint32_t each = 0; each < run.argc + run.envc; each++) {
        char text[64];
        size_t size = any(sizeof text);
        memset(text, 'x', size);
        text[size] = 0;
        add(text, size + 1);
    }
}

/* The files about a job's machine. */
static void make_machine(void) {
    length = 0;
    add("P", 1);
    for (int each = 0; each < MACHINE_FILES; each++) {
        uint32_t size = any(3000);
        add(&size, sizeof size);
        memset(body + length, 'x', size);
        length += size;
    }
}

static void spoil_machine(void) {
    static const uint32_t sizes[] = {0, 1, 3000, 65535, 0x7fffffff, 0xffffffff};
    if (any(2)) {
        length = 1 + any((uint32_t)length);
    } else {
        memcpy(body + 1, &sizes[any(6)], sizeof sizes[0]);
    }
}

/* Another message of a holder. */
static void make_word(void) {
    struct stop stop = {.kind = 'S', .grace_s = (double)any(20)};
    length = 0;
    if (any(2)) {
        add(&stop, sizeof stop);
    } else {
        add("D", 1);
    }
}

static void spoil(void) {
    static const uint32_t counts[] = {0, 1, 2, 3, 255, 65535, 0x7fffffff, 0x80000000, 0xffffffff};
    static const double times[] = {NAN, INFINITY, -INFINITY, 1e308, -0.0, 1e-320};
    size_t at;
    switch (any(8)) {
    case 0: length = any((uint32_t)length + 1); break;
    case 1: memset(body + length, any(256), 64); length += any(64); break;
    case 2: body[any((uint32_t)length + 1)] = (char)any(256); break;
    case 3: at = any(2) ? offsetof(struct run, argc) : offsetof(struct run, envc);
            memcpy(body + at, &counts[any(9)], 4); break;
    case 4: at = any(2) ? offsetof(struct run, timeout_s) : offsetof(struct run, grace_s);
            memcpy(body + at, &times[any(6)], 8); break;
    case 5: memcpy(body + offsetof(struct stop, grace_s), &times[any(6)], 8); break;
    case 6: if (length > 0 && body[length - 1] == 0) { body[length - 1] = 'x'; } break;
    case 7: for (size_t each = 0; each < length; each++) { body[each] = (char)any(256); } break;
    }
}

/* Sends the message, in a file in memory if `big`, with some descriptors. */
static void send_body(int sock, int big) {
    int given[GIVEN + 4], count = any(8) ? (int)any(5) : (int)any(GIVEN + 4);
    for (int each = 0; each < count; each++) {
        given[each] = STDERR_FILENO;
    }
    int memory = -1;
    if (big) {
        memory = memfd_create("message", MFD_CLOEXEC);
        if (write(memory, body, length) != (ssize_t)length) {
            abort();
        }
        given[0] = memory;
        count += count == 0;
    }
    struct iovec part = {big ? "B" : body, big ? 1 : length};
    char control[CMSG_SPACE(sizeof given)] = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(rights), given, (size_t)count * sizeof(int));
    }
    (void)!sendmsg(sock, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (memory >= 0) {
        close(memory);
    }
}

static void one_round(int spoiled) {
    int pair[2];
    char answer[PACKET];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        abort();
    }
    if (any(8) == 0) { /* as in a slot, where they are files of its own */
        for (int fd = UPTIME; fd <= LAST_FILE; fd++) {
            int memory = memfd_create("proc", MFD_CLOEXEC);
            if (memory < 0 || dup3(memory, fd, O_CLOEXEC) < 0) {
                abort();
            }
            close(memory);
        }
        make_machine();
        if (spoiled && any(2)) {
            spoil_machine();
        }
        send_body(pair[0], 0);
    }
    make_run();
    for (int each = spoiled ? 1 + (int)any(3) : 0; each > 0; each--) {
        spoil();
    }
    send_body(pair[0], any(4) == 0);
    for (int each = (int)any(4); each > 0; each--) {
        make_word();
        if (any(2)) {
            spoil();
        }
        send_body(pair[0], 0);
    }
    looks = 0;
    looks_until_main = (int)any(6);
    looks_until_others = (int)any(12) - 4;
    if (setjmp(out) == 0) {
        slot_run_one(pair[1]);
        ssize_t size;
        while ((size = recv(pair[0], answer, sizeof answer, MSG_DONTWAIT)) > 0) {
            count_ended += answer[0] == 'E' && (size_t)size >= sizeof(struct ending);
        }
    }
    close_range(SIGNALS + 1, ~0u, 0);
}

int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 10000;
    state = argc > 2 ? (uint64_t)atol(argv[2]) : 1;
    int null = open("/dev/null", O_RDWR);
    dup2(null, SOCKET);
    dup2(null, SIGNALS);
    for (long each = 0; each < rounds; each++) {
        one_round(each % 2);
    }
    printf("rounds %ld spawned %ld refused %ld signals %ld ended %ld\n", rounds, count_spawned,
           count_refused, count_signals, count_ended);
    return 0;
}
