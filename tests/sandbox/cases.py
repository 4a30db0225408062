"""Escapes and abuses, one a line: what a hostile job tries, and what a correct sandbox shows.

Each is a Python expression that runs inside a sandbox, with the names of `prelude`. What comes
back is its value as text, or the errno's or exception's name; `shows` is a regular expression that
must match all of it. NR_name is the number of a system call here.

A case is for both architectures unless it says which. One that has no meaning on the other has an
equal one there, so that both have as many: where x86_64 has privileged calls for its ports and
segments, aarch64 has instructions, and each has its own way to make the calls of 32-bit programs.

Seen to fail: `tests/kernel/vm.py .venv/bin/python tests/sandbox/unconfined.py` runs all of
them in the test machine as root without a sandbox.
"""

import os
import re
from typing import NamedTuple

_CALLS = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    longs = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *longs, *[ctypes.c_long(0)] * (6 - len(longs)))
    return errno.errorcode[ctypes.get_errno()] if result < 0 else f"gave {result}"
def machine_code(code):
    import mmap
    page = mmap.mmap(-1, 4096)
    page.write(code)
    place = ctypes.addressof(ctypes.c_char.from_buffer(page))
    libc.mprotect(ctypes.c_void_p(place), ctypes.c_size_t(4096), 5)
    return ctypes.CFUNCTYPE(ctypes.c_long)(place)()
def killed_by(code): return signal.Signals(child(lambda: machine_code(bytes.fromhex(code))) & 127).name
"""

_PROGRAM_OF_ARM32 = """
def arm32(code):
    code, place = bytes.fromhex(code), 0x10000
    size = 84 + len(code)
    with open("arm32", "wb") as file:
        file.write(b"\\x7fELF\\1\\1\\1" + bytes(9))
        file.write(struct.pack("<2H5I6H", 2, 40, 1, place + 84, 52, 0, 0x5000400, 52, 32, 1, 0, 0, 0))
        file.write(struct.pack("<8I", 1, 0, place, place, size, size, 5, 4096) + code)
    os.chmod("arm32", 0o755)
    pid = os.posix_spawn("./arm32", ["arm32"], {})
    return signal.Signals(os.waitpid(pid, 0)[1] & 127).name
