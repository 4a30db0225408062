"""The agent's connection to the launcher process: starts it, orders slots, ends it."""

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from ec2_agent.sandbox import cgroup, wire
from ec2_agent.sandbox.model import HostShort, LauncherGone, SandboxRefused, refusal

# The package's __init__ would load the agent's modules into the launcher process and double its
# memory, so the process gets an empty package of that name with the same path.
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

Needs = tuple[str, int, int]
"""Network, tmp_mb and RLIMIT_NPROC of a slot (see slot.Needs)."""


class Slot(NamedTuple):
    """A slot that was ordered, and the agent's end of its socket."""

    number: int
    sock: socket.socket


class Made(NamedTuple):
    """The init of a slot."""

    pid: int
    pidfd: int


class LauncherProcess:
    """The connection. Not thread-safe: the Launcher's lock guards it."""

    def __init__(self, config: dict[str, object], fds: list[int]) -> None:
        """Start the process and wait until it is ready; raises SandboxRefused."""
        self._answers: dict[int, Made | SandboxRefused] = {}
        self._unwanted: set[int] = set()
        """Discarded slots whose answer has not been received yet."""
        self._next_number = 1
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
            reason = message[3] if message else "it died; see its message on standard error"
            raise SandboxRefused(f"the launcher process could not be started: {reason}")

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._process.pid

    def order(self, needs: Needs, limits: tuple[cgroup.Write, ...], *, pooled: bool) -> Slot:
        """Ask for a slot without waiting for it; raises SandboxRefused if the process has ended."""
        number = self._next_number
        self._next_number += 1
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        message = (wire.MAKE, number, (*needs, pooled), limits)
        with theirs:
            try:
                wire.send(self._control, message, (theirs.fileno(),))
            except OSError as gone:
                ours.close()
                raise LauncherGone(f"the launcher process is gone ({gone})") from gone
        return Slot(number, ours)

    def made(self, slot: Slot) -> Made:
        """Wait for the init of an ordered slot; raises SandboxRefused when there is none."""
        while slot.number not in self._answers:
            if not self._take_answer(0):
                raise LauncherGone("the launcher process is gone")
        answer = self._answers[slot.number]
        if isinstance(answer, SandboxRefused):
            raise answer
        return answer

    def take_pidfd(self, slot: Slot) -> int:
        """Return the pidfd of a slot's init, which the caller owns from then on."""
        pidfd = self.made(slot).pidfd
        del self._answers[slot.number]
        return pidfd

    def discard(self, slot: Slot) -> None:
        """Release a slot that has no Sandbox yet."""
        slot.sock.close()
        answer = self._answers.pop(slot.number, None)
        if isinstance(answer, Made):
            os.close(answer.pidfd)
        elif answer is None:
            self._unwanted.add(slot.number)

    def release(self, number: int) -> None:
        """Remove the cgroup of a slot that was killed: its figures have been read."""
        with contextlib.suppress(OSError):
            wire.send(self._control, (wire.RELEASE, number))

    def close(self) -> None:
        """Kill all slots and the process; return when they are dead."""
        with contextlib.suppress(OSError):
            wire.send(self._control, (wire.CLOSE,))
        self._process.wait()
        with contextlib.suppress(OSError):
            while self._take_answer(socket.MSG_DONTWAIT):
                pass
        for answer in self._answers.values():
            if isinstance(answer, Made):
                os.close(answer.pidfd)
        self._control.close()

    def _take_answer(self, flags: int) -> bool:
        """Read one answer; False if the process has ended."""
        message, fds = wire.receive(self._control, flags)
        if not message:
            return False
        kind, number, detail, *reason = message
        if number not in self._unwanted:
            if kind == wire.FAILED:
                self._answers[number] = refusal(
                    detail, f"the sandbox could not be made: {reason[0]}"
                )
            elif fds:
                self._answers[number] = Made(detail, fds[0])
            else:  # the kernel drops descriptors above this process's limit
                self._answers[number] = HostShort("this agent has no descriptors left")
        else:
            self._unwanted.remove(number)
            for fd in fds:
                os.close(fd)
        return True
