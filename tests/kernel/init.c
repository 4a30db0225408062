/* The first process of the test machine: load the modules that lie beside it, mount the host's
 * file system read-only over virtiofs, move into it, and run what the command line says. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int no_dots(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static void fail(const char *step) {
    perror(step);
    sync();
    reboot(RB_POWER_OFF);
    _exit(1);
}

int main(void) {
    struct dirent **names;
    char path[512], line[4096], *word, *run = NULL;

    int count = scandir("/modules", &names, no_dots, alphasort); /* 00-, 01-, ...: load order */
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "/modules/%s", names[i]->d_name);
        int fd = open(path, O_RDONLY);
        if (syscall(SYS_finit_module, fd, "", 0) != 0) fail(path);
        close(fd);
    }
    mkdir("/proc", 0755);
    mkdir("/root", 0755);
    if (mount("proc", "/proc", "proc", 0, NULL) != 0) fail("proc");
    int fd = open("/proc/cmdline", O_RDONLY);
    line[read(fd, line, sizeof line - 1)] = 0;
    for (word = strtok(line, " \n"); word; word = strtok(NULL, " \n"))
        if (strncmp(word, "joblane.run=", 12) == 0) run = word + 12;
    umount2("/proc", MNT_DETACH);
    if (run == NULL) fail("no joblane.run= on the kernel's command line");
    if (mount("root", "/root", "virtiofs", MS_RDONLY, NULL) != 0) fail("virtiofs");
    if (chdir("/root") != 0 || mount(".", "/", NULL, MS_MOVE, NULL) != 0 || chroot(".") != 0)
        fail("move to the root");
    char *const argv[] = {"/bin/bash", run, NULL};
    char *const env[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    execve(argv[0], argv, env);
    fail(run);
}
