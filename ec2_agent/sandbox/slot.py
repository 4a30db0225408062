"""One slot: the init process (pid 1) of a sandbox, which runs one job and reports its ending.

It is forked with the launcher's privileges, makes the mounts and the network that need them, drops
all of them, and only then reads a command. It outlives the agent and the launcher: it exits when
its job has ended and the other end of its socket is closed.

All imports are at the top: after the fork the host's file system is not accessible.
"""

import _socket as socket  # see wire.py
import errno
import fcntl
import os
import resource
import select
import struct
import time

from ec2_agent.sandbox import kernel, netlink, overlay, wire, work

SOCKET, SIGNALS, HOST_PROC, LOCK, FIRST_OTHER = 3, 4, 5, 6, 7
"""The descriptors of the launcher process and of every slot; all others are closed here."""

SIGNAL_BYTES = 128
"""What the kernel writes of one signal, and SIGCHLD is pending once at most (signalfd(2))."""

JOB_ID = 1000
"""The job's uid and gid inside the sandbox; outside, the slot has an unprivileged id of its own."""

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    import signal
    from typing import Any
else:
    import _signal as signal

_CANNOT_RUN, _NOT_FOUND = 126, 127
"""Exit codes of a shell for a command that is not executable, or not found."""

_NO_DEVICE = kernel.MS_NOSUID | kernel.MS_NODEV
_PROC = kernel.Mount(
    "proc", "/proc", "proc", _NO_DEVICE | kernel.MS_NOEXEC | kernel.MS_RDONLY, "subset=pid"
)
_BINDS = tuple(
    (name, mode, "/tmp/" + name, target, kernel.Mount("/tmp/" + name, target, "", kernel.MS_BIND))
    for name, mode, target in (
        ("work", 0o700, "/work"),
        ("shm", 0o1777, "/dev/shm"),
        ("tmp", 0o1777, "/tmp"),
    )
)
"""Directories of the slot's own file system and where they are mounted."""
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 0x1
_LOOPBACK_UP = bytearray(struct.pack("16sh14x", b"lo", _IFF_UP))
_INODES_PER_MIB = 256
_NO_PRIORITY = os.sched_param(0)
# Ignored signals stay ignored after exec: Python ignores two, the agent's parent maybe more.
_RESET = tuple(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
_OOM_SCORE = "500"
"""When the host runs out of memory, the kernel kills jobs first."""


class Needs:
    """Properties of a slot that are fixed when it is made; sent as a tuple."""

    __slots__ = ("bundle", "network", "nproc", "own_work", "pooled", "tmp_mb")

    def __init__(  # noqa: PLR0913, PLR0917 - as on the wire
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
        """Made in advance for the pool: it runs a self-test, because no job is waiting for it."""


class Template:
    """Properties that all slots of a launcher process share."""

    __slots__ = ("bundles", "overlays", "own_cgroups", "own_uids", "seccomp", "top_capability")

    def __init__(  # noqa: PLR0913 - four of them by name
        self,
        seccomp: tuple[kernel.Filter, ...],
        top_capability: int,
        *,
        own_uids: bool,
        overlays: overlay.Overlays | None,
        own_cgroups: bool,
        bundles: bool,
    ) -> None:
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


def live(template: Template, needs: Needs, sock: socket.socket, uid: int) -> None:
    """Run the slot. The caller ends the process when this returns.

    `sock` is the slot's own, with the number SOCKET.
    """
    kernel.close_from(FIRST_OTHER)
    try:
        if needs.pooled:
            _yield_to_others(os.SCHED_BATCH)
        else:
            _announce(sock)  # first: the agent sends the job while the rest is done
        asked = work.receive(sock) if needs.own_work else None
        _build(template, needs, uid, asked.disk if asked else -1)
        kept = work.prepare(asked, uid if template.own_uids else -1, needs.tmp_mb) if asked else ()
        if needs.network == "egress":
            _join_link(sock)
        _give_up_everything(template, needs, uid)
        if needs.pooled:
            _self_test()
            _yield_to_others(os.SCHED_OTHER)
            _announce(sock)
        else:
            wire.send_raw(sock, wire.READY, kept)
    except OSError as refused:
        sock.send(wire.REFUSED + wire.ERRNO.pack(0) + str(refused).encode())
        return
    _run_one(sock)
    _yield_to_others(os.SCHED_BATCH)
    # The cgroup is removed after this process exits: wait until the holder has read its figures.
    while sock.recv(1):
        pass


def _announce(sock: socket.socket) -> None:
    """Send the agent the pidfd of this process, with which it can kill the sandbox."""
    pidfd = os.pidfd_open(os.getpid())
    wire.send_raw(sock, wire.MADE, (pidfd,))
    os.close(pidfd)


def _yield_to_others(policy: int) -> None:
    """Set the scheduling policy: with SCHED_BATCH this process does not preempt others on wake-up.

    Used while a pooled slot is made, and for the exit, which unmounts for half a millisecond.
    """
    os.sched_setscheduler(0, policy, _NO_PRIORITY)


def _build(template: Template, needs: Needs, uid: int, disk: int) -> None:
    """Make the private part of the root and the network, before privileges are dropped.

    `disk` is a detached mount for /work, or -1.
    """
    os.setsid()  # kill(0) of a job without this would reach the launcher's process group
    if template.own_cgroups:
        kernel.unshare(kernel.CLONE_NEWCGROUP)  # after the entry: the job sees its own as the root
    if template.overlays:
        template.overlays.enter(needs.bundle)
    elif template.bundles:
        overlay.enter_shared(needs.bundle)
    _PROC.make()
    # One file system mounted at three paths: tmp_mb is their total size.
    inodes = needs.tmp_mb * _INODES_PER_MIB
    kernel.mount("tmpfs", "/tmp", "tmpfs", _NO_DEVICE, f"size={needs.tmp_mb}m,nr_inodes={inodes}")
    for name, mode, inner, target, bind in _BINDS:
        on_disk = disk >= 0 and name == "work"
        if on_disk:
            work.attach(disk)
        else:
            os.mkdir(inner)
        place = target if on_disk else inner
        os.chmod(place, mode)
        if template.own_uids:
            os.chown(place, uid, uid)
        if not on_disk:
            bind.make()
    if needs.network != "host":
        _loopback_up()


def _loopback_up() -> None:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        fcntl.ioctl(sock.fileno(), _SIOCSIFFLAGS, _LOOPBACK_UP)
    finally:
        sock.close()


def _join_link(sock: socket.socket) -> None:
    """Configure this end of the link that the agent has moved into this namespace."""
    message, _ = wire.receive(sock)
    if not message:
        raise OSError(errno.EPIPE, "the agent closed the socket of this sandbox")
    _, own, gateway = message
    netlink.add_default_route(netlink.configure("eth0", own), gateway)


def _give_up_everything(template: Template, needs: Needs, uid: int) -> None:
    """Drop all privileges: own uid, own user namespace, no capabilities, system call filter.

    The user namespace is created last and owns none of the others, so a capability regained in it
    would give no control over mounts, interfaces or processes.
    """
    if template.own_uids:
        kernel.keep_capabilities()
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        # Not needed by the kernel, but by Ubuntu's AppArmor, which refuses user namespaces
        # to processes without it.
        kernel.set_capabilities((kernel.CAP_SYS_ADMIN,))
        kernel.set_dumpable(1)  # so that this uid may write /proc/self/uid_map
    # Jobs would inherit the agent's protection from the OOM killer (systemd: OOMScoreAdjust=-1000),
    # and the kernel would not kill them even above their own memory.max.
    _write("oom_score_adj", _OOM_SCORE)
    outside = uid if template.own_uids else JOB_ID  # as the launcher process sees its own
    kernel.unshare(kernel.CLONE_NEWUSER)
    map_ids(outside, outside)
    os.close(HOST_PROC)
    if needs.nproc:
        resource.setrlimit(resource.RLIMIT_NPROC, (needs.nproc, needs.nproc))
    kernel.drop_bounding(template.top_capability)
    kernel.set_capabilities(())
    kernel.no_new_privileges()
    kernel.set_dumpable(0)
    os.chdir("/work")
    for program in template.seccomp:
        program.load()


def map_ids(uid: int, gid: int) -> None:
    """Map these ids outside of this process's new user namespace to the job's, and no others."""
    _write("setgroups", "deny")
    _write("uid_map", f"{JOB_ID} {uid} 1")
    _write("gid_map", f"{JOB_ID} {gid} 1")


def _write(file: str, text: str) -> None:
    """Write to an entry of this process in the host's /proc."""
    fd = os.open("self/" + file, os.O_WRONLY, dir_fd=HOST_PROC)
    try:
        os.write(fd, text.encode())
    except OSError as failed:
        raise OSError(failed.errno, f"/proc/self/{file}: {failed.strerror}") from failed
    finally:
        os.close(fd)


def rehearse() -> None:
    """Run a job in this process: tests the shared root, and warms up the code."""
    if (status := _try_run("/usr/bin/true")) != 0:
        raise OSError(errno.ENOEXEC, f"/usr/bin/true ended with {status} in the new root")
    _self_test()


def _self_test() -> None:
    """Start a job up to the exec of a file that is not executable.

    Tests the slot, and faults in the pages that the start of its job will write to.
    """
    if (status := _try_run("/")) != _CANNOT_RUN << 8:
        raise OSError(errno.ENOEXEC, f"the self-test of a new sandbox gave {status}")


def _try_run(program: str) -> int:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        wire.send(far, (wire.RUN, (program,), {}, 60.0, 0.0, False), (0, 0, 0))
        _run_one(near)
        answer = far.recv(wire.PACKET)
    finally:
        near.close()
        far.close()
    status: int = wire.ENDING.unpack(answer[1 : 1 + wire.ENDING.size])[0]
    return status


def _run_one(sock: socket.socket) -> None:
    message, fds = wire.receive(sock)
    if message and message[0] == wire.BIG:
        message = wire.read_big(fds.pop(0))
    if message and message[0] == wire.RUN:
        sock.send(_Job(sock).run(message, fds))


class _Job:
    """The one job of a slot, from its start until all of its processes are dead."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._main = -1
        self._status: int | None = None
        self._cpu_s = 0.0
        self._poll = select.poll()
        self._poll.register(SIGNALS, select.POLLIN)
        self._poll.register(sock.fileno(), select.POLLIN)
        self._deadline: float | None = None
        self._kill_at: float | None = None
        self._timed_out = False
        self._stopped = False
        self._grace_s = 0.0

    def run(self, message: "tuple[Any, ...]", fds: list[int]) -> bytes:
        """Run the job to its end and return the ENDED message."""
        _, argv, env, timeout_s, self._grace_s, has_stdin = message
        error = b""
        began = time.monotonic()
        if timeout_s is not None:
            self._deadline = began + timeout_s
        try:
            self._spawn(argv, env, fds, 0 if has_stdin else 1)
        except OSError as failed:
            missing = failed.errno in (errno.ENOENT, errno.ENOTDIR)
            self._status = (_NOT_FOUND if missing else _CANNOT_RUN) << 8
            error = f"{argv[0]}: {failed.strerror}".encode("utf-8", "replace")
        for fd in fds:
            os.close(fd)
        while self._status is None:
            self._wait_for_news()
        self._kill_the_rest()
        flags = (self._timed_out, self._stopped)
        wall_s = time.monotonic() - began
        return wire.ENDED + wire.ENDING.pack(self._status, *flags, self._cpu_s, wall_s) + error

    def _spawn(
        self, argv: tuple[str, ...], env: dict[str, str], fds: list[int], first: int
    ) -> None:
        """Start the job's process, with these as its descriptors `first` and those after it."""
        os.putenv("PATH", env.get("PATH", ""))  # posix_spawnp searches the caller's
        # Perhaps stdin, then stdout, stderr, and perhaps the job's line, in place of this process's
        # own socket. None of them was received as a number below that.
        given = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(fds, first)]
        self._main = os.posix_spawnp(
            argv[0],
            argv,
            env,
            file_actions=((os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0), *given),
            setsid=True,
            setsigmask=(),
            setsigdef=_RESET,
        )

    def _wait_for_news(self) -> None:
        """Wait until a child ends, the holder sends a message, or a timeout expires."""
        ends = [at for at in (self._deadline, self._kill_at) if at is not None]
        pause = max(0.0, min(ends) - time.monotonic()) * 1000 if ends else None
        for fd, _ in self._poll.poll(pause):
            if fd == SIGNALS:
                os.read(SIGNALS, SIGNAL_BYTES)
                self._reap(os.WNOHANG)
            else:
                self._hear()
        now = time.monotonic()
        if self._deadline is not None and now >= self._deadline:
            self._timed_out = True
            self._terminate(self._grace_s)
        if self._kill_at is not None and now >= self._kill_at:
            self._kill()

    def _hear(self) -> None:
        message, _ = wire.receive(self._sock)
        if not message:  # no holder is left to receive the ending
            self._kill()
        elif message[0] == wire.STOP:
            self._stopped = True
            self._terminate(message[1])

    def _terminate(self, grace_s: float) -> None:
        """Send SIGTERM to every process, and SIGKILL later; an earlier SIGKILL stays scheduled."""
        self._deadline = None
        kill_at = time.monotonic() + grace_s
        self._kill_at = kill_at if self._kill_at is None else min(kill_at, self._kill_at)
        _signal_all(signal.SIGTERM)
        _signal_all(signal.SIGCONT)  # stopped processes would not receive the SIGTERM

    def _kill(self) -> None:
        self._deadline = self._kill_at = None
        _signal_all(signal.SIGKILL)

    def _kill_the_rest(self) -> None:
        """Kill every process of the job.

        The kernel checks for pending signals while it holds the lock under which a fork adds its
        child, so a fork bomb cannot escape one kill(-1, SIGKILL).
        """
        while self._reap(os.WNOHANG):  # the job's remaining processes are children of this init now
            self._kill()
            self._reap(0)

    def _reap(self, flags: int) -> bool:
        """Reap ended children; with flags 0 wait for all. Returns False when none is left."""
        while True:
            try:
                pid, status, used = os.wait4(-1, flags)
            except ChildProcessError:
                return False
            if not pid:
                return True
            self._cpu_s += used.ru_utime + used.ru_stime
            if pid == self._main:
                self._status = status


def _signal_all(number: int) -> None:
    try:
        os.kill(-1, number)
    except ProcessLookupError:
        return
