"""The launcher process: small, single-threaded, without secrets in its memory.

It is started before the agent reads any secret, with nothing of its environment. It builds the root
that all sandboxes share, makes it its own root, and from then on only forks and reaps slots.

If the agent dies, this process exits and the slots remain: a slot with a job exits when the job
ends, a waiting slot exits because its socket is closed.
"""

import _socket as socket  # see wire.py
import errno
import fcntl
import gc
import os
import resource
import select

from ec2_agent.sandbox import kernel, root, slot, steps, wire
from ec2_agent.sandbox.memory import ProcessMemory
from ec2_agent.sandbox.native import Native

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    import signal
    from typing import Any
else:
    import _signal as signal

_MAKES_NAMESPACES = (
    kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS
)
_NEEDED = (
    kernel.CAP_CHOWN,  # give the work directory to the slot's uid
    kernel.CAP_DAC_OVERRIDE,  # /proc/self/uid_map of a process that changed its uid
    kernel.CAP_KILL,  # kill slots, which have other uids
    kernel.CAP_SETGID,
    kernel.CAP_SETUID,
    kernel.CAP_SETPCAP,  # empty the bounding set
    kernel.CAP_NET_ADMIN,  # bring the loopback interface up
    kernel.CAP_SYS_ADMIN,  # namespaces and mounts
)
_SHOWN = b"joblane-sandbox"
_LULL_MS = 5
"""How long to wait before a pooled slot is made. /bin/true takes 1 ms in a sandbox."""
_MOST_PLANS = 64
"""Each has 13 KB without overlays. Jobs of one kind have one."""
_INFINITY = resource.RLIM_INFINITY
_LIMITS = (
    # 1, not 0: with 0 a core_pattern with a pipe still starts a host program as root
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
    """Run until the agent closes the connection or ends."""
    _hide_arguments()
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, slot.SOCKET)
    (config,), fds = wire.receive(control)
    try:
        zygote = Zygote(control, config, fds)
    except OSError as refused:
        wire.send_raw(control, wire.REFUSED + wire.ERRNO.pack(0) + str(refused).encode())
        return
    wire.send_raw(control, wire.READY + zygote.shares_inodes.encode())
    zygote.serve()


if TYPE_CHECKING:
    Limits = tuple[tuple[str, str], ...]
    Order = tuple[int, slot.Needs, Limits, int]


