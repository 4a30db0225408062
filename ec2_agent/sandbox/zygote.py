"""The launcher process: small, single-threaded, with nothing to steal in its memory.

It is started before the agent reads any secret, with an empty environment; it builds the root
that all sandboxes share, moves into it, and from then on only forks slots and buries them.

When the agent goes away without saying so, this process ends and the slots stay: those that
run a job end with it, those that wait see that nobody holds their socket.
"""

import collections
import fcntl
import gc
import os
import resource
import select
import signal
import socket

from ec2_agent.sandbox import kernel, slot, wire

_MAKES_NAMESPACES = (
    kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS
)
_NEEDED = (
    kernel.CAP_CHOWN,  # the work directory to its slot's uid
    kernel.CAP_DAC_OVERRIDE,  # /proc/self/uid_map of a process that changed its uid
    kernel.CAP_KILL,  # end slots, whose uids are not ours
    kernel.CAP_SETGID,
    kernel.CAP_SETUID,
    kernel.CAP_SETPCAP,  # empty the bounding set
    kernel.CAP_NET_ADMIN,  # the loopback up
    kernel.CAP_SYS_ADMIN,  # namespaces and mounts
)
_NEW_ROOT = "/tmp"
_INFINITY = resource.RLIM_INFINITY
_LIMITS = (
    # 1, not 0: with 0 a core_pattern that pipes still starts a host program as root
    (resource.RLIMIT_CORE, 1, 1),
    (resource.RLIMIT_NOFILE, 1024, 65536),
    (resource.RLIMIT_MEMLOCK, 8 << 20, 8 << 20),
    (resource.RLIMIT_SIGPENDING, 4096, 4096),
    (resource.RLIMIT_NICE, 0, 0),
    (resource.RLIMIT_RTPRIO, 0, 0),
    (resource.RLIMIT_CPU, _INFINITY, _INFINITY),
    (resource.RLIMIT_FSIZE, _INFINITY, _INFINITY),
    (resource.RLIMIT_STACK, 8 << 20, _INFINITY),
)


def main() -> None:
    """Run until the agent closes or leaves."""
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, slot.SOCKET)
    (config,), fds = wire.receive(control)
    try:
        zygote = Zygote(control, config, fds)
    except OSError as refused:
        wire.send(control, (wire.FAILED, 0, str(refused)))
        return
    wire.send(control, (wire.MADE, 0, os.getpid()))
    zygote.serve()


TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from typing import Any


