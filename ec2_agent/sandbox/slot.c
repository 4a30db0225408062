/* The init process (pid 1) of a sandbox: the part of a slot that runs in every job.
 *
 * The launcher process (zygote.py) is Python and loads this as a library. It prepares once, as a list
 * of system calls, how a slot is built and gives up its privileges (slot.py); here the list is carried
 * out in the child, which then runs one job and reports its ending. No Python runs in such a child: it
 * would write to most pages of the interpreter, each of which the kernel then copies, and frees at the
 * end (docs/decisions/0101).
 *
 * Nothing here allocates memory but what one message needs, and nothing trusts the job: the job's
 * process has no way to this one but signals, which pid 1 of a namespace does not receive, its exit
 * status, and the first bytes of a program that could not be run (program.h).
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

/* The descriptors of a slot; the same in slot.py. */
enum { SOCKET = 3, SIGNALS = 4 };

/* Files that a slot has in /proc, open up to the job's start: the time of the start, and what tells
 * about the job's machine (MACHINE_FILES of wire.py). The same in slot.py. */
enum { UPTIME = 24, MACHINE = 25, MACHINE_FILES = 3, LAST_FILE = MACHINE + MACHINE_FILES - 1 };

enum { SIGNAL_BYTES = 128, PACKET = 65536, GIVEN = 16 };

/* stdin, stdout, stderr and the job's line: what a command comes with at most. */
enum { STREAMS = 4 };

/* Seconds that other processes of a job may go on once its main process has ended; once its pipes are
 * at their end as well, which they are shortly before the last writer is gone; and those between SIGTERM
 * and SIGKILL. */
static const double OTHERS_S = 2, DRAINED_S = 0.2, OTHERS_GRACE_S = 2;

/* The longest sleep in seconds; without a limit, a time might not fit its C type. */
static const double LONGEST_S = 86400;

/* Exit codes of a shell for a command that is not executable, or not found. */
enum { CANNOT_RUN = 126, NOT_FOUND = 127 };

/* One system call of a list (steps.py); `what` begins the message when it fails. */
struct step {
    int64_t number;
    int64_t flags;
    int64_t arguments[6];
    const char *what;
};

/* Flags: it returns a new descriptor; its failure changes nothing; it has to fail with ENOENT. */
enum { OPENS_ONE = 1, MAY_FAIL = 2, FINDS_NOTHING = 4 };

/* As an argument: the descriptor that the last call opened. */
#define OPENED INT64_MIN

/* RUN of wire.py: after it `argc` + `envc` texts, each with its NUL. */
struct run {
    char kind, has_stdin, padding[2];
    uint32_t argc, envc;
    double timeout_s, grace_s; /* timeout below 0: none */
};

/* STOP of wire.py. */
struct stop {
    char kind, padding[7];
    double grace_s;
};

/* ENDED of wire.py. */
struct __attribute__((packed)) ending {
    char kind;
    int32_t status;
    uint8_t timed_out, stopped, left;
    double cpu_s, wall_s;
};

struct job {
    pid_t main;
    int status, ended, timed_out, stopped;
    int alone;   /* no other process is left */
    int drained; /* the holder has read all that could be written */
    int left;    /* others were ended that nobody had asked to end before */
    double cpu_s, deadline, kill_at, grace_s; /* times of CLOCK_MONOTONIC; 0: none */
    char *name, *search; /* of the command, which the next message overwrites: its program and its PATH */
};

static char packet[PACKET];
static int received[GIVEN], count_received;

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

/* Returns how many calls succeeded: `count`, or the index of the one that failed, with errno. */
long slot_steps(const struct step *steps, long count) {
    int64_t opened = -1;
    for (long each = 0; each < count; each++) {
        int64_t of[6];
        for (int place = 0; place < 6; place++) {
            int64_t value = steps[each].arguments[place];
            of[place] = value == OPENED ? opened : value;
        }
        long result = syscall(steps[each].number, of[0], of[1], of[2], of[3], of[4], of[5]);
        if (steps[each].flags & FINDS_NOTHING) {
            if (result < 0 && errno == ENOENT) {
                continue;
            }
            errno = result < 0 ? errno : EEXIST;
            return each;
        }
        if (result < 0 && !(steps[each].flags & MAY_FAIL)) {
            return each;
        }
        if (steps[each].flags & OPENS_ONE) {
            opened = result;
        }
    }
    return count;
}

