"""The agent's connection to the launcher process: starts it, orders slots, ends it."""

import contextlib
import select
import socket
from typing import NamedTuple

from ec2_agent.sandbox import cgroup, wire
from ec2_agent.sandbox.model import HostShort, LauncherGone, SandboxRefused, refusal
from ec2_agent.sandbox.zygote_process import start_zygote

_ENDING_MS = 100

Needs = tuple[str, int, int, str, bool]
"""Network, tmp_mb, RLIMIT_NPROC, bundle and own work directory of a slot (see slot.Needs)."""


class Slot(NamedTuple):
    """A slot that was ordered, and the agent's end of its socket."""

    number: int
    sock: socket.socket


class LauncherProcess:
    """The connection. Not thread-safe: the Launcher's lock guards it."""

    def __init__(self, config: dict[str, object], fds: list[int]) -> None:
        """Start the process and wait until it is ready; raises SandboxRefused."""
        self._next_number = 1
        self._control, self._process = start_zygote("ec2_agent.sandbox")
        wire.send(self._control, (config,), tuple(fds))
        answer = wire.receive_answer(self._control)
        if not answer.startswith(wire.READY):
            self._control.close()
            self._process.wait()
            died = "it died; see its message on standard error"
            raise make_refusal("the launcher process could not be started", answer, died)
        self.shares_inodes = answer.removeprefix(wire.READY).decode("utf-8", "replace")
        """Why slots share the inodes of what they read; empty if each has its own."""

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

    def take_pidfd(self, slot: Slot, flags: int = 0) -> int:
        """Wait for the init of an ordered slot; returns its pidfd, which the caller owns.

        Raises SandboxRefused if there is none, and closes the slot; raises BlockingIOError if
        `flags` say not to wait.
        """
        answer, fds = wire.receive_raw(slot.sock, flags)
        if answer == wire.MADE and fds:
            return fds[0]
        slot.sock.close()
        if answer == wire.MADE:  # the kernel drops descriptors above this process's limit
            raise HostShort("this agent has no descriptors left")
        if not answer and self._has_ended():
            raise LauncherGone("the launcher process is gone")
        raise make_refusal("the sandbox could not be made", answer, "its init process died")

    def release(self, number: int) -> None:
        """Remove the cgroup of a slot that was killed: its figures have been read."""
        with contextlib.suppress(OSError):
            wire.send(self._control, (wire.RELEASE, number))

    def close(self) -> None:
        """Kill all slots and the process; return when they are dead."""
        with contextlib.suppress(OSError):
            wire.send(self._control, (wire.CLOSE,))
        self._process.wait()
        self._control.close()

    def _has_ended(self) -> bool:
        """Whether the process has ended, or is about to: it closes one socket after another."""
        poll = select.poll()
        poll.register(self._control, 0)  # POLLHUP is always reported
        return bool(poll.poll(_ENDING_MS))


def make_refusal(what: str, answer: bytes, died: str) -> SandboxRefused:
    """Make the exception for an answer other than READY; an empty one means that it `died`."""
    if not answer:
        return SandboxRefused(f"{what}: {died}")
    (code,) = wire.ERRNO.unpack_from(answer, 1)
    return refusal(code, f"{what}: {answer[1 + wire.ERRNO.size :].decode('utf-8', 'replace')}")
