"""One slot: the init process (pid 1) of a sandbox, which runs one job and reports its ending.

It is forked with the launcher's privileges, makes the mounts and the network that need them, drops
all of them, and only then reads a command. It outlives the agent and the launcher: it exits when
its job has ended and the other end of its socket is closed.

What it does up to the command is a list of system calls, made here; slot.c carries it out, and runs
the job. All imports are at the top: after the fork the host's file system is not accessible.
"""

import _socket as socket  # see wire.py
import errno
import os
import resource
import struct

from ec2_agent.sandbox import kernel, netlink, overlay, steps, wire, work
from ec2_agent.sandbox.native import Native

SOCKET, SIGNALS, HOST_PROC, LOCK, FIRST_OTHER = 3, 4, 5, 6, 7
"""The descriptors of the launcher process and of every slot; all others are closed here. SIGNALS
tells of ended children."""

UPTIME, KEPT = 24, 28
"""The first descriptors of files of /proc in a slot, above what it receives: those up to the job's
start (slot.c), and those that the init keeps (`_add_proc`)."""

SIGNAL_BYTES = 128
"""What the kernel writes of one signal, and SIGCHLD is pending once at most (signalfd(2))."""

JOB_ID = 1000
"""The job's uid and gid inside the sandbox; outside, the slot has an unprivileged id of its own."""

CGROUPS = "/sys/fs/cgroup"
"""Where a slot that has a cgroup mounts it, read-only."""

PROC_FILES = "/work/proc"
"""Where the shared root has files for /proc; each slot covers it with its work directory."""

_KERNELS_OWN = ("mounts", "net", "version")
"""What each slot has of the kernel's /proc: links into /proc/self, and the text of uname(2)."""

_NO_DEVICE = kernel.MS_NOSUID | kernel.MS_NODEV
_PROC_FLAGS = _NO_DEVICE | kernel.MS_NOEXEC | kernel.MS_RDONLY
_WORK_MODE = 0o700
_PLACES = (
    ("/tmp/work", _WORK_MODE, "/work"),
    ("/tmp/shm", 0o1777, "/dev/shm"),
    ("/tmp/tmp", 0o1777, "/tmp"),  # last: it covers them
)
"""Directories of the slot's own file system and where they are mounted."""
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 0x1
_LOOPBACK_UP = struct.pack("16sh14x", b"lo", _IFF_UP)
_FIRST_FREE_PORT = "sys/net/ipv4/ip_unprivileged_port_start"
_INODES_PER_MIB = 256
_MAX_TERMINALS = 64
"""Of one job: all jobs together can have 3,072 (kernel.pty.max less kernel.pty.reserve)."""
_POLICY, _NO_PRIORITY = "sched_setscheduler", struct.pack("=i", 0)


class Needs:
    """Properties of a slot that are fixed when it is made; sent as a tuple."""

    __slots__ = ("bundle", "network", "nproc", "own_work", "pooled", "tmp_mb")

    def __init__(
        self,
        network: str,
        tmp_mb: int,
        nproc: int,
        bundle: str,
        own_work: bool,  # noqa: FBT001 - as on the wire
        pooled: bool,  # noqa: FBT001 - as on the wire
    ) -> None:
        self.network = network
        self.tmp_mb = tmp_mb
        self.nproc = nproc
        """RLIMIT_NPROC, including the slot's init; 0 leaves the limit unchanged."""
        self.bundle = bundle
        """Name of the bundle that the job has at `overlay.BUNDLE`; empty: none."""
        self.own_work = own_work
        """Whether a WORK message describes the work directory."""
        self.pooled = pooled
        """Made in advance for the pool: it is announced when it is ready."""

    def key(self) -> "tuple[str | int, ...]":
        """Return what slots with the same needs have in common."""
        return tuple(getattr(self, name) for name in self.__slots__)