/* Receives one message and its descriptors. Returns its size; 0 is the end of the stream, or an error,
 * and -1 a message that did not fit. */
static ssize_t receive(int sock) {
    char control[CMSG_SPACE(sizeof received)];
    struct iovec into = {packet, sizeof packet};
    struct msghdr message = {.msg_iov = &into, .msg_iovlen = 1};
    ssize_t size;
    int resets = 0;
    count_received = 0;
    do {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        size = recvmsg(sock, &message, MSG_CMSG_CLOEXEC);
        /* An end of the other side that has not read all is reported before what it had sent. */
    } while (size < 0 && (errno == EINTR || (errno == ECONNRESET && resets++ == 0)));
    if (size <= 0) {
        return 0;
    }
    for (struct cmsghdr *each = CMSG_FIRSTHDR(&message); each; each = CMSG_NXTHDR(&message, each)) {
        if (each->cmsg_level == SOL_SOCKET && each->cmsg_type == SCM_RIGHTS) {
            count_received = (int)((each->cmsg_len - CMSG_LEN(0)) / sizeof(int));
            memcpy(received, CMSG_DATA(each), (size_t)count_received * sizeof(int));
        }
    }
    return message.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? -1 : size;
}

static void close_received(void) {
    for (int each = 0; each < count_received; each++) {
        close(received[each]);
    }
    count_received = 0;
}

static void signal_all(int number) { kill(-1, number); }

/* Sends SIGTERM to every process, and SIGKILL later; an earlier SIGKILL stays scheduled. */
static void terminate(struct job *job, double grace_s) {
    double kill_at = now() + grace_s;
    job->deadline = 0;
    if (job->kill_at == 0 || kill_at < job->kill_at) {
        job->kill_at = kill_at;
    }
    signal_all(SIGTERM);
    signal_all(SIGCONT); /* stopped processes would not receive the SIGTERM */
}

/* The timeout is over; or, after the main process, the time of the others is. */
static void end_of_time(struct job *job) {
    if (job->ended) {
        job->left = !job->timed_out && !job->stopped;
        terminate(job, OTHERS_GRACE_S);
    } else {
        job->timed_out = 1;
        terminate(job, job->grace_s);
    }
}

static void kill_all(struct job *job) {
    job->deadline = job->kill_at = 0;
    signal_all(SIGKILL);
}