def _hide_arguments() -> None:
    """Replace this process's arguments, which slots inherit and a job reads as /proc/1/cmdline.

    They have the path of the agent. `ps` shows what is there instead: where the last byte is not
    NUL, the kernel takes what is before the first NUL for all of it (fs/proc/base.c, setproctitle).
    """
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b") ")[2].split()
    start, end = int(fields[45]), int(fields[46])  # proc(5): arg_start, arg_end
    memory = os.open("/proc/self/mem", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(memory, _SHOWN.ljust(end - start - 1, b"\0") + b".", start)
    finally:
        os.close(memory)


class Zygote:
    """The state of the launcher process."""

    def __init__(self, control: socket.socket, config: "dict[str, Any]", fds: list[int]) -> None:
        """Prepare everything that slots share. `fds` are the lock and the cgroup's directory."""
        self._control = control
        native = Native()  # before the root changes
        # Duplicate first: the received numbers may include the fixed ones.
        lock, *rest = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64) for fd in fds]
        for fd in fds:
            os.close(fd)
        wire.park(lock, slot.LOCK)
        self._cgroup = rest[0] if rest else None
        """The directory in which each slot has its cgroup."""
        self._flags = _MAKES_NAMESPACES | (kernel.CLONE_NEWTIME if config["time_ns"] else 0)
        if self._cgroup is None:
            self._flags |= kernel.CLONE_NEWCGROUP
        self._uids = list(config["uids"])
        self._slots: dict[int, tuple[int, int]] = {}
        """Number and uid of each running slot, by the pid of its init."""
        self._wanted: list[Order] = []
        """Ordered slots for the pool that are not made yet."""
        self._eager_above = config["slots"] // 2
        self._unread: set[int] = set()
        """Slots that were killed and whose figures have not been read yet."""
        _prepare_process()
        self.shares_inodes = ""
        """Why slots share the inodes of what they read; empty if each has its own."""
        self._template = self._make_template(config, native)
        self._plans: dict[tuple[str | int, ...], slot.SlotPlan] = {}
        """By the keys of needs."""
        _rehearse(native)
        gc.collect()
        gc.disable()
        gc.freeze()
        self._memory = ProcessMemory(native.library)
        self._memory.leave_out()
        try:
            _rehearse(native)
        except OSError:  # this C library needs more: slots are slower, and work
            self._memory.take_in()
            self._memory.keep_all()

    def _make_template(self, config: "dict[str, Any]", native: Native) -> slot.Template:
        """Build the shared root, and give up what slots do not need."""
        devices = root.build_root(config)
        overlays = None
        try:
            overlays = root.prepare_overlays(config, devices)
        except OSError as lacking:
            self.shares_inodes = str(lacking)
            if config["own_inodes"]:
                raise
        if config["own_uids"]:
            os.setgroups([])
        kernel.drop_bounding(config["top_capability"], _NEEDED)
        kernel.set_capabilities(_NEEDED)
        *programs, for_shared_inodes = config["seccomp"]
        if self.shares_inodes:
            programs.append(for_shared_inodes)
        return slot.Template(
            native,
            tuple(programs),
            config["top_capability"],
            own_uids=config["own_uids"],
            overlays=overlays,
            own_cgroups=self._cgroup is not None,
            bundles=config["bundles"],
            shared_files=config["shared_files"],
            machine=config["machine"],
        )

    def serve(self) -> None:
        """Carry out the agent's requests until it closes the connection or ends.

        A slot for the pool is made after `_LULL_MS` without events, so that it does not compete for
        CPU with a job that has just been started; or at once, if half of the pool is missing.
        """
        poll = select.poll()
        poll.register(slot.SOCKET, select.POLLIN)
        poll.register(slot.SIGNALS, select.POLLIN)
        while True:
            news = poll.poll(_LULL_MS if self._wanted else None)
            for fd, _ in news:
                if fd == slot.SIGNALS:
                    os.read(slot.SIGNALS, slot.SIGNAL_BYTES)
                    self._reap()
                elif not self._on_request():
                    return
            if self._wanted and (not news or len(self._wanted) > self._eager_above):
                self._make(*self._wanted.pop(0))

    def _on_request(self) -> bool:
        message, fds = wire.receive(self._control)
        if not message or message[0] == wire.CLOSE:
            if message:
                self._end_all()
            return False
        if message[0] == wire.RELEASE:
            self._reap()  # the slot has ended, but may not have been reaped
            self._unread.discard(message[1])
            self._remove_leaf(message[1])
            return True
        _, number, needs, limits = message
        order = (number, slot.Needs(*needs), limits, fds[0])
        if order[1].pooled:
            self._wanted.append(order)
        else:
            self._make(*order)
        return True

    def _make(self, number: int, needs: slot.Needs, limits: "Limits", slot_socket: int) -> None:
        """Make a slot, or send the agent the reason why not."""
        try:
            self._fork(number, needs, limits, slot_socket)
        except OSError as failed:
            code = wire.ERRNO.pack(failed.errno or 0)
            refused = wire.REFUSED + code + str(failed).encode()
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, slot_socket)
            wire.attempt(wire.send_raw, sock, refused)  # the agent may not need it any more
            sock.detach()
        finally:
            os.close(slot_socket)

    def _fork(self, number: int, needs: slot.Needs, limits: "Limits", slot_socket: int) -> None:
        if not self._uids:
            raise OSError(errno.EAGAIN, "every uid of this launcher is in use")
        plan = self._plan(needs)
        flags = self._flags | (0 if needs.network == "host" else kernel.CLONE_NEWNET)
        leaf = None if self._cgroup is None else self._make_leaf(number, limits)
        uid = self._uids.pop(0)
        try:
            if plan.whole is None:
                pid = self._fork_whole(flags, leaf)
            else:
                outside = self._template.outside(uid)
                pid = self._template.native.fork(
                    flags, leaf, slot_socket, plan.whole, outside, pooled=needs.pooled
                )
        except OSError:
            self._uids.append(uid)
            self._remove_leaf(number)
            raise
        finally:
            if leaf is not None:
                os.close(leaf)
        if not pid:
            try:
                os.dup2(slot_socket, slot.SOCKET, inheritable=False)
                slot.run_live(self._template, needs, plan, self._control, uid)
            finally:
                os._exit(0)
        self._slots[pid] = (number, uid)

    def _plan(self, needs: slot.Needs) -> slot.SlotPlan:
        key = needs.key()
        if key not in self._plans:
            if len(self._plans) == _MOST_PLANS:
                self._plans.clear()
            self._plans[key] = slot.SlotPlan(self._template, needs)
        return self._plans[key]

    def _fork_whole(self, flags: int, leaf: int | None) -> int:
        """Fork with all memory: Python runs in the child."""
        self._memory.take_in()
        pid = -1
        try:
            pid = kernel.clone3(flags, leaf)
        finally:
            if pid:
                self._memory.leave_out()
        return pid

    def _make_leaf(self, number: int, limits: "Limits") -> int:
        """Make a slot's cgroup with its limits; returns its directory."""
        os.mkdir(str(number), dir_fd=self._cgroup)
        leaf = os.open(str(number), os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._cgroup)
        for file, text in limits:
            try:
                fd = os.open(file, os.O_WRONLY, dir_fd=leaf)
                try:
                    os.write(fd, text.encode())
                finally:
                    os.close(fd)
            except OSError as failed:
                os.close(leaf)
                self._remove_leaf(number)
                raise OSError(failed.errno, f"{file} = {text}: {failed.strerror}") from failed
        return leaf

    def _remove_leaf(self, number: int) -> None:
        if self._cgroup is not None:
            # Leftovers are removed when the launcher closes.
            wire.attempt(os.rmdir, str(number), dir_fd=self._cgroup)

    def _reap(self) -> None:
        """Reap slots that have ended, and remove their cgroups after their figures were read.

        job ends:    init reports -- holder reads the figures, closes -- init exits -- remove
        killed, OOM: init dies -- it is reaped -- holder reads the figures -- RELEASE -- remove
        """
        while self._slots:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            number, uid = self._slots.pop(pid)
            self._uids.append(uid)
            if os.WIFEXITED(status):
                self._remove_leaf(number)
            else:
                self._unread.add(number)

    def _end_all(self) -> None:
        for pid in self._slots:
            os.kill(pid, signal.SIGKILL)
        for _ in self._slots:
            os.waitpid(-1, 0)  # returns when the whole pid namespace is dead