class Template:
    """Properties that all slots of a launcher process share."""

    __slots__ = (
        "bundles",
        "native",
        "overlays",
        "own_cgroups",
        "own_files",
        "own_uids",
        "seccomp",
        "shared_files",
        "top_capability",
    )

    def __init__(
        self,
        native: Native,
        seccomp: tuple[bytes, ...],
        top_capability: int,
        *,
        own_uids: bool,
        overlays: overlay.Overlays | None,
        own_cgroups: bool,
        bundles: bool,
        shared_files: tuple[str, ...],
        machine: tuple[bytes, ...],
    ) -> None:
        self.native = native
        self.seccomp = seccomp
        self.top_capability = top_capability
        self.own_uids = own_uids
        """Whether each slot has a host uid of its own; otherwise all use the launcher's uid."""
        self.overlays = overlays
        """None: slots share the inodes of all files that they do not write."""
        self.own_cgroups = own_cgroups
        """Whether each slot has a cgroup of its own; otherwise all are in the launcher's."""
        self.bundles = bundles
        """Whether the launcher's root has the directory of bundles."""
        self.shared_files = shared_files
        """Names of the files in the launcher's root that slots have in /proc."""
        self.own_files = b"", *machine
        """What is in the files of /proc that each slot has of its own: when its job was started,
        and by default about its machine (wire.MACHINE_FILES)."""

    def outside(self, uid: int) -> int:
        """Return the id that a slot's job has outside of the slot's user namespace."""
        return uid if self.own_uids else JOB_ID  # as the launcher process sees its own


class SlotPlan:
    """The system calls of slots with the same needs."""

    __slots__ = ("building", "giving_up", "on_disk", "whole")

    def __init__(self, template: Template, needs: Needs) -> None:
        self.whole: steps.Steps | None = None
        """Everything up to the job; None if the agent sends more than the job: files, or a link."""
        self.building, self.on_disk, self.giving_up = steps.Steps(), steps.Steps(), steps.Steps()
        """The parts, where `whole` is None: the root, the same without a work directory, and to
        drop all privileges."""
        if needs.own_work or needs.network == "egress":
            _add_build(self.building, template, needs, on_disk=False)
            _add_build(self.on_disk, template, needs, on_disk=True)
            _add_give_up(self.giving_up, template, needs)
            return
        self.whole = whole = steps.Steps()
        whole.add("close_range", "close_range", FIRST_OTHER, kernel.LAST_UINT)
        if needs.pooled:  # it does not preempt others on wake-up: no job is waiting for it
            whole.add(_POLICY, "sched_setscheduler", 0, os.SCHED_BATCH, _NO_PRIORITY)
        _add_build(whole, template, needs, on_disk=False)
        _add_give_up(whole, template, needs)
        if needs.pooled:
            whole.add(_POLICY, "sched_setscheduler", 0, os.SCHED_OTHER, _NO_PRIORITY)


def run_live(
    template: Template, needs: Needs, plan: SlotPlan, sock: socket.socket, uid: int
) -> None:
    """Run a slot whose job comes with files, or with a link. The caller ends the process after.

    `sock` is the slot's own, with the number SOCKET.
    """
    kernel.close_from(FIRST_OTHER)
    native, outside = template.native, template.outside(uid)
    try:
        _announce(sock)  # first: the agent sends the job while the rest is done
        asked = work.receive(sock) if needs.own_work else None
        if asked and asked.disk >= 0:
            native.carry_out(plan.on_disk, outside)
            work.attach(asked.disk)
            os.chmod(work.PLACE, _WORK_MODE)
            if template.own_uids:
                os.chown(work.PLACE, uid, uid)
        else:
            native.carry_out(plan.building, outside)
        kept = work.prepare(asked, uid if template.own_uids else -1, needs.tmp_mb) if asked else ()
        if needs.network == "egress":
            _join_link(sock)
        native.carry_out(plan.giving_up, outside)
        wire.send_raw(sock, wire.READY, kept)
    except OSError as refused:
        sock.send(wire.REFUSED + wire.ERRNO.pack(0) + str(refused).encode())
        return
    native.run_one(SOCKET)
    native.await_holder()