/* Reaps ended children; with flags 0 waits for all. Returns 0 when none is left. */
static int reap(struct job *job, int flags) {
    for (;;) {
        int status;
        struct rusage used;
        pid_t pid = wait4(-1, &status, flags, &used);
        if (pid < 0 && errno == EINTR) {
            continue;
        }
        if (pid < 0) {
            job->alone = 1;
            return 0;
        }
        if (pid == 0) {
            return 1;
        }
        job->cpu_s += (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                      (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
        if (pid == job->main) {
            job->status = status;
            job->ended = 1;
        }
    }
}

static void hear(struct job *job, int sock) {
    ssize_t size = receive(sock);
    struct stop stop;
    close_received();
    if (size == 0) { /* no holder is left to receive the ending */
        kill_all(job);
    } else if (size == sizeof stop && packet[0] == 'S') {
        memcpy(&stop, packet, sizeof stop);
        stop.grace_s = isnan(stop.grace_s) ? 0 : stop.grace_s;
        if (!job->ended) {
            job->stopped = 1;
        } else {
            job->left = !job->timed_out && !job->stopped;
            stop.grace_s = stop.grace_s < OTHERS_GRACE_S ? stop.grace_s : OTHERS_GRACE_S;
        }
        terminate(job, stop.grace_s);
    } else if (size == 1 && packet[0] == 'D') {
        job->drained = 1;
    }
}

/* Waits until a child ends, the holder sends a message, or a time is over. */
static void wait_for_news(struct job *job, int sock) {
    struct pollfd polled[] = {{SIGNALS, POLLIN, 0}, {sock, POLLIN, 0}};
    double next = job->deadline;
    if (job->kill_at != 0 && (next == 0 || job->kill_at < next)) {
        next = job->kill_at;
    }
    struct timespec pause, *until = NULL;
    if (next != 0) {
        double left = next - now();
        left = left < 0 ? 0 : left > LONGEST_S ? LONGEST_S : left;
        pause.tv_sec = (time_t)left;
        pause.tv_nsec = (long)((left - (double)pause.tv_sec) * 1e9);
        until = &pause;
    }
    if (ppoll(polled, 2, until, NULL) > 0) {
        if (polled[0].revents) {
            char signals[SIGNAL_BYTES];
            (void)!read(SIGNALS, signals, sizeof signals);
            reap(job, WNOHANG);
        }
        if (polled[1].revents) {
            hear(job, sock);
        }
    }
    double at = now();
    if (job->deadline != 0 && at >= job->deadline) {
        end_of_time(job);
    }
    if (job->kill_at != 0 && at >= job->kill_at) {
        kill_all(job);
    }
}

/* Writes the files about the job's machine, which the holder sends if they differ from what is in
 * them: each follows its size. */
static void describe_machine(size_t size) {
    size_t at = 1;
    for (int each = 0; each < MACHINE_FILES; each++) {
        uint32_t length;
        if (size - at < sizeof length) {
            _exit(1);
        }
        memcpy(&length, packet + at, sizeof length);
        at += sizeof length;
        if (size - at < length || pwrite(MACHINE + each, packet + at, length, 0) != (ssize_t)length ||
            ftruncate(MACHINE + each, (off_t)length) != 0) {
            _exit(1);
        }
        at += length;
    }
}

/* Writes when the job was started, in seconds since the host's, and closes the files: nothing writes
 * to them while the job runs. Where nothing was built, as in the launcher's rehearsal, there are none. */
static void note_start(void) {
    static const char no_idle_time[] = "0.00\n";
    struct timespec at;
    char text[32], *begin = text + sizeof text - sizeof no_idle_time + 1;
    memcpy(begin, no_idle_time, sizeof no_idle_time - 1);
    clock_gettime(CLOCK_BOOTTIME, &at);
    long hundredths = at.tv_nsec / 10000000;
    *--begin = ' ';
    *--begin = (char)('0' + hundredths % 10);
    *--begin = (char)('0' + hundredths / 10);
    *--begin = '.';
    time_t seconds = at.tv_sec;
    do {
        *--begin = (char)('0' + seconds % 10);
    } while ((seconds /= 10) > 0 && begin > text);
    (void)!pwrite(UPTIME, begin, (size_t)(text + sizeof text - begin), 0);
    close_range(UPTIME, LAST_FILE, 0);
}

/* Starts the job's process. Returns an errno, and what it means for the program if that is known. */
static int spawn(struct job *job, const struct run *run, char *texts, char why[EXPLANATION]) {
    char **argv = malloc((size_t)(run->argc + run->envc + 2) * sizeof *argv);
    job->name = strndup(texts, PATH_BYTES - 1);
    if (argv == NULL || job->name == NULL) {
        return ENOMEM;
    }
    char **envp = argv + run->argc + 1, **before = environ;
    for (uint32_t each = 0; each < run->argc; each++, texts += strlen(texts) + 1) {
        argv[each] = texts;
    }
    argv[run->argc] = NULL;
    for (uint32_t each = 0; each < run->envc; each++, texts += strlen(texts) + 1) {
        envp[each] = texts;
    }
    envp[run->envc] = NULL;
    environ = envp; /* posix_spawnp searches the caller's PATH */
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_t how;
    posix_spawn_file_actions_t files;
    posix_spawnattr_init(&how);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawn_file_actions_init(&files);
    int failed = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    /* Perhaps stdin, then stdout, stderr, and perhaps the job's line, in place of this process's
     * own socket. None of them was received as a number below that. */
    for (int each = 0; each < count_received && !failed; each++) {
        failed = posix_spawn_file_actions_adddup2(&files, received[each],
                                                  each + (run->has_stdin ? 0 : 1));
    }
    if (!failed) {
        failed = posix_spawnp(&job->main, argv[0], &files, &how, argv, envp);
    }
    const char *search = getenv("PATH");
    job->search = search == NULL ? NULL : strdup(search);
    explain_error(job->name, job->search, failed, why);
    environ = before;
    return failed;
}

/* Waits for the processes that the main process has left running, as a `tee` that its shell does not wait for: until
 * none is left, or nothing can be written to the job's pipes any more. After OTHERS_S at the latest they
 * are asked to end. Returns when none is left, or all were sent SIGKILL.
 *
 *     init:   the main process ends, others are left -- MAIN_ENDED ------------------------ SIGTERM
 *     holder:                                                     \-- both pipes end -- DRAINED -/
 */
static void await_others(struct job *job, int sock) {
    if (!job->alone) {
        send(sock, "N", 1, MSG_NOSIGNAL);
        /* Those that were asked to end before keep the rest of their grace. */
        job->deadline = job->kill_at != 0 ? 0 : now() + OTHERS_S;
    }
    while (!job->alone && (job->deadline != 0 || job->kill_at != 0)) {
        if (job->drained && job->deadline != 0) {
            double soon = now() + DRAINED_S;
            job->drained = 0;
            job->deadline = soon < job->deadline ? soon : job->deadline;
        }
        wait_for_news(job, sock);
    }
}

/* Whether the texts after a `struct run` are as many as it says, each with its NUL. */
static int has_texts(const struct run *run, const char *texts, size_t size) {
    size_t wanted = (size_t)run->argc + run->envc;
    const char *end = texts + size;
    while (wanted > 0 && texts < end && (texts = memchr(texts, 0, (size_t)(end - texts))) != NULL) {
        texts++;
        wanted--;
    }
    return wanted == 0 && texts == end;
}

/* Receives a command, runs it to its end, and sends how it ended. Ends this process if it cannot, so
 * that the holder does not wait. */
void slot_run_one(int sock) {
    ssize_t size = receive(sock);
    char *body = packet;
    if (size > 0 && packet[0] == 'P') {
        describe_machine((size_t)size);
        size = receive(sock);
    }
    if (size == 0) { /* the slot is not needed */
        return;
    }
    if (size < 0) {
        _exit(1);
    }
    /* Too long for a packet: in a memfd, the first descriptor. */
    if (packet[0] == 'B' && count_received > 0) {
        size = lseek(received[0], 0, SEEK_END);
        body = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, received[0], 0);
        if (body == MAP_FAILED) {
            _exit(1);
        }
        close(received[0]);
        count_received--;
        memmove(received, received + 1, (size_t)count_received * sizeof(int));
    }
    struct run run;
    if ((size_t)size < sizeof run || body[0] != 'J') {
        _exit(1);
    }
    memcpy(&run, body, sizeof run);
    if (run.argc == 0 || !has_texts(&run, body + sizeof run, (size_t)size - sizeof run) ||
        isnan(run.timeout_s) || isnan(run.grace_s) || count_received > STREAMS) {
        _exit(1);
    }
    struct job job = {.main = -1, .grace_s = run.grace_s};
    double began = now();
    if (run.timeout_s >= 0) {
        job.deadline = began + run.timeout_s;
    }
    struct ending ending = {.kind = 'E'};
    struct iovec parts[4] = {{&ending, sizeof ending}};
    char why[EXPLANATION];
    why[0] = 0;
    note_start();
    int error = spawn(&job, &run, body + sizeof run, why), used = 1;
    const char *said = why;
    if (error) {
        job.ended = job.alone = 1;
        job.status = (error == ENOENT || error == ENOTDIR ? NOT_FOUND : CANNOT_RUN) << 8;
        said = why[0] == 0 ? strerrordesc_np(error) : why;
    }
    close_received();
    while (!job.ended) {
        wait_for_news(&job, sock);
    }
    ending.wall_s = now() - began;
    if (!error && WIFEXITED(job.status) && WEXITSTATUS(job.status) == NOT_FOUND) {
        explain_not_found(job.name, job.search, why);
    }
    await_others(&job, sock);
    /* The kernel checks for pending signals while it holds the lock under which a fork adds its
     * child, so a fork bomb cannot escape one kill(-1, SIGKILL). The job's remaining processes are
     * children of this init now. */
    while (reap(&job, WNOHANG)) {
        kill_all(&job);
        reap(&job, 0);
    }
    ending.status = job.status;
    ending.timed_out = (uint8_t)job.timed_out;
    ending.stopped = (uint8_t)job.stopped;
    ending.left = (uint8_t)job.left;
    ending.cpu_s = job.cpu_s;
    if (said[0] != 0 && job.name != NULL) {
        parts[used++] = (struct iovec){job.name, strlen(job.name)};
        parts[used++] = (struct iovec){": ", 2};
        parts[used++] = (struct iovec){(void *)said, strlen(said)};
    }
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)used};
    sendmsg(sock, &message, MSG_NOSIGNAL);
}

