"""The job of a slot: starts it, signals it, and reports its ending.

Imported by the launcher process: after the fork the host's file system is not accessible.
"""

import _socket as socket  # see wire.py
import errno
import os
import select
import time

from ec2_agent.sandbox import wire

SIGNALS = 4
"""The descriptor that tells a slot, and the launcher process, of ended children."""

SIGNAL_BYTES = 128
"""What the kernel writes of one signal, and SIGCHLD is pending once at most (signalfd(2))."""

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    import signal
    from typing import Any
else:
    import _signal as signal

_CANNOT_RUN, _NOT_FOUND = 126, 127
"""Exit codes of a shell for a command that is not executable, or not found."""

# Ignored signals stay ignored after exec: Python ignores two, the agent's parent maybe more.
_RESET = tuple(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})


def rehearse() -> None:
    """Run a job in this process: tests the shared root, and warms up the code."""
    if (status := _try_run("/usr/bin/true")) != 0:
        raise OSError(errno.ENOEXEC, f"/usr/bin/true ended with {status} in the new root")
    self_test()


def self_test() -> None:
    """Start a job up to the exec of a file that is not executable.

    Tests the slot, and faults in the pages that the start of its job will write to.
    """
    if (status := _try_run("/")) != _CANNOT_RUN << 8:
        raise OSError(errno.ENOEXEC, f"the self-test of a new sandbox gave {status}")


def _try_run(program: str) -> int:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        wire.send(far, (wire.RUN, (program,), {}, 60.0, 0.0, False), (0, 0, 0))
        run_one(near)
        answer = far.recv(wire.PACKET)
    finally:
        near.close()
        far.close()
    status: int = wire.ENDING.unpack(answer[1 : 1 + wire.ENDING.size])[0]
    return status


def run_one(sock: socket.socket) -> None:
    """Receive a command, run it to its end, and send how it ended."""
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
