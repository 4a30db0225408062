"""Names of the system calls that a job may make, and of those it may not make.

The allowed list is moby's default profile (361 names, 2026-08) without what moby allows only
to holders of a capability, and without ptrace, process_vm_*, io_uring, modify_ldt, the keyring,
fanotify and the calls that exist for administrators. Tests and
docs/explanation/security.md use both lists.
"""

ALLOWED = tuple(
    """
    accept accept4 access alarm arch_prctl bind brk cachestat capget capset chdir chmod chown
    clock_getres clock_gettime clock_nanosleep clone close close_range connect copy_file_range
    creat dup dup2 dup3 epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait
    eventfd eventfd2 execve execveat exit exit_group faccessat faccessat2 fadvise64 fallocate
    fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync fgetxattr flistxattr flock
    fork fremovexattr fsetxattr fstat fstatfs fsync ftruncate futex futex_requeue futex_wait
    futex_waitv futex_wake futimesat get_robust_list get_thread_area getcpu getcwd getdents
    getdents64 getegid geteuid getgid getgroups getitimer getpeername getpgid getpgrp getpid
    getppid getpriority getrandom getresgid getresuid getrlimit getrusage getsid getsockname
    getsockopt gettid gettimeofday getuid getxattr getxattrat inotify_add_watch inotify_init
    inotify_init1 inotify_rm_watch ioctl ioprio_get ioprio_set kill landlock_add_rule
    landlock_create_ruleset landlock_restrict_self lchown lgetxattr link linkat listen listxattr
    listxattrat llistxattr lremovexattr lseek lsetxattr lstat madvise map_shadow_stack membarrier
    memfd_create memfd_secret mincore mkdir mkdirat mknod mknodat mlock mlock2 mlockall mmap
    mprotect mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink mremap mseal
    msgctl msgget msgrcv msgsnd msync munlock munlockall munmap nanosleep newfstatat open openat
    openat2 pause pidfd_open pidfd_send_signal pipe pipe2 pkey_alloc pkey_free
    pkey_mprotect poll ppoll prctl pread64 preadv preadv2 prlimit64 pselect6 pwrite64 pwritev
    pwritev2 read readahead readlink readlinkat readv recvfrom recvmmsg recvmsg remap_file_pages
    removexattr removexattrat rename renameat renameat2 restart_syscall riscv_hwprobe rmdir rseq
    rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend
    rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min
    sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval
    sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield seccomp select
    semctl semget semop semtimedop sendfile sendmmsg sendmsg sendto set_robust_list
    set_thread_area set_tid_address setfsgid setfsuid setgid setgroups setitimer setpgid
    setpriority setregid setresgid setresuid setreuid setrlimit setsid setsockopt setuid setxattr
    setxattrat shmat shmctl shmdt shmget shutdown sigaltstack signalfd signalfd4 socket socketpair
    splice stat statfs statmount statx symlink symlinkat sync sync_file_range syncfs sysinfo tee
    tgkill time timer_create timer_delete timer_getoverrun timer_gettime timer_settime
    timerfd_create timerfd_gettime timerfd_settime times tkill truncate umask uname unlink
    unlinkat uretprobe utime utimensat utimes vfork vmsplice wait4 waitid write writev
    """.split()
)

REFUSED = tuple(
    """
    acct add_key adjtimex bpf chroot clock_adjtime clock_settime create_module delete_module
    fanotify_init fanotify_mark finit_module fsconfig fsmount fsopen fspick get_mempolicy
    init_module io_uring_enter io_uring_register io_uring_setup ioperm iopl kcmp
    kexec_file_load kexec_load keyctl listmount lookup_dcookie lsm_set_self_attr mbind
    migrate_pages modify_ldt mount mount_setattr move_mount move_pages name_to_handle_at
    nfsservctl open_by_handle_at open_tree perf_event_open pidfd_getfd pivot_root
    process_madvise process_mrelease process_vm_readv process_vm_writev ptrace query_module
    quotactl quotactl_fd reboot request_key set_mempolicy set_mempolicy_home_node setdomainname
    sethostname setns settimeofday stime swapoff swapon syslog sysfs umount umount2 unshare
    uselib userfaultfd ustat vhangup vserver
    """.split()
)
"""Refused with EPERM. clone3 is in neither list on purpose: its flags are in memory, which a filter
cannot read, and after ENOSYS libc uses clone."""