/* Sends the pidfd of this process, with which the holder can kill the sandbox. */
static void announce(void) {
    int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    char control[CMSG_SPACE(sizeof pidfd)] = {0};
    struct iovec body = {"M", 1};
    struct msghdr message = {.msg_iov = &body,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof pidfd);
    memcpy(CMSG_DATA(rights), &pidfd, sizeof pidfd);
    sendmsg(SOCKET, &message, MSG_NOSIGNAL);
    close(pidfd);
}

static void refuse(const struct step *failed) {
    int32_t none = 0;
    int error = errno;
    const char *said = strerrordesc_np(error);
    struct iovec parts[] = {{"F", 1}, {&none, sizeof none}, {(void *)failed->what, strlen(failed->what)}, {": ", 2},
                            {(void *)said, strlen(said)}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 5};
    sendmsg(SOCKET, &message, MSG_NOSIGNAL);
}

/* Sets SCHED_BATCH, with which this process does not preempt others on wake-up, and waits until the
 * holder has read the figures of the cgroup, which is removed after this process exits. */
void slot_await_holder(void) {
    struct sched_param none = {0};
    ssize_t size;
    char byte;
    sched_setscheduler(0, SCHED_BATCH, &none);
    do {
        size = recv(SOCKET, &byte, 1, 0);
    } while (size > 0 || (size < 0 && errno == EINTR));
}

/* Forks into new namespaces (`arguments`, of clone3) and lives as a slot in the child, with `sock` as
 * SOCKET. A slot of the pool is announced when it is ready; one that a job waits for at once, so that
 * the agent sends the job while the rest is done, and says afterwards that it is ready. Returns the
 * pid, or -1 with errno. */
long slot_fork(void *arguments, long size, int sock, const struct step *steps, long count,
               int pooled) {
    long pid = syscall(SYS_clone3, arguments, size);
    if (pid != 0) {
        return pid;
    }
    if (dup3(sock, SOCKET, O_CLOEXEC) == SOCKET) {
        if (!pooled) {
            announce();
        }
        long done = slot_steps(steps, count);
        if (done < count) {
            refuse(&steps[done]);
            _exit(0);
        }
        if (pooled) {
            announce();
        } else {
            send(SOCKET, "R", 1, MSG_NOSIGNAL);
        }
        slot_run_one(SOCKET);
        slot_await_holder();
    }
    _exit(0);
}