def _prepare_process() -> None:
    """Set the signals, descriptors and limits that all slots have, and their jobs inherit."""
    signals = (signal.SIGCHLD,)
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    # With a handler, a signal could kill pid 1. An ignored signal stays ignored after exec: Python
    # ignores two, the agent's parent maybe more.
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    wire.park(kernel.signal_descriptor(signals), slot.SIGNALS)
    wire.park(os.open("/proc", os.O_PATH), slot.HOST_PROC)
    os.umask(0o022)
    wire.attempt(kernel.forget_keys)  # the kernel may be built without keyrings
    _limit_self()


def _rehearse(native: Native) -> None:
    """Run /usr/bin/true in a child, without namespaces: tests the shared root, and the memory.

    Raises OSError if it does not run.
    """
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    only = steps.Steps()
    only.add("close_range", "close_range", slot.FIRST_OTHER, kernel.LAST_UINT)
    try:
        wire.send_run(near, wire.run_body(("/usr/bin/true",), {}, 60.0, 0.0), (0, 0))
        child = native.fork(0, None, far.fileno(), only, 0, pooled=True)
    except OSError:
        near.close()
        raise
    finally:
        far.close()
    try:
        answer = wire.receive_answer(near)
        if answer == wire.MADE:
            answer = wire.receive_answer(near)
    finally:
        near.close()  # for which it waits
        os.waitpid(child, 0)
    if answer[:1] != wire.ENDED or wire.ENDING.unpack_from(answer, 1)[0]:
        raise OSError(errno.ENOEXEC, f"/usr/bin/true does not run in the new root: {answer!r}")


def _limit_self() -> None:
    """Set the resource limits that jobs inherit; hard limits are only lowered."""
    for kind, soft, hard in _LIMITS:
        top = resource.getrlimit(kind)[1]
        highest = min((hard, top), key=_unlimited_last)
        resource.setrlimit(kind, (min((soft, highest), key=_unlimited_last), highest))


def _unlimited_last(value: int) -> tuple[bool, int]:
    return value == _INFINITY, value
