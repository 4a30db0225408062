/* Says why a program cannot be run although its file is there.
 *
 * The kernel answers "No such file or directory" also if the file's interpreter or its loader is missing.
 * The first bytes of the file name both. They are the job's: nothing here follows a length or an offset
 * of theirs further than the buffers.
 */

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the kernel reads of a script (BINPRM_BUF_SIZE); the longest path, with its NUL; headers of an ELF
 * file that are looked at; interpreters of interpreters. */
enum { FIRST_BYTES = 256, PATH_BYTES = 4096, MOST_HEADERS = 64, NESTED = 4 };

/* The longest explanation, with its NUL. */
enum { EXPLANATION = 512 };

#if defined(__x86_64__)
enum { OWN_MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { OWN_MACHINE = EM_AARCH64 };
#endif

/* Opens a regular file; -1 for anything else, without waiting for it. */
static int open_file(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat is;
    if (fd >= 0 && (fstat(fd, &is) != 0 || !S_ISREG(is.st_mode))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Opens the first file that posix_spawnp would try: `name` if it has a slash, else in one of the
 * directories of `search`. */
static int open_program(const char *name, const char *search) {
    char path[PATH_BYTES];
    if (strchr(name, '/') != NULL) {
        return open_file(name);
    }
    search = search == NULL ? "/bin:/usr/bin" : search;
    for (;;) {
        size_t length = strcspn(search, ":");
        if (length < sizeof path) {
            snprintf(path, sizeof path, "%.*s%s%s", (int)length, search, length ? "/" : "", name);
            int fd = open_file(path);
            if (fd >= 0) {
                return fd;
            }
        }
        if (search[length] == 0) {
            return -1;
        }
        search += length + 1;
    }
}

/* Whether the first line of a script ends with a carriage return, of which the kernel makes a part of the
 * interpreter's name, or of its argument. */
static int has_windows_line(const char *first, size_t size) {
    const char *end = size < 2 || memcmp(first, "#!", 2) != 0 ? NULL : memchr(first, '\n', size);
    return end != NULL && end[-1] == '\r';
}

static const char *machine_name(unsigned machine) {
    switch (machine) {
    case EM_X86_64:
        return "x86_64";
    case EM_AARCH64:
        return "aarch64";
    case EM_386:
        return "i386";
    case EM_ARM:
        return "arm";
    default:
        return "another architecture";
    }
}

/* The machine of an ELF file of this byte order, and the place of its loader's name. Returns the size of
 * the name, 0 if it names none, and -1 if it is no ELF file. */
static long find_loader(int fd, const char *first, size_t size, unsigned *machine, off_t *at) {
    union {
        Elf64_Ehdr wide;
        Elf32_Ehdr narrow;
    } file;
    union {
        Elf64_Phdr wide;
        Elf32_Phdr narrow;
    } header;
    if (size < sizeof file || memcmp(first, ELFMAG, SELFMAG) != 0) {
        return -1;
    }
    memcpy(&file, first, sizeof file);
    int is_wide = file.wide.e_ident[EI_CLASS] == ELFCLASS64;
    *machine = file.wide.e_machine; /* at the same place in both */
    uint64_t place = is_wide ? file.wide.e_phoff : file.narrow.e_phoff;
    unsigned each = is_wide ? file.wide.e_phentsize : file.narrow.e_phentsize;
    unsigned count = is_wide ? file.wide.e_phnum : file.narrow.e_phnum;
    size_t wanted = is_wide ? sizeof header.wide : sizeof header.narrow;
    if (each < wanted || place > INT32_MAX) {
        return 0;
    }
    for (unsigned n = 0; n < count && n < MOST_HEADERS; n++) {
        if (pread(fd, &header, wanted, (off_t)(place + (uint64_t)n * each)) != (ssize_t)wanted) {
            return 0;
        }
        if ((is_wide ? header.wide.p_type : header.narrow.p_type) == PT_INTERP) {
            uint64_t length = is_wide ? header.wide.p_filesz : header.narrow.p_filesz;
            uint64_t offset = is_wide ? header.wide.p_offset : header.narrow.p_offset;
            *at = (off_t)(offset > INT32_MAX ? INT32_MAX : offset);
            return length > FIRST_BYTES ? FIRST_BYTES : (long)length;
        }
    }
    return 0;
}

static void explain_file(int fd, int error, char *text, size_t room, int nested);

/* Says what is wrong with the interpreter that a script names. */
static void explain_script(const char *first, size_t size, int error, char *text, size_t room, int nested) {
    char interpreter[FIRST_BYTES + 1];
    size_t begin = 2, length = 0;
    while (begin < size && (first[begin] == ' ' || first[begin] == '\t')) {
        begin++;
    }
    while (begin + length < size && first[begin + length] != 0 && strchr(" \t\n", first[begin + length]) == NULL) {
        length++;
    }
    memcpy(interpreter, first + begin, length);
    interpreter[length] = 0;
    if (has_windows_line(first, size)) {
        snprintf(text, room, "its first line ends with a carriage return (Windows line ends)");
    } else if (length == 0) {
        snprintf(text, room, "its first line names no interpreter");
    } else if (access(interpreter, F_OK) != 0) {
        snprintf(text, room, "its interpreter %s does not exist", interpreter);
    } else if (nested < NESTED) {
        char why[EXPLANATION] = "";
        int fd = open_file(interpreter);
        if (fd >= 0) {
            explain_file(fd, error, why, sizeof why, nested + 1);
        }
        if (why[0] != 0) {
            snprintf(text, room, "its interpreter %.256s cannot be run: %.200s", interpreter, why);
        }
    }
}

/* Says why the kernel does not run a file, and closes it; `text` stays empty if the file is in order. */
static void explain_file(int fd, int error, char *text, size_t room, int nested) {
    char first[FIRST_BYTES], loader[FIRST_BYTES + 1];
    ssize_t got = pread(fd, first, sizeof first, 0);
    size_t size = got < 0 ? 0 : (size_t)got;
    unsigned machine = 0;
    off_t at = 0;
    long length = find_loader(fd, first, size, &machine, &at);
    if (size >= 2 && memcmp(first, "#!", 2) == 0) {
        explain_script(first, size, error, text, room, nested);
    } else if (length >= 0 && error == ENOEXEC && machine != OWN_MACHINE) {
        snprintf(text, room, "it is a program for %s, and this host is %s", machine_name(machine),
                 machine_name(OWN_MACHINE));
    } else if (length > 0 && pread(fd, loader, (size_t)length, at) == length) {
        loader[length] = 0;
        if (access(loader, F_OK) != 0) {
            snprintf(text, room, "its loader %s does not exist", loader);
        }
    } else if (length < 0 && error == ENOEXEC && got >= 0) {
        snprintf(text, room, "it is no program of Linux, and has no first line that names its interpreter (#!)");
    }
    close(fd);
}

/* Says why a program was not run, as posix_spawnp would look for it; empty if that is not known. */
static void explain_error(const char *name, const char *search, int error, char text[EXPLANATION]) {
    int fd = error == ENOENT || error == ENOEXEC ? open_program(name, search) : -1;
    text[0] = 0;
    if (fd >= 0) {
        explain_file(fd, error, text, EXPLANATION, 0);
    }
}

/* Says why a script that was run ended with the exit code of a command that is not found: `#!/usr/bin/env`
 * looks for a program whose name ends with the carriage return. */
static void explain_not_found(const char *name, const char *search, char text[EXPLANATION]) {
    char first[FIRST_BYTES];
    int fd = open_program(name, search);
    text[0] = 0;
    if (fd >= 0) {
        ssize_t size = pread(fd, first, sizeof first, 0);
        if (size > 0 && has_windows_line(first, (size_t)size)) {
            snprintf(text, EXPLANATION, "its first line ends with a carriage return (Windows line ends)");
        }
        close(fd);
    }
}
