"""The launcher: a process of its own that makes sandboxes, and the agent's handle to it."""

import collections
import contextlib
import functools
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from ec2_agent.sandbox import cgroup, limits, plan, seccomp, uids, wire
from ec2_agent.sandbox.handle import Sandbox
from ec2_agent.sandbox.model import (
    EgressPolicy,
    Isolation,
    Limits,
    Network,
    SandboxRefused,
    Spec,
)

DEFAULTS = Limits(pids=1024, tmp_mb=256)

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/work",
    "USER": "job",
    "LANG": "C.UTF-8",
}
"""What a job finds in its environment when its spec says nothing else."""

# The package's own __init__ would load the agent's side into the launcher process, twice its
# memory; so the process gets an empty package of that name that only knows where it lies.
_BOOT = """\
import os, sys, types
package = types.ModuleType("ec2_agent.sandbox")
package.__path__ = [sys.argv[2]]
sys.modules["ec2_agent"] = types.ModuleType("ec2_agent")
sys.modules["ec2_agent.sandbox"] = package
os.dup2(int(sys.argv[1]), 3, inheritable=False)
from ec2_agent.sandbox import zygote
zygote.main()
"""


_Needs = tuple[str, int, int]


class _Slot(NamedTuple):
    """The agent's end of a slot that is being made or ready."""

    number: int
    sock: socket.socket


