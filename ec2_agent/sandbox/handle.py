"""The handle of a running sandbox: wait for it, stop it, kill it.

The holder is the process that has the slot's socket: the agent, or a shim if jobs outlive the
agent. The launcher that made the slot is not needed.
"""

import contextlib
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from ec2_agent.sandbox import cgroup, wire
from ec2_agent.sandbox.model import Ending, Usage


class Sandbox:
    """One job that was started. It is killed when no process holds its socket."""

    def __init__(
        self,
        sock: socket.socket,
        pidfd: int,
        leaf: Path | None,
        on_released: Callable[[bool], None] = lambda _: None,
        counters: tuple[float, float] | None = None,
    ) -> None:
        """Take over the socket and pidfd of the slot's init.

        `leaf` is the job's cgroup, None where it has none. `on_released` is called once at the
        end, with whether the init was killed. `counters` comes from an earlier holder.
        """
        self._socket = sock
        self.pidfd = pidfd
        self.leaf = leaf
        if counters is None:
            counters = (cgroup.cpu_seconds(leaf) if leaf else None) or 0.0, time.monotonic()
        self.counters = counters
        """The cgroup's CPU seconds and the monotonic time when the job began."""
        self.work: int | None = None
        """Descriptor of the job's work directory, whose files stay until its last copy is
        closed, also after the end. The holder closes it: `release` does not. None unless the job
        was started with `keep_work`."""
        self._on_released = on_released
        self._stop_asked = False
        self._released = False
        self._ending: Ending | None = None
        self._closing = threading.Lock()
        """Held while the pidfd is used outside of `wait`."""

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when there is something to `receive`."""
        return self._socket.fileno()

    def wait(self, timeout: float | None = None) -> Ending:
        """Return the ending, once every process of the job is dead. Only one thread may wait.

        Raises TimeoutError after `timeout` seconds; None waits without limit.
        """
        ends = None if timeout is None else time.monotonic() + timeout
        while self._ending is None:
            self._receive(ends)
        return self._ending

    def receive(self) -> Ending | None:
        """Receive one message, once `fileno` is readable.

        Returns the ending, or None when the main process has ended and others are left: they are
        ended after 2 s, or as soon as the holder calls `say_drained`.
        """
        self._receive(None)
        return self._ending

    def say_drained(self) -> None:
        """Say that nothing the job writes is read any more: what its main process leaves, ends."""
        with contextlib.suppress(OSError):  # it has ended already
            wire.send_drained(self._socket)

    def stop(self, grace_s: float) -> None:
        """Send SIGTERM to the job, and kill what is left after `grace_s`; return at once."""
        self._stop_asked = True
        try:
            wire.send_stop(self._socket, grace_s)
        except OSError:
            return  # it has ended already

    def detach(self) -> None:
        """Close the socket: another process holds the sandbox, and the job ends with that one.

        `kill` still works here; `release` is called when the other has reported the end.
        """
        self._socket.close()

    def _receive(self, ends: float | None) -> None:
        """Receive one message; raises TimeoutError at the monotonic time `ends`."""
        _await(self._socket.fileno(), ends)
        message = wire.receive_answer(self._socket)
        if message == wire.MAIN_ENDED:
            return
        if not message:
            # The init's socket closes before all processes are dead; its pidfd becomes
            # readable after that.
            _await(self.pidfd, ends)
        self._ending = self._conclude(message)
        self.release(killed=self._ending.killed)

    def _conclude(self, message: bytes) -> Ending:
        """Return the ending, from the init's message or, if there is none, as killed."""
        if message[:1] == wire.ENDED and len(message) > wire.ENDING.size:
            fixed = message[1 : 1 + wire.ENDING.size]
            status, timed_out, stopped, left, cpu_s, wall_s = wire.ENDING.unpack(fixed)
            error = message[1 + wire.ENDING.size :].decode("utf-8", "replace")
        else:
            status, timed_out, stopped, left = signal.SIGKILL, False, self._stop_asked, False
            cpu_s, wall_s = 0.0, time.monotonic() - self.counters[1]
            error = "" if stopped else "the sandbox was killed from outside"
        usage, oom_killed = Usage(cpu_s, wall_s), False
        if self.leaf:
            usage = cgroup.add_counters(self.leaf, usage, self.counters[0])
            oom_killed = cgroup.oom_killed(self.leaf)
        if oom_killed:
            error = ""  # the OOM killer takes the init along with the job
        return Ending(
            exit_code=os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            timed_out=bool(timed_out),
            oom_killed=oom_killed,
            stopped=bool(stopped),
            left=bool(left),
            error=error or None,
            usage=usage,
            killed=not message,
        )

    def kill(self) -> None:
        """Kill the slot's init, and with it the whole sandbox; return when all is dead."""
        with self._closing:
            if self._released:
                return  # it has ended and nothing is left to kill
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
            _await(self.pidfd, None)

    def release(self, *, killed: bool) -> None:
        """Close the descriptors of a job that has ended; `killed`: its init was killed."""
        with self._closing:
            if self._released:
                return
            self._released = True
            self._socket.close()
            os.close(self.pidfd)
        self._on_released(killed)


def _await(fd: int, ends: float | None) -> None:
    """Sleep until `fd` is readable; raises TimeoutError at the monotonic time `ends`."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    pause = None if ends is None else max(0.0, ends - time.monotonic()) * 1000
    if not poll.poll(pause):
        raise TimeoutError
