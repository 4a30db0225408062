/* Explains spoiled programs, under AddressSanitizer and UBSan: scripts/test fuzz.
 *
 *     program-fuzz ROUNDS SEED
 */

#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

#include "../../ec2_agent/sandbox/program.h"

static uint64_t state;

static uint32_t any(uint32_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

static char content[4096];

/* An ELF file whose loader does not exist; returns its size. */
static size_t make_program(void) {
    static const char loader[] = "/none/ld.so";
    Elf64_Ehdr file = {.e_machine = any(2) ? OWN_MACHINE : EM_ARM, .e_phoff = sizeof file,
                       .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 2};
    Elf64_Phdr headers[2] = {{.p_type = PT_LOAD},
                             {.p_type = PT_INTERP, .p_offset = sizeof file + sizeof headers,
                              .p_filesz = sizeof loader}};
    memcpy(file.e_ident, ELFMAG, SELFMAG);
    file.e_ident[EI_CLASS] = any(4) ? ELFCLASS64 : ELFCLASS32;
    memcpy(content, &file, sizeof file);
    memcpy(content + sizeof file, headers, sizeof headers);
    memcpy(content + sizeof file + sizeof headers, loader, sizeof loader);
    return 1024; /* so that a name that is said to be longer can be read */
}

/* A script whose interpreter is missing, is a directory, or is the script itself. */
static size_t make_script(int fd) {
    static const char *const ends[] = {"", "\n", "\r\n", " -x\r\n", "\t\n"};
    char itself[32];
    snprintf(itself, sizeof itself, "/proc/self/fd/%d", fd);
    const char *names[] = {"/none", "/", "", itself};
    return (size_t)snprintf(content, sizeof content, "#!%s%s%s", any(2) ? " " : "", names[any(4)], ends[any(5)]);
}

static size_t spoil(size_t size) {
    for (uint32_t times = any(4); times > 0; times--) {
        content[any(size < 256 ? (uint32_t)size : 256)] = (char)any(256);
    }
    return any(3) ? size : any((uint32_t)size + 1);
}

int main(int argc, char **argv) {
    static const int errors[] = {ENOENT, ENOEXEC, EACCES};
    long rounds = argc == 3 ? atol(argv[1]) : 0, explained = 0;
    state = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
    for (long round = 0; round < rounds; round++) {
        int fd = memfd_create("program", MFD_CLOEXEC);
        size_t size = spoil(any(2) ? make_program() : make_script(fd));
        char *text = malloc(EXPLANATION); /* one byte too far is found */
        if (write(fd, content, size) != (ssize_t)size) {
            return 1;
        }
        text[0] = 0;
        explain_file(fd, errors[any(3)], text, EXPLANATION, 0);
        explained += text[0] != 0;
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)any(16), "no/such.program");
        explain_error(name, any(2) ? "/none::/usr/bin" : NULL, ENOENT, text);
        explain_not_found(name, ":", text);
        free(text);
    }
    printf("explained %ld\n", explained);
    return 0;
}
