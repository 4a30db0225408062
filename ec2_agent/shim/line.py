"""A job's channel to its agent, called its line: the socket that the job has as descriptor 3.

One JSON object per request, one per answer, each ended by a newline. The job is not trusted: it
may write without end, never read, close the socket or share it with its children. Nothing here
waits for the job.
"""

import json
import socket

TYPE_CHECKING = False  # see sandbox/wire.py
if TYPE_CHECKING:
    from collections.abc import Callable

MAX_LINE = 4096
"""Bytes of one line without its newline."""

LINES_A_SECOND = 100
"""Requests above this rate stay in the job's socket buffer, and then the job's writes block."""

BURST = 200
"""Requests that are read at once before that rate applies."""

LEFT_AT_END = 256 * 1024
"""More than a socket buffers (net.core.wmem_default, 208 KB): all that was written at the end."""


class Line:
    """The shim's end of one job's line."""

    def __init__(self, sock: socket.socket, check: "Callable[[str], object]", now: float) -> None:
        """Take over `sock`, a connected stream. `now` and later times are monotonic seconds.

        `check` raises ValueError for a condition that may not be named; its text is the answer.
        """
        sock.setblocking(False)
        self._socket = sock
        self._check = check
        self._rest = b""
        self._too_long = False
        self._budget = float(BURST)
        self._budget_at = now
        self.condition: str | None = None
        """The condition that the job named last."""

    def fileno(self) -> int:
        """Return the descriptor to poll; -1 once the line is closed."""
        return self._socket.fileno()

    def pump(self, now: float) -> float:
        """Read once and answer. Returns how many seconds not to read: 0 below the rate limit."""
        data = self._receive()
        if data is None:
            return 0.0
        lines = self._cut(data)
        for line in lines:
            self._answer(self._act(line))
        earned = (now - self._budget_at) * LINES_A_SECOND
        # A read without a newline counts as one request: a line without end is limited too.
        self._budget = min(self._budget + earned, BURST) - max(len(lines), 1)
        self._budget_at = now
        return max(0.0, -self._budget / LINES_A_SECOND)

    def finish(self) -> None:
        """Read what was written before the job's end, without answers, and close."""
        for _ in range(LEFT_AT_END // MAX_LINE):
            data = self._receive()
            if data is None:
                break
            for line in self._cut(data):
                self._act(line)
        self._socket.close()

    def _receive(self) -> bytes | None:
        """Read once; None if there is nothing, or at the end, which closes the line."""
        if self._socket.fileno() < 0:
            return None
        try:
            # Not recvmsg: descriptors that the job may send along are dropped by the kernel.
            data = self._socket.recv(MAX_LINE)
        except BlockingIOError:
            return None
        except ConnectionError:
            data = b""
        if not data:
            self._socket.close()
            return None
        return data

    def _cut(self, data: bytes) -> list[bytes | None]:
        """Return the complete lines; None stands for one that is too long.

        A line that becomes too long is answered once, and skipped up to its end. A line without
        a newline is ignored.
        """
        *ended, rest = (self._rest + data).split(b"\n")
        lines: list[bytes | None] = []
        for line in ended:
            if not self._too_long:
                lines.append(line if len(line) <= MAX_LINE else None)
            self._too_long = False
        if not self._too_long and len(rest) > MAX_LINE:
            self._too_long = True
            lines.append(None)
        self._rest = b"" if self._too_long else rest
        return lines

    def _act(self, line: bytes | None) -> str | None:
        """Carry out a request. Returns what is wrong with it, or None."""
        try:
            condition = _parse(line)
            self._check(condition)
        except ValueError as wrong:
            return str(wrong)
        self.condition = condition
        return None

    def _answer(self, wrong: str | None) -> None:
        """Answer one request, unless the socket is full because the job does not read."""
        body = {"ok": True} if wrong is None else {"error": wrong}
        try:
            # The kernel takes a short message whole or not at all.
            self._socket.send(json.dumps(body).encode() + b"\n", socket.MSG_NOSIGNAL)
        except OSError:
            return


def _parse(line: bytes | None) -> str:
    """Return the condition that a request names; raises ValueError with the answer."""
    if line is None:
        raise ValueError(f"a line has at most {MAX_LINE} bytes")
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        said = None
    match said:
        case {"block": str(condition)} if len(said) == 1:
            return condition
        case {"block": _} if len(said) == 1:
            raise ValueError("block: must be a string, the name of a condition")
        case dict():
            raise ValueError('known is {"block": "<condition>"} alone')
        case _:
            raise ValueError("a line is one JSON object")