def _announce(sock: socket.socket) -> None:
    """Send the agent the pidfd of this process, with which it can kill the sandbox."""
    pidfd = os.pidfd_open(os.getpid())
    wire.send_raw(sock, wire.MADE, (pidfd,))
    os.close(pidfd)


def _add_build(made: steps.Steps, template: Template, needs: Needs, *, on_disk: bool) -> None:
    """Add to make the private part of the root and the network, before privileges are dropped.

    With `on_disk` the work directory is left out.
    """
    # kill(0) of a job without this would reach the launcher's process group
    made.add("setsid", "setsid")
    if template.own_cgroups:  # after the entry: the job sees its own as the root
        made.add("unshare the cgroup", "unshare", kernel.CLONE_NEWCGROUP)
    if template.overlays:
        template.overlays.add_entry(made, needs.bundle)
    elif template.bundles:
        overlay.add_shared_entry(made, needs.bundle)
    if template.own_cgroups:
        made.add_mount("cgroup2", CGROUPS, "cgroup2", _PROC_FLAGS)
    # One file system mounted at three paths: tmp_mb is their total size, beside files of /proc.
    files = [content or b"0" for content in template.own_files]
    pages = sum(-(-len(content) // resource.getpagesize()) for content in files)
    inodes = needs.tmp_mb * _INODES_PER_MIB + len(files)
    size = f"size={(needs.tmp_mb << 20) + pages * resource.getpagesize()},nr_inodes={inodes}"
    made.add_mount("tmpfs", "/tmp", "tmpfs", _NO_DEVICE, size)
    _add_proc(made, template)
    for inner, mode, target in _PLACES[1 if on_disk else 0 :]:
        path = inner.encode()
        made.add(f"mkdir {inner}", "mkdirat", kernel.AT_FDCWD, path, mode)
        made.add(f"chmod {inner}", "fchmodat", kernel.AT_FDCWD, path, mode)
        if template.own_uids:
            ids = steps.UID, steps.UID
            made.add(f"chown {inner}", "fchownat", kernel.AT_FDCWD, path, *ids, 0)
        made.add_mount(inner, target, "", kernel.MS_BIND)
    terminals = f"newinstance,ptmxmode=0666,mode=0620,max={_MAX_TERMINALS}"
    made.add_mount("devpts", "/dev/pts", "devpts", kernel.MS_NOSUID | kernel.MS_NOEXEC, terminals)
    if needs.network != "host":
        kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC
        made.add("socket", "socket", socket.AF_INET, kind, 0)
        made.add("bring lo up", "ioctl", steps.OPENED, _SIOCSIFFLAGS, _LOOPBACK_UP)
        made.add("close", "close", steps.OPENED)
        # In a network of its own a job takes no port from anybody. A host that lacks this file, or
        # shows it read-only, keeps the ports below 1024 to root.
        made.add_write_attempt(HOST_PROC, _FIRST_FREE_PORT, b"0")


def _add_proc(made: steps.Steps, template: Template) -> None:
    """Add to make a /proc with processes, and with those other files that were made for jobs.

    With subset=pid the kernel finds nothing but processes in /proc, so nothing can be mounted there
    on what it does not find. But it does not look for what it has found already, and that stays
    known while it is in use: by what is mounted on it, or by a descriptor of the init. So the
    option is added last. From then on no other name is found, also none that the kernel adds later.
    """
    made.add_mount("proc", "/proc", "proc", _PROC_FLAGS)
    for name in template.shared_files:
        made.add_mount(f"{PROC_FILES}/{name}", f"/proc/{name}", "", kernel.MS_BIND)
    own = zip(("uptime", *wire.MACHINE_FILES), template.own_files, strict=True)
    for number, (name, content) in enumerate(own, UPTIME):
        # In the slot's own file system, which comes to be covered.
        path, opens = f"/tmp/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        made.add(path, "openat", kernel.AT_FDCWD, path.encode(), opens, 0o444)
        made.add(path, "write", steps.OPENED, content, len(content))
        made.add(path, "dup3", steps.OPENED, number, os.O_CLOEXEC)
        made.add("close", "close", steps.OPENED)
        made.add_mount(path, f"/proc/{name}", "", kernel.MS_BIND)
    for number, name in enumerate(_KERNELS_OWN, KEPT):
        path, opens = f"/proc/{name}", os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
        made.add(path, "openat", kernel.AT_FDCWD, path.encode(), opens)
        made.add(path, "dup3", steps.OPENED, number, os.O_CLOEXEC)
        made.add("close", "close", steps.OPENED)
    flags = kernel.MS_REMOUNT | _PROC_FLAGS
    made.add_mount("proc", "/proc", "proc", flags, "subset=pid")
    made.add_absence("/proc/sys")


def _join_link(sock: socket.socket) -> None:
    """Configure this end of the link that the agent has moved into this namespace."""
    message, _ = wire.receive(sock)
    if not message:
        raise OSError(errno.EPIPE, "the agent closed the socket of this sandbox")
    _, own, gateway = message
    netlink.add_default_route(netlink.configure("eth0", own), gateway)


def _add_give_up(made: steps.Steps, template: Template, needs: Needs) -> None:
    """Add to drop all privileges: own uid, own user namespace, no capabilities, call filter.

    The user namespace is created last and owns none of the others, so a capability regained in it
    would give no control over mounts, interfaces or processes.
    """
    if template.own_uids:
        made.add("PR_SET_KEEPCAPS", "prctl", kernel.PR_SET_KEEPCAPS, 1)
        made.add("setresgid", "setresgid", *(steps.UID,) * 3)
        made.add("setresuid", "setresuid", *(steps.UID,) * 3)
        # Not needed by the kernel, but by Ubuntu's AppArmor, which refuses user namespaces
        # to processes without it.
        made.add("capset", "capset", *kernel.capabilities((kernel.CAP_SYS_ADMIN,)))
        # so that this uid may write /proc/self/uid_map
        made.add("PR_SET_DUMPABLE", "prctl", kernel.PR_SET_DUMPABLE, 1)
    # Jobs would inherit the agent's protection from the OOM killer (systemd: OOMScoreAdjust=-1000),
    # and the kernel would not kill them even above their own memory.max.
    made.add_write(HOST_PROC, "self/oom_score_adj", b"%d" % kernel.OOM_SCORE)
    made.add("unshare the user", "unshare", kernel.CLONE_NEWUSER)
    made.add_write(HOST_PROC, "self/setgroups", b"deny")
    for ids in ("uid_map", "gid_map"):
        text = b"%d %b 1" % (JOB_ID, steps.UID_TEXT)
        made.add_write(HOST_PROC, f"self/{ids}", text)
    made.add("close", "close", HOST_PROC)
    if needs.nproc:
        both = struct.pack("=QQ", needs.nproc, needs.nproc)
        made.add("RLIMIT_NPROC", "prlimit64", 0, resource.RLIMIT_NPROC, both, 0)
    for capability in range(template.top_capability + 1):
        made.add("PR_CAPBSET_DROP", "prctl", kernel.PR_CAPBSET_DROP, capability)
    made.add("capset", "capset", *kernel.capabilities(()))
    made.add("PR_SET_NO_NEW_PRIVS", "prctl", kernel.PR_SET_NO_NEW_PRIVS, 1)
    made.add("PR_SET_DUMPABLE", "prctl", kernel.PR_SET_DUMPABLE, 0)
    made.add("chdir /work", "chdir", work.PLACE.encode())
    for program in template.seccomp:
        made.add_filter(program)


def map_ids(uid: int, gid: int) -> None:
    """Map these ids outside of this process's new user namespace to the job's, and no others."""
    for file, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{JOB_ID} {uid} 1"),
        ("gid_map", f"{JOB_ID} {gid} 1"),
    ):
        fd = os.open(f"self/{file}", os.O_WRONLY, dir_fd=HOST_PROC)
        try:
            os.write(fd, text.encode())
        except OSError as failed:
            raise OSError(failed.errno, f"/proc/self/{file}: {failed.strerror}") from failed
        finally:
            os.close(fd)
