"""A running sandbox, as its holder sees it.

The holder is whoever has the slot's socket: the agent today, one process a job where jobs
shall outlive the agent. Nothing here needs the launcher that made the slot.
"""

import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable

from ec2_agent.sandbox import wire
from ec2_agent.sandbox.model import Ending, Usage


class Sandbox:
    """One job that was started. It lives as long as somebody holds its socket."""

    def __init__(
        self, sock: socket.socket, pidfd: int, began: float, bury: Callable[[], None]
    ) -> None:
        """Take over the socket and pidfd of the slot's init; `bury` is called once at the end."""
        self._socket = sock
        self._pidfd = pidfd
        self._began = began
        self._bury = bury
        self._ending: Ending | None = None
        self._waiting = threading.Lock()

    def fileno(self) -> int:
        """Give a descriptor that becomes readable when the job has ended."""
        return self._socket.fileno()

    def wait(self, timeout: float | None = None) -> Ending:
        """Give the ending, once every process of the job is dead.

        Raises TimeoutError after `timeout` seconds; None waits for ever.
        """
        ends = None if timeout is None else time.monotonic() + timeout
        if not self._waiting.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
            raise TimeoutError
        try:
            if self._ending is None:
                _await(self._socket.fileno(), ends)
                message = self._socket.recv(wire.PACKET)
                if not message:
                    # The init's descriptors close before its namespace is emptied; its pidfd
                    # tells when that is done too.
                    _await(self._pidfd, ends)
                self._ending = self._conclude(message)
                self._release()
            return self._ending
        finally:
            self._waiting.release()

    def stop(self, grace_s: float) -> None:
        """Send SIGTERM to the job, and kill what is left after `grace_s`; return at once."""
        try:
            wire.send(self._socket, (wire.STOP, grace_s))
        except OSError:
            return  # it has ended, which is what was wanted

    def abandon(self) -> None:
        """Let go without waiting: the slot finds nobody at its socket and ends."""
        with self._waiting:
            if self._ending is None:
                self._release()

    def _conclude(self, message: bytes) -> Ending:
        if message[:1] == wire.ENDED and len(message) > wire.ENDING.size:
            fixed = message[1 : 1 + wire.ENDING.size]
            status, timed_out, stopped, cpu_s, wall_s = wire.ENDING.unpack(fixed)
            error = message[1 + wire.ENDING.size :].decode("utf-8", "replace")
            usage = Usage(cpu_s=cpu_s, wall_s=wall_s)
        else:
            status, timed_out, stopped = signal.SIGKILL, False, False
            error = "the sandbox was killed from outside"
            usage = Usage(cpu_s=0.0, wall_s=time.monotonic() - self._began)
        code = os.waitstatus_to_exitcode(status)
        return Ending(
            exit_code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            timed_out=bool(timed_out),
            oom_killed=False,
            stopped=bool(stopped),
            error=error or None,
            usage=usage,
        )

    def _release(self) -> None:
        self._socket.close()
        os.close(self._pidfd)
        self._bury()


def _await(fd: int, ends: float | None) -> None:
    """Sleep until `fd` is readable; raises TimeoutError at the monotonic time `ends`."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    pause = None if ends is None else max(0.0, ends - time.monotonic()) * 1000
    if not poll.poll(pause):
        raise TimeoutError