"""

_CONNECT = """
def connect(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as s:
        s.settimeout(3)
        s.connect(address)
        return "connected"
"""

_ALWAYS = """
import errno, os, sys, time
def text(path): return open(path).read()
def lines(path, *starts): return [" ".join(l.split()) for l in text(path).splitlines() if l.startswith(starts)]
def write(path, data="1"):
    with open(path, "w") as file: file.write(data)
    return "written"
def child(run):
    pid = os.fork()
    if not pid:
        try: run()
        finally: os._exit(0)
    return os.waitpid(pid, 0)[1]
def fill(folder, chunk):
    total = 0
    try:
        with open(folder + "/full", "wb") as file:
            while total < 1 << 30: total += file.write(chunk)
    except OSError as full: return f"{errno.errorcode[full.errno]} after {total >> 20} MiB"
def many(folder, most):
    for n in range(most):
        try: open(f"{folder}/{n}", "w").close()
        except OSError as full: return f"{errno.errorcode[full.errno]} after {n // 1000}k"
def forks(most):
    pids = []
    try:
        for n in range(most):
            pid = os.fork()
            if not pid: time.sleep(30); os._exit(0)
            pids.append(pid)
    except OSError as full: return f"{errno.errorcode[full.errno]} after {len(pids)}"
    finally:
        for pid in pids: os.kill(pid, 9)
    return f"{most} forks"
def many_files():
    held = []
    try:
        while len(held) < 100_000: held.append(os.open("/dev/null", 0))
    except OSError as full: return errno.errorcode[full.errno]
    finally:
        for fd in held: os.close(fd)
def many_terminals():
    held = []
    try:
        while len(held) < 1000: held.append(os.open("/dev/ptmx", os.O_RDWR))
    except OSError as full: return f"{errno.errorcode[full.errno]} after {len(held)}"
    finally:
        for fd in held: os.close(fd)
def orphans(count):
    for _ in range(count): child(os.fork)
    for _ in range(200):
        left = [p for p in os.listdir("/proc") if p.isdigit()]
        if len(left) <= 2: return "reaped"
        time.sleep(0.01)
    return f"{len(left)} left"
"""


def prelude(tries: str) -> str:
    """Give the modules and helpers that expressions use.

    To start a Python with all of them costs twice as much, seconds in the test machine.
    """
    modules = [
        f"import {name}"
        for name in ("resource", "signal", "socket", "struct")
        if name in tries
        or (name == "socket" and "connect(" in tries)
        or (name in ("signal", "struct") and re.search("killed_by|arm32", tries))
    ]
    calls = _CALLS if re.search(r"call\(|libc|ctypes|killed_by", tries) else ""
    connect = _CONNECT if "connect(" in tries else ""
    arm32 = _PROGRAM_OF_ARM32 if "arm32(" in tries else ""
    return "\n".join((*modules, _ALWAYS, calls, connect, arm32))


class Case(NamedTuple):
    """One attempt."""

    kind: str
    name: str
    tries: str
    shows: str
    env: dict[str, str] = {}  # noqa: RUF012 - never changed
    machines: tuple[str, ...] = ("x86_64", "aarch64")


_TRACELESS = {"cgroup", "proc", "devices", "namespaces", "capabilities", "syscalls", "network"}


def shares(case: Case) -> bool:
    """Whether a case may share its sandbox, where it is tried by a process that was forked.

    It leaves nothing behind, and does not look at its place among the sandbox's processes.
    """
    own_place = "getppid" in case.tries or "listdir('/proc')" in case.tries
    refused = case.kind == "filesystem" and not re.search("/work|/tmp", case.tries)
    traceless = case.kind in _TRACELESS or refused
    return traceless and not own_place and not case.env


X86_64, AARCH64 = ("x86_64",), ("aarch64",)


def _refused(kind: str, *names: str, machines: tuple[str, ...] = X86_64 + AARCH64) -> list[Case]:
    return [Case(kind, name, f"call(NR_{name})", "EPERM", machines=machines) for name in names]


# fmt: off
FILESYSTEM = [
    Case("filesystem", "the root holds only what programs need", "sorted(os.listdir('/'))", r"\['bin', 'dev', 'etc', 'lib', ('lib32', )?('lib64', )?('libx32', )?'opt', 'proc', ('root', )?'sbin', ('sys', )?'tmp', 'usr', 'var', 'work'\]"),
    Case("filesystem", "the host's shadow file", "text('/etc/shadow')", "ENOENT"),
    Case("filesystem", "etc names no host", "sorted(set(os.listdir('/etc')) & {'machine-id', 'fstab', 'ssh', 'sudoers', 'crontab', 'shadow'})", r"\[\]"),
    Case("filesystem", "the host's users", "len(text('/etc/passwd').splitlines())", "3"),
    Case("filesystem", "out of the root by ..", "os.path.exists('/../../../../run')", "False"),
    Case("filesystem", "out of the work directory by .. (CVE-2024-21626)", "text('../../../../../etc/shadow')", "ENOENT"),
    Case("filesystem", "write to /usr", "write('/usr/bin/evil')", "EROFS"),
    Case("filesystem", "write to /etc", "write('/etc/passwd')", "EROFS"),
    Case("filesystem", "write to the root", "write('/evil')", "EROFS"),
    Case("filesystem", "write to /dev", "write('/dev/evil')", "EROFS"),
    Case("filesystem", "rename in the root", "os.rename('/tmp', '/tmp2')", "EROFS|EBUSY|EACCES"),
    Case("filesystem", "remount the root writable", "call(NR_mount, 0, b'/', 0, 0x20, 0)", "EPERM"),
    Case("filesystem", "mount a tmpfs", "call(NR_mount, b'x', b'/tmp', b'tmpfs', 0, 0)", "EPERM"),
    Case("filesystem", "unmount /proc", "call(NR_umount2, b'/proc', 2)", "EPERM"),
    Case("filesystem", "pivot_root", "call(NR_pivot_root, b'.', b'.')", "EPERM"),
    Case("filesystem", "chroot", "os.chroot('/tmp')", "EPERM"),
    Case("filesystem", "open by handle (shocker)", "call(NR_open_by_handle_at, -100, 0, 0)", "EPERM"),
    Case("filesystem", "a set-uid copy of id stays the job's", "(os.system('cp /usr/bin/id /work/i; chmod 6755 /work/i'), os.popen('/work/i -u').read())[1].strip()", "1000"),
    Case("filesystem", "/usr honours no set-uid bit", "bool(os.statvfs('/usr').f_flag & os.ST_NOSUID)", "True"),
    Case("filesystem", "/usr is read-only and has no devices", "os.statvfs('/usr').f_flag & (os.ST_RDONLY | os.ST_NODEV) == os.ST_RDONLY | os.ST_NODEV", "True"),
    Case("filesystem", "/work honours no set-uid bit and no devices", "os.statvfs('/work').f_flag & (os.ST_NOSUID | os.ST_NODEV) == os.ST_NOSUID | os.ST_NODEV", "True"),
    Case("filesystem", "give a file to root", "(write('/work/f'), os.chown('/work/f', 0, 0))", "EINVAL|EPERM"),
    Case("filesystem", "link a host file into the work directory", "os.link('/usr/bin/id', '/work/id')", "EXDEV|EPERM"),
    Case("filesystem", "link an open host file into the work directory", "os.link(f'/proc/self/fd/{os.open(sys.executable, 0)}', '/work/open')", "EXDEV|EPERM"),
    Case("filesystem", "link a file of /tmp into the work directory", "(write('/tmp/mine'), os.link('/tmp/mine', '/work/mine'))", "EXDEV"),
    Case("filesystem", "fill /work", "fill('/work', bytes(1 << 20))", "ENOSPC after (6[0-4]|[1-5]?[0-9]) MiB"),
    Case("filesystem", "fill /tmp and /dev/shm: one limit for all", "(fill('/tmp', bytes(1 << 20)), fill('/dev/shm', bytes(1 << 20)))[1]", "ENOSPC after 0 MiB"),
    Case("filesystem", "use up the inodes", "many('/work', 100_000)", "ENOSPC after 1[0-6]k"),
    Case("filesystem", "a directory that only programs use", "sorted(p for p in ('/home', '/root/.ssh', '/var/lib', '/run', '/boot', '/srv', '/mnt', '/sys/devices', '/sys/kernel', '/sys/firmware', '/sys/class', '/sys/module') if os.path.exists(p))", r"\[\]"),
    Case("filesystem", "/opt has only the place of a bundle, which is empty", "list(os.walk('/opt'))", r"\[\('/opt', \['joblane'\], \[\]\), \('/opt/joblane', \['type'\], \[\]\), \('/opt/joblane/type', \[\], \[\]\)\]"),
    Case("filesystem", "/var has only tmp, which is /tmp", "(write('/var/tmp/x'), os.listdir('/var'), text('/tmp/x'))", r"\('written', \['tmp'\], '1'\)"),
    *_refused(
        "filesystem",
        "fsopen",
        "fsmount",
        "open_tree",
        "move_mount",
        "mount_setattr",
        "fanotify_init",
        "quotactl",
        "name_to_handle_at",
    ),
]

CGROUP = [
    Case("cgroup", "/sys has its own cgroup, and nothing else", "(os.listdir('/sys'), os.listdir('/sys/fs'), [l.split()[3:5] for l in text('/proc/self/mountinfo').splitlines() if ' - cgroup2 ' in l])", r"\(\['fs'\], \['cgroup'\], \[\['/', '/sys/fs/cgroup'\]\]\)"),
    Case("cgroup", "it is a leaf, and has no name of the host's cgroups above it", "[n for n in os.listdir('/sys/fs/cgroup/..') + os.listdir('/sys/fs/cgroup') if os.path.isdir('/sys/fs/cgroup/' + n) or 'joblane' in n]", r"\[\]"),
    Case("cgroup", "it shows the own processes alone", "sorted(text('/sys/fs/cgroup/cgroup.procs').split()) == sorted(p for p in os.listdir('/proc') if p.isdigit())", "True"),
    Case("cgroup", "it tells the limits", "(int(text('/sys/fs/cgroup/memory.max')) >> 20, text('/sys/fs/cgroup/pids.max').strip())", r"\(512, '201'\)"),
    *(
        Case("cgroup", f"write its {file}", f"write('/sys/fs/cgroup/{file}', {data!r})", "EROFS")
        for file, data in (("memory.max", "max"), ("pids.max", "max"), ("cpu.max", "max"), ("cgroup.procs", "0"), ("cgroup.kill", "1"), ("cgroup.freeze", "1"), ("cgroup.subtree_control", "-memory"))
    ),
    Case("cgroup", "make a cgroup below its own", "os.mkdir('/sys/fs/cgroup/mine')", "EROFS"),
    Case("cgroup", "its cgroup is mounted without set-uid, devices and programs", "os.statvfs('/sys/fs/cgroup').f_flag & 15", "15"),
]
"""Where jobs have cgroups."""

JOBS_OWN = ("cgroups", "cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "uptime", "vmstat")
"""Files of /proc that are made for jobs (ec2_agent/sandbox/proc_files.py)."""

PROC = [
    Case("proc", "core_pattern", "write('/proc/sys/kernel/core_pattern', '|/work/evil')", "ENOENT|EROFS|EACCES"),
    Case("proc", "any sysctl", "os.path.exists('/proc/sys')", "False"),
    Case("proc", "sysrq", "write('/proc/sysrq-trigger', 'b')", "ENOENT|EROFS"),
    Case("proc", "kernel memory and tables", "[p for p in ('kcore', 'kallsyms', 'kmsg', 'keys', 'timer_list', 'sched_debug', 'interrupts', 'iomem', 'modules', 'config.gz', 'acpi', 'scsi', 'bus', 'fs', 'irq') if os.path.exists('/proc/' + p)]", r"\[\]"),
    Case("proc", "of all that the host has in /proc, what is made for the job", "sorted(n for n in HOST_PROC if os.path.lexists('/proc/' + n))", r"\['cgroups', 'cpuinfo', 'filesystems', 'loadavg', 'meminfo', 'mounts', 'net', 'self', 'stat', 'thread-self', 'uptime', 'version', 'vmstat'\]"),
    Case("proc", "the same after a look at it", "(os.listdir('/proc'), [os.path.exists('/proc/' + n) for n in HOST_PROC], [n for n in ('sys', 'kcore', 'keys', 'interrupts', 'diskstats') if os.path.exists('/proc/' + n)])[2]", r"\[\]"),
    *(Case("proc", f"write {name} of /proc", f"write('/proc/{name}')", "EROFS|EACCES") for name in JOBS_OWN),
    *(Case("proc", f"make {name} of /proc writable", f"os.chmod('/proc/{name}', 0o666)", "EROFS|EPERM") for name in JOBS_OWN),
    *(Case("proc", f"see what lies below {name} of /proc", f"call(NR_umount2, b'/proc/{name}', 2)", "EPERM") for name in JOBS_OWN),
    Case("proc", "cpuinfo: this host's own numbers, and its weaknesses", "lines('/proc/cpuinfo', 'microcode', 'cpu MHz', 'apicid', 'initial apicid', 'bugs')", r"\[\]"),
    Case("proc", "stat: what others use of the processors", "{w for l in lines('/proc/stat', 'cpu', 'intr', 'ctxt', 'softirq') for w in l.split()[1:]}", r"\{'0'\}"),
    Case("proc", "stat: how many processes the host has started", "lines('/proc/stat', 'processes', 'procs_')", r"\['processes 1', 'procs_running 1', 'procs_blocked 0'\]"),
    Case("proc", "meminfo: what others use of the memory", "({l.split()[1] for l in text('/proc/meminfo').splitlines() if not l.startswith(('Mem', 'CommitLimit', 'Hugepagesize'))}, len({l.split()[1] for l in lines('/proc/meminfo', 'Mem')}))", r"\(\{'0'\}, 1\)"),
    Case("proc", "uptime: how long others left the processors idle", "text('/proc/uptime').split()[1]", "0.00"),
    Case("proc", "uptime: the start of the job, by a clock that it has", "0 <= time.clock_gettime(time.CLOCK_BOOTTIME) - float(text('/proc/uptime').split()[0]) < 300", "True"),
    Case("proc", "nothing in them changes", "len({str([text('/proc/' + n) for n in ('cgroups', 'cpuinfo', 'filesystems', 'loadavg', 'meminfo', 'stat', 'uptime', 'vmstat')]) for _ in range(4) if not time.sleep(0.05)})", "1"),
    Case("proc", "loadavg: how busy the host is, and its newest process", "text('/proc/loadavg').strip()", "0.00 0.00 0.00 1/1 1"),
    Case("proc", "version: more than uname tells of the kernel's release", "text('/proc/version').split()[2] == os.uname().release", "True"),
    Case("proc", "filesystems: what the host has loaded", "text('/proc/filesystems').split()[1::2]", r"\['proc', 'tmpfs', 'cgroup2', 'overlay'\]"),
    Case("proc", "cgroups: how many the host has", "{tuple(l.split()[1:]) for l in text('/proc/cgroups').splitlines()[1:]}", r"\{\('0', '1', '1'\)\}"),
    Case("proc", "vmstat: what others do with the memory", "set(text('/proc/vmstat').split()[1::2])", r"\{'0'\}"),
    Case("proc", "mounts and net are links to the own", "(os.readlink('/proc/mounts'), os.readlink('/proc/net'), text('/proc/mounts') == text('/proc/self/mounts'))", r"\('self/mounts', 'self/net', True\)"),
    Case("proc", "net: the own network", "[l.split(':')[0].strip() for l in text('/proc/net/dev').splitlines()[2:]]", r"\['lo'\]"),
    Case("proc", "own entries are read-only", "write('/proc/self/comm', 'evil')", "EROFS"),
    Case("proc", "raise the own OOM score above the agent's", "write('/proc/self/oom_score_adj', '-1000')", "EROFS"),
    Case("proc", "the agent's protection from the OOM killer", "int(text('/proc/self/oom_score_adj'))", "500"),
    Case("proc", "mounted without set-uid, devices and programs", "os.statvfs('/proc').f_flag & 15", "15"),
    Case("proc", "the init's root", "os.listdir('/proc/1/root')", "EACCES|EPERM"),
    Case("proc", "the init's program (CVE-2019-5736)", "os.readlink('/proc/1/exe')", "EACCES|EPERM"),
    Case("proc", "the init's descriptors", "os.listdir('/proc/1/fd')", "EACCES|EPERM"),
    Case("proc", "the init's arguments, and with them the agent's path", "text('/proc/1/cmdline')", r"joblane-sandbox\x00?"),
    Case("proc", "the init's environment", "text('/proc/1/environ')", "EACCES|EPERM"),
    Case("proc", "the init's memory", "open('/proc/1/mem', 'rb')", "EACCES|EPERM|EROFS"),
    Case("proc", "only the sandbox's processes", "len([p for p in os.listdir('/proc') if p.isdigit()])", "2"),
    Case("proc", "the own cgroup is the root", "{l.rpartition(':')[2] for l in text('/proc/self/cgroup').split()}", r"\{'/'\}"),
    Case("proc", "no host root in the user map", "int(text('/proc/self/uid_map').split()[1]) >= 200_000 and text('/proc/self/uid_map').split()[2]", "1"),
    Case("proc", "change the user map", "write('/proc/self/uid_map', '0 0 1')", "EROFS|EPERM|EACCES"),
    Case("proc", "no mount but those of the plan", "[p for p in (l.split()[4] for l in text('/proc/self/mountinfo').splitlines()) if p not in ('/', '/usr', '/proc', '/sys/fs/cgroup', '/tmp', '/work') and not p.startswith(('/etc/', '/dev/', '/proc/'))]", r"\[\]"),
]

DEVICES = [
    Case("devices", "the device directory", "sorted(os.listdir('/dev'))", r"\['fd', 'full', 'null', 'ptmx', 'pts', 'random', 'shm', 'stderr', 'stdin', 'stdout', 'tty', 'urandom', 'zero'\]"),
    Case("devices", "make a disk's node", "os.mknod('/work/sda', 0o60666, os.makedev(8, 0))", "EPERM"),
    Case("devices", "make the memory's node", "os.mknod('/work/mem', 0o20666, os.makedev(1, 1))", "EPERM"),
    Case("devices", "a controlling terminal", "open('/dev/tty')", "ENOENT|ENXIO"),
    Case("devices", "push keys into a terminal (CVE-2017-5226)", "call(NR_ioctl, 1, 0x5412, b'x')", "EPERM"),
    Case("devices", "the same with the high word set (CVE-2019-10063)", "call(NR_ioctl, 1, 0x1_0000_5412, b'x')", "EPERM"),
    Case("devices", "the console's selection buffer (TIOCLINUX)", "call(NR_ioctl, 1, 0x541C, b'x')", "EPERM"),
    Case("devices", "change the mode of a device", "os.chmod('/dev/null', 0o600)", "EROFS|EPERM"),
    Case("devices", "the terminals of others", "os.listdir('/dev/pts')", r"\['ptmx'\]"),
    Case("devices", "terminals without end", "many_terminals()", "ENOSPC after 64"),
    Case("devices", "terminals: no programs, no set-uid", "os.statvfs('/dev/pts').f_flag & (os.ST_NOSUID | os.ST_NOEXEC) == os.ST_NOSUID | os.ST_NOEXEC", "True"),
    Case("devices", "push keys into its own terminal", "call(NR_ioctl, os.openpty()[1], 0x5412, b'x')", "EPERM"),
    Case("devices", "give its own terminal another line discipline", "call(NR_ioctl, os.openpty()[1], 0x5423, struct.pack('i', 1))", "EPERM"),
    Case("devices", "take the console's messages (TIOCCONS)", "call(NR_ioctl, os.openpty()[1], 0x541D)", "EPERM"),
    Case("devices", "null works", "(write('/dev/null'), open('/dev/zero', 'rb').read(2))[1]", r"b'\\x00\\x00'"),
]

NAMESPACES = [
    *(
        Case("namespaces", f"unshare {name}", f"call(NR_unshare, {flag:#x})", "EPERM")
        for name, flag in (("user", 0x10000000), ("mnt", 0x20000), ("net", 0x40000000), ("pid", 0x20000000), ("cgroup", 0x2000000))
    ),
    Case("namespaces", "clone into a user namespace", "call(NR_clone, 0x10000011, 0, 0, 0, 0)", "EPERM"),
    Case("namespaces", "clone into user and mount namespaces", "call(NR_clone, 0x10020011, 0, 0, 0, 0)", "EPERM"),
    Case("namespaces", "clone3, whose flags no filter can see", "call(NR_clone3, 0, 88)", "ENOSYS"),
    Case("namespaces", "enter a namespace", "call(NR_setns, os.open('/proc/self/ns/net', 0), 0)", "EPERM"),
    Case("namespaces", "the host's name", "socket.gethostname()", "job"),
    Case("namespaces", "change the name", "socket.sethostname('evil')", "EPERM"),
    Case("namespaces", "the init is pid 1 and the job its child", "(os.getppid(), os.getpid() < 20)", r"\(1, True\)"),
]

CAPABILITIES = [
    Case("capabilities", "no capability in any set", "{l.split()[1] for l in lines('/proc/self/status', 'Cap')}", r"\{'0000000000000000'\}"),
    Case("capabilities", "no new privileges, filtered", "lines('/proc/self/status', 'NoNewPrivs', 'Seccomp:')", r"\['NoNewPrivs: 1', 'Seccomp: 2'\]"),
    Case("capabilities", "the uid and gid, all four of each", "{l for l in lines('/proc/self/status', 'Uid', 'Gid')} == {'Uid: 1000 1000 1000 1000', 'Gid: 1000 1000 1000 1000'}", "True"),
    Case("capabilities", "no supplementary groups", "os.getgroups()", r"\[1000\]|\[\]"),
    Case("capabilities", "become root", "os.setuid(0)", "EINVAL|EPERM"),
    Case("capabilities", "become another job", "os.setuid(1001)", "EINVAL|EPERM"),
    Case("capabilities", "take groups", "os.setgroups([0])", "EPERM|EINVAL"),
    Case("capabilities", "take capabilities back", "call(NR_capset, struct.pack('II', 0x20080522, 0), struct.pack('6I', 1 << 21, 1 << 21, 0, 0, 0, 0))", "EPERM"),
    Case("capabilities", "raise an ambient capability", "call(NR_prctl, 47, 2, 21, 0, 0)", "EPERM"),
    Case("capabilities", "change the secure bits", "call(NR_prctl, 28, 0x2f)", "EPERM"),
    Case("capabilities", "undo no_new_privs", "call(NR_prctl, 38, 0, 0, 0, 0)", "EINVAL"),
]

SYSCALLS = [
    *_refused(
        "syscalls", "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp",
        "pidfd_getfd", "keyctl", "add_key", "request_key", "bpf", "perf_event_open", "userfaultfd",
        "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot",
        "swapon", "acct", "syslog", "io_uring_setup", "io_uring_enter", "clock_settime",
        "settimeofday", "adjtimex", "clock_adjtime", "vhangup", "move_pages", "mbind",
        "lookup_dcookie",
    ),
    *_refused("syscalls", "iopl", "ioperm", "modify_ldt", machines=X86_64),
    Case("syscalls", "mask interrupts (msr daifset)", "killed_by('df4203d5')", "SIGILL", machines=AARCH64),
    Case("syscalls", "call the hypervisor (hvc)", "killed_by('020000d4')", "SIGILL", machines=AARCH64),
    Case("syscalls", "read where the kernel's page table is (mrs ttbr1_el1)", "killed_by('202038d5')", "SIGILL", machines=AARCH64),
    Case("syscalls", "a number nobody has judged", "call(9999)", "ENOSYS"),
    Case("syscalls", "a personality that makes data executable", "call(NR_personality, 0x0400000)", "EPERM|ENOSYS"),
    Case("syscalls", "the x32 entry", "child(lambda: call(0x40000000 + 39)) & 127 == signal.SIGSYS", "True", machines=X86_64),
    Case("syscalls", "the 32-bit entry", "killed_by('b814000000cd80c3')", "SIGSYS", machines=X86_64),
    # getpid and exit; a CPU or kernel without AArch32 does not start them.
    Case("syscalls", "a 32-bit program", "arm32('1470a0e3000000ef0170a0e3000000ef')", "SIGSYS|ENOEXEC", machines=AARCH64),
    Case("syscalls", "a private call of 32-bit programs (set_tls)", "call(0xf0005)", "ENOSYS", machines=AARCH64),
    Case("syscalls", "allow itself more by a second filter", "(libc.prctl(22, 2, ctypes.byref((ctypes.c_uint64 * 2)(1, ctypes.addressof(ctypes.c_uint64(0x7fff000000000006))))), call(NR_ptrace))[1]", "EPERM"),
]

NETWORK = [
    Case("network", "one interface", "socket.if_nameindex()", r"\[\(1, 'lo'\)\]"),
    Case("network", "the metadata service", "connect(socket.AF_INET, ('169.254.169.254', 80))", "ENETUNREACH"),
    Case("network", "the metadata service by IPv6", "connect(socket.AF_INET6, ('fd00:ec2::254', 80))", "ENETUNREACH|EADDRNOTAVAIL|EACCES|EHOSTUNREACH"),
    Case("network", "the metadata service by UDP", "connect(socket.AF_INET, ('169.254.169.254', 53), socket.SOCK_DGRAM)", "ENETUNREACH"),
    Case("network", "the container credentials' address", "connect(socket.AF_INET, ('169.254.170.2', 80))", "ENETUNREACH"),
    Case("network", "the world", "connect(socket.AF_INET, ('1.1.1.1', 443))", "ENETUNREACH"),
    Case("network", "a server on the host's loopback", "connect(socket.AF_INET, ('127.0.0.1', HOST_PORT))", "ECONNREFUSED"),
    Case("network", "an abstract socket of the host", "connect(socket.AF_UNIX, '\\0' + HOST_ABSTRACT)", "ECONNREFUSED"),
    Case("network", "the own loopback works", "(s := socket.create_server(('127.0.0.1', 0)), connect(socket.AF_INET, s.getsockname()))[1]", "connected"),
    Case("network", "a raw socket", "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)", "EPERM"),
    Case("network", "a packet socket", "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)", "EAFNOSUPPORT|EPERM"),
    Case("network", "the hypervisor's socket", "socket.socket(40, socket.SOCK_STREAM)", "EAFNOSUPPORT"),
    Case("network", "the kernel's crypto socket", "socket.socket(38, socket.SOCK_SEQPACKET)", "EAFNOSUPPORT"),
    *(
        Case("network", f"a transport that programs do not need, {number}", f"socket.socket(socket.AF_INET, {kind}, {number})", "EPROTONOSUPPORT")
        for number, kind in ((33, 6), (132, 1), (136, 2), (262, 1))
    ),
    Case("network", "nftables by netlink", "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)", "EAFNOSUPPORT|EPERM"),
    Case("network", "a port below 1024 of its own network, which the host does not have", "(s := socket.create_server(('127.0.0.1', 79)), connect(socket.AF_INET, ('127.0.0.1', 79)))[1]", "connected"),
]

RESOURCES = [
    Case("resources", "more processes than allowed", "forks(400)", "EAGAIN after 1(99|[0-9][0-9])"),
    Case("resources", "orphans are reaped (CVE of nobody: 300 zombies)", "orphans(60)", "reaped"),
    Case("resources", "no core dump, not even to a pipe", "resource.getrlimit(resource.RLIMIT_CORE)", r"\(1, 1\)|\(0, 0\)"),
    Case("resources", "raise a hard limit", "resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 20))", "ValueError|EPERM"),
    Case("resources", "open files without end", "many_files()", "EMFILE"),
    Case("resources", "address space is not limited", "resource.getrlimit(resource.RLIMIT_AS)", r"\(-1, -1\)"),
    Case("resources", "a better priority", "os.nice(-5)", "EPERM|EACCES"),
    Case("resources", "real-time scheduling", "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))", "EPERM"),
    Case("resources", "lock 64 MiB of memory", "libc.mlock(ctypes.create_string_buffer(64 << 20), 64 << 20)", "-1"),
    Case("resources", "real-time I/O priority", "call(NR_ioprio_set, 1, 0, (1 << 13) | 0)", "EPERM"),
    Case("resources", "another job's System V memory", "text('/proc/sysvipc/shm')", "ENOENT"),
]

DESCRIPTORS = [
    Case("descriptors", "four, and no other", "[int(f) for f in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + f)]", r"\[0, 1, 2, 3\]"),
    Case("descriptors", "stdin is empty", "os.read(0, 1)", "b''"),
    Case("descriptors", "stdin is the sandbox's /dev/null", "os.readlink('/proc/self/fd/0')", "/dev/null"),
    Case("descriptors", "its line has no name on either end", "(s := socket.socket(fileno=3)).getsockname() + s.getpeername() + str(s.type.name)", "SOCK_STREAM"),
    Case("descriptors", "its line does not show who is at the other end", "struct.unpack('3I', socket.socket(fileno=3).getsockopt(1, 17, 12))", r"\(0, 65534, 65534\)"),
    Case("descriptors", "a pidfd of the other end of its line is no key to it", "call(NR_pidfd_send_signal, socket.socket(fileno=3).getsockopt(1, 77), 0, 0, 0)", "EINVAL|EPERM|ESRCH|ENOPROTOOPT"),
    Case("descriptors", "change who may open its output by name", "os.chmod('/dev/stdout', 0o777)", "EPERM"),
    Case("descriptors", "make the pipe of its output its own", "os.chown('/dev/stderr', 1000, 1000)", "EPERM"),
    Case("descriptors", "give its output a name that others could have", "call(NR_linkat, -100, b'/proc/self/fd/1', -100, b'/work/out', 0x400)", "EXDEV|EPERM|ENOENT"),
    Case("descriptors", "forge the ending on the init's socket", "os.write(4, b'E' + bytes(26))", "EBADF"),
    Case("descriptors", "take the init's socket", "call(NR_pidfd_getfd, os.pidfd_open(1), 3, 0)", "EPERM"),
    Case("descriptors", "a directory above the work directory", "os.getcwd()", "/work"),
]

SIGNALS = [
    Case("signals", "kill the init", "(os.kill(1, 9), os.kill(1, 2), os.kill(1, 15), time.sleep(0.05), 'alive')[-1]", "alive"),
    Case("signals", "stop the init", "(os.kill(1, 19), time.sleep(0.05), text('/proc/1/stat').split()[2])[-1]", "S"),
    Case("signals", "kill a process of the host", "os.kill(HOST_PID, 9)", "ESRCH"),
    Case("signals", "its own session and group", "os.getsid(0) == os.getpgid(0) == os.getpid()", "True"),
    Case("signals", "nothing blocked or ignored", "{l.split()[1] for l in lines('/proc/self/status', 'SigBlk', 'SigIgn') if int(l.split()[1], 16) & ~0x1_8100_1000}", r"set\(\)"),
    Case("signals", "signal everything in the group", "(signal.signal(1, signal.SIG_IGN), os.kill(0, 1), 'alive')[-1]", "alive"),
    Case("signals", "a pidfd of the init is no key to it", "signal.pidfd_send_signal(os.pidfd_open(1), 9) or os.getppid()", "1"),
]

ENVIRONMENT = [
    Case("environment", "nothing of the agent's", "sorted(os.environ)", r"\[('GOMEMLIMIT', )?'HOME', 'JOBLANE_CPUS', 'JOBLANE_FD', ('JOBLANE_MEMORY_MB', )?'LANG', 'PATH', 'PYTHONUNBUFFERED', 'TMPDIR', 'USER'\]"),
    Case("environment", "no credentials", "[n for n in os.environ if 'AWS' in n or 'TOKEN' in n or 'SECRET' in n]", r"\[\]"),
    Case("environment", "a library for the init (LD_PRELOAD)", "os.environ['LD_PRELOAD'] and os.getppid()", "1", {"LD_PRELOAD": "/work/evil.so"}),
    Case("environment", "the agent's own variables are only text", "os.environ['JOBLANE_ISOLATION']", "none", {"JOBLANE_ISOLATION": "none"}),
    Case("environment", "a Python setting for the init", "os.environ['PYTHONSTARTUP']", "/work/evil.py", {"PYTHONSTARTUP": "/work/evil.py", "PYTHONINSPECT": "", "PYTHONPATH": "/work"}),
    Case("environment", "a value of 100,000 characters", "len(os.environ['BIG'])", "100000", {"BIG": "x" * 100_000}),
    Case("environment", "bytes that are no text", "os.environb[b'ODD']", r"b'\\xff\\xfe'", {"ODD": "\udcff\udcfe"}),
]

ALL_CASES = [
    *FILESYSTEM, *CGROUP, *PROC, *DEVICES, *NAMESPACES, *CAPABILITIES, *SYSCALLS,
    *NETWORK, *RESOURCES, *DESCRIPTORS, *SIGNALS, *ENVIRONMENT,
]
# fmt: on


def cases_of(machine: str) -> list[Case]:
    """Give the cases for an architecture, by what `uname -m` says there."""
    return [case for case in ALL_CASES if machine in case.machines]


CASES = cases_of(os.uname().machine)