class Zygote:
    """The state of the launcher process."""

    def __init__(self, control: socket.socket, config: "dict[str, Any]", fds: list[int]) -> None:
        """Prepare everything that slots share. `fds` are the lock and the cgroup's directory."""
        self._control = control
        # Out of the way first: the fixed numbers may be among those received.
        lock, *rest = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64) for fd in fds]
        for fd in fds:
            os.close(fd)
        wire.park(lock, slot.LOCK)
        self._cgroup = rest[0] if rest else None
        self._flags = _MAKES_NAMESPACES | (kernel.CLONE_NEWTIME if config["time_ns"] else 0)
        self._uids = collections.deque(config["uids"])
        self._slots: dict[int, int] = {}
        signals = (signal.SIGCHLD,)
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)  # a handler would make pid 1 killable by it
        wire.park(kernel.signal_descriptor(signals), slot.SIGNALS)
        wire.park(os.open("/proc", os.O_PATH), slot.HOST_PROC)
        os.umask(0o022)
        _limit_self()
        _build_root(config)
        if config["own_uids"]:
            os.setgroups([])
        kernel.drop_bounding(config["top_capability"], _NEEDED)
        kernel.set_capabilities(_NEEDED)
        programs = tuple(kernel.Filter(program) for program in config["seccomp"])
        self._template = slot.Template(
            programs, config["top_capability"], own_uids=config["own_uids"]
        )
        gc.collect()
        gc.disable()
        gc.freeze()

    def serve(self) -> None:
        """Do what the agent asks until it says close or is gone."""
        poll = select.poll()
        poll.register(slot.SOCKET, select.POLLIN)
        poll.register(slot.SIGNALS, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == slot.SIGNALS:
                    os.read(slot.SIGNALS, 4096)
                    self._reap()
                elif not self._obey():
                    return

    def _obey(self) -> bool:
        message, fds = wire.receive(self._control)
        if not message:
            return False
        if message[0] == wire.CLOSE:
            self._end_all()
            return False
        _, number, needs = message
        try:
            self._make(number, slot.Needs(*needs), fds[0])
        except OSError as failed:
            wire.send(self._control, (wire.FAILED, number, str(failed)))
        os.close(fds[0])
        return True

    def _make(self, number: int, needs: slot.Needs, slot_socket: int) -> None:
        if not self._uids:
            raise OSError("every uid of this launcher is in use")
        flags = self._flags | (0 if needs.network == "host" else kernel.CLONE_NEWNET)
        uid = self._uids.popleft()
        try:
            pid, pidfd = kernel.clone3(flags, None)
        except OSError:
            self._uids.append(uid)
            raise
        if not pid:
            try:
                slot.live(self._template, needs, slot_socket, uid)
            finally:
                os._exit(0)
        self._slots[pid] = uid
        wire.send(self._control, (wire.MADE, number, pid), (pidfd,))
        os.close(pidfd)

    def _reap(self) -> None:
        while self._slots:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            self._uids.append(self._slots.pop(pid))

    def _end_all(self) -> None:
        for pid in self._slots:
            os.kill(pid, signal.SIGKILL)
        for _ in self._slots:
            os.waitpid(-1, 0)  # returns when the whole pid namespace is dead


def _limit_self() -> None:
    """Set what every job inherits; a hard limit is only ever lowered."""
    for kind, soft, hard in _LIMITS:
        top = resource.getrlimit(kind)[1]
        highest = min((hard, top), key=_unlimited_last)
        resource.setrlimit(kind, (min((soft, highest), key=_unlimited_last), highest))


def _unlimited_last(value: int) -> tuple[bool, int]:
    return value == _INFINITY, value


def _build_root(config: "dict[str, Any]") -> None:
    """Carry the mount plan out in a mount namespace of this process's own, and move in."""
    flags = kernel.CLONE_NEWNS | kernel.CLONE_NEWUTS
    uid, gid = os.getuid(), os.getgid()
    if not config["own_uids"]:
        flags |= kernel.CLONE_NEWUSER
    kernel.unshare(flags)
    if not config["own_uids"]:
        for file, text in (
            ("setgroups", "deny"),
            ("uid_map", f"0 {uid} 1"),
            ("gid_map", f"0 {gid} 1"),
        ):
            with open("/proc/self/" + file, "w") as map_file:
                map_file.write(text)
    kernel.mount("none", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
    plan = config["plan"]
    # All copies are taken before the new root covers a directory of the old one.
    trees = {step[1]: kernel.open_tree(step[2]) for step in plan if step[0] == "bind"}
    for step in plan:
        _carry_out(step, trees)
    kernel.pivot_root(_NEW_ROOT)
    kernel.mount(
        "none",
        "/",
        "",
        kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV,
    )
    socket.sethostname("job")


def _carry_out(step: "tuple[Any, ...]", trees: dict[str, int]) -> None:
    """Do one step of the plan; the kinds are explained where the plan is made."""
    kind, path, *rest = step
    target = _NEW_ROOT + path
    try:
        if kind == "tmpfs":
            kernel.mount("tmpfs", target, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, rest[0])
        elif kind == "dir":
            os.mkdir(target, rest[0])
        elif kind == "link":
            os.symlink(rest[0], target)
        elif kind == "file":
            with open(target, "wb") as file:
                file.write(rest[0])
        else:
            tree = trees[path]
            kernel.set_mount_attributes(tree, rest[1])
            kernel.attach(tree, target)
            os.close(tree)
    except OSError as failed:
        raise OSError(failed.errno, f"{kind} {path}: {failed.strerror}") from failed