class Launcher:
    """Makes sandboxes. A context manager; every method may be called from any thread."""

    def __init__(  # noqa: PLR0913 - keyword-only settings of the one object an agent has
        self,
        *,
        isolation: Isolation,
        slots: int,
        defaults: Limits = DEFAULTS,
        allow_host_network: bool = False,
        egress: EgressPolicy | None = None,
        state_dir: Path | None = None,
        programs: tuple[Path, ...] = (),
    ) -> None:
        """Start the launcher process; raise SandboxRefused if `isolation` cannot be had.

        `slots` is how many sandboxes are kept ready. `state_dir` (default: under /run) holds
        the uid locks, so launchers of one host share it. `programs` are host trees that jobs
        may read and execute beside /usr, at their own paths.
        """
        self._lock = threading.Lock()
        self._allow_host_network = allow_host_network
        self._egress = egress
        self._slots = slots
        self._answers: dict[int, int | str] = {}
        self._pool: collections.deque[_Slot] = collections.deque()
        self._running: dict[int, Sandbox] = {}
        self._discarded: set[int] = set()
        """Slots whose answer has not come yet and is not wanted any more."""
        self._next_number = 1
        self._closed = False
        filters = seccomp.compile_filters()
        state_dir = state_dir or uids.default_state_dir()
        lock, block = uids.take_block(state_dir)
        self._room: cgroup.Room | None = None
        with contextlib.ExitStack() as undo:
            undo.callback(os.close, lock)
            fds = [lock]
            if isolation == "full":
                room = cgroup.open_room(f"joblane-{block}", (Path("/usr"), state_dir))
                self._room = room
                self._host = limits.Host("full", room.controllers, room.cores, room.disks)
                fds.append(os.open(room.path, os.O_RDONLY | os.O_DIRECTORY))
                undo.callback(os.close, fds[-1])
            else:
                self._host = limits.Host(isolation, frozenset(), os.sched_getaffinity(0), ())
            try:
                limits.check(defaults, self._host)
                self._defaults = limits.merge(DEFAULTS, defaults)
                config = {
                    "plan": plan.make_plan(plan.look(programs), programs, ()),
                    "slots": slots,
                    "own_uids": os.geteuid() == 0,
                    "uids": tuple(uids.uids_of(block)),
                    "seccomp": filters,
                    "top_capability": int(Path("/proc/sys/kernel/cap_last_cap").read_text()),
                    "time_ns": Path("/proc/self/ns/time").exists(),
                }
                self._start_process(config, fds)
            except BaseException:
                self._remove_room()
                raise
        self._pool_needs = self._needs(self._defaults, "none")
        self._refill()

    def _start_process(self, config: dict[str, object], fds: list[int]) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            here = str(Path(__file__).parent)
            argv = [sys.executable, "-I", "-S", "-c", _BOOT, str(theirs.fileno()), here]
            self._process = subprocess.Popen(
                argv,
                env={},
                cwd="/",
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
            )
        wire.send(self._control, (config,), tuple(fds))
        message, _ = wire.receive(self._control)
        if not message or message[0] != wire.MADE:
            self._control.close()
            self._process.wait()
            reason = message[2] if message else "it died; its message is on standard error"
            raise SandboxRefused(f"the launcher process could not be started: {reason}")

    def start(self, spec: Spec, *, stdout: int, stderr: int) -> Sandbox:
        """Run the job; raise SandboxRefused, with nothing run, if it cannot be run as asked.

        `stdout` and `stderr` are descriptors the job writes to; the caller closes its copies
        afterwards. stdin is /dev/null.
        """
        env = {**ENVIRONMENT, **spec.env}
        _check_texts(spec.argv, env)
        settled = limits.merge(self._defaults, spec.limits)
        limits.check(settled, self._host)
        if spec.network == "host" and not self._allow_host_network:
            raise SandboxRefused(
                "network host is not allowed on this fleet; use none or egress, "
                "or have the operator allow it in joblane.toml"
            )
        run = (wire.RUN, spec.argv, env, spec.timeout_s, spec.grace_s)
        needs = self._needs(settled, spec.network)
        with self._lock:
            if self._closed:
                raise SandboxRefused("this launcher is closed")
            ready = self._take_ready() if needs == self._pool_needs else None
            slot = ready or self._make(needs, self._writes(settled), pooled=False)
            try:
                leaf = self._leaf(slot.number)
                if ready and leaf:
                    changes = set(self._writes(settled)) - set(self._writes(self._defaults))
                    cgroup.apply(leaf, changes)
                wire.send_run(slot.sock, run, (stdout, stderr))
                if len(self._pool) <= self._slots // 2:
                    self._refill()
                pidfd = self._await_made(slot.number)
            except BaseException:
                self._discard(slot)
                raise
            sandbox = Sandbox(slot.sock, pidfd, leaf, functools.partial(self._bury, slot.number))
            self._running[slot.number] = sandbox
        if not ready:
            # The job may be running by now; this only learns whether it could be.
            answer = slot.sock.recv(wire.PACKET)
            if answer != wire.READY:
                sandbox.abandon()
                reason = answer[1:].decode("utf-8", "replace") or "it died"
                raise SandboxRefused(f"the sandbox could not be made: {reason}")
        return sandbox

    def _leaf(self, number: int) -> Path | None:
        return self._room.path / str(number) if self._room else None

    def _writes(self, settled: Limits) -> tuple[cgroup.Write, ...]:
        return cgroup.writes(settled, self._room) if self._room else ()

    def _bury(self, number: int) -> None:
        """Tell the launcher process that the figures of a slot have been read."""
        with self._lock:
            self._running.pop(number, None)
            if not self._closed:
                # A dead launcher process is the next start's to report.
                with contextlib.suppress(OSError, SandboxRefused):
                    if self._room:
                        wire.send(self._control, (wire.BURY, number))
                    self._refill()

    def _needs(self, settled: Limits, network: Network) -> _Needs:
        """Give what the slot has to be made with (see slot.Needs)."""
        # Without pids.max it is RLIMIT_NPROC that counts, in the slot's own user namespace and
        # with its init.
        nproc = 0 if self._room or settled.pids is None else settled.pids + 1
        return network, settled.tmp_mb or 0, nproc

    def _make(self, needs: _Needs, writes: tuple[cgroup.Write, ...], *, pooled: bool) -> _Slot:
        number = self._next_number
        self._next_number += 1
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                message = (wire.MAKE, number, (*needs, pooled), writes)
                wire.send(self._control, message, (theirs.fileno(),))
            except OSError as gone:
                ours.close()
                raise SandboxRefused(f"the launcher process is gone ({gone})") from gone
        return _Slot(number, ours)

    def _refill(self) -> None:
        """Order what the pool lacks: when it is half empty, or when a job has ended."""
        writes = self._writes(self._defaults)
        while len(self._pool) < self._slots:
            self._pool.append(self._make(self._pool_needs, writes, pooled=True))

    def _take_ready(self) -> _Slot | None:
        """Give the oldest slot of the pool when it is ready."""
        while self._pool:
            slot = self._pool.popleft()
            try:
                answer = slot.sock.recv(wire.PACKET, socket.MSG_DONTWAIT)
            except BlockingIOError:
                self._pool.appendleft(slot)
                return None
            if answer == wire.READY:
                return slot
            # A start on demand meets the same trouble and can tell its caller.
            self._discard(slot)
        return None

    def _discard(self, slot: _Slot) -> None:
        """Give up a slot that has no Sandbox yet."""
        slot.sock.close()
        answer = self._answers.pop(slot.number, None)
        if isinstance(answer, int):
            os.close(answer)
        elif answer is None:
            self._discarded.add(slot.number)
        with contextlib.suppress(OSError):
            wire.send(self._control, (wire.BURY, slot.number))

    def _await_made(self, number: int) -> int:
        """Give the pidfd of a slot's init."""
        while number not in self._answers:
            if not self._take_answer(0):
                raise SandboxRefused("the launcher process is gone")
        answer = self._answers.pop(number)
        if isinstance(answer, str):
            raise SandboxRefused(f"the sandbox could not be made: {answer}")
        return answer

    def _take_answer(self, flags: int) -> bool:
        """Note one answer of the launcher process; False when it is gone."""
        message, fds = wire.receive(self._control, flags)
        if not message:
            return False
        kind, number, detail = message
        if number not in self._discarded:
            self._answers[number] = fds[0] if kind == wire.MADE else detail
        elif kind == wire.MADE:
            self._discarded.remove(number)
            os.close(fds[0])
        return True

    def close(self) -> None:
        """Kill what still runs and take everything away."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            with contextlib.suppress(OSError):
                wire.send(self._control, (wire.CLOSE,))
            self._process.wait()
            with contextlib.suppress(OSError):
                while self._take_answer(socket.MSG_DONTWAIT):
                    pass
            for slot in self._pool:
                slot.sock.close()
            for answer in self._answers.values():
                if isinstance(answer, int):
                    os.close(answer)
            self._control.close()
            running = list(self._running.values())
        # Dead by now, unless the launcher process died before it could see to that.
        for sandbox in running:
            sandbox.kill()
        self._remove_room()

    def _remove_room(self) -> None:
        if self._room is not None:
            cgroup.sweep(self._room.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _check_texts(argv: tuple[str, ...], env: dict[str, str]) -> None:
    if not argv or not argv[0]:
        raise SandboxRefused("the command is empty")
    if any("\0" in text for text in (*argv, *env, *env.values())):
        raise SandboxRefused("the command or its environment holds a NUL character")
    if any(not name or "=" in name for name in env):
        raise SandboxRefused("an environment variable has an empty name or one with =")
