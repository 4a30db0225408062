"""A job's channel to its agent, called its line: the socket that the job has as descriptor 3.

One JSON object per request, one per answer, each ended by a newline. The job is not trusted: it
may write without end, never read, close the socket or share it with its children. Nothing here
waits for the job.
"""

import collections
import select
import socket

from ec2_agent.shim.operations import MAX_LINE, LineRequests

READ_BYTES = 4096
"""One read, which counts as a request at least: so a long line takes several."""

REQUESTS_A_SECOND = 100
"""Requests above this rate stay in the job's socket buffer, and then the job's writes block. An
answer counts as a request for each `READ_BYTES`."""

BURST = 200
"""Requests that are read at once before that rate applies."""

LEFT_AT_END = 256 * 1024
"""More than a socket buffers (net.core.wmem_default, 208 KB): all that was written at the end."""

KEPT_BYTES = 512
"""A longer answer was asked for, and waits until the job reads. Shorter ones are dropped when the
socket is full."""


class LineServer:
    """The shim's end of one job's line."""

    def __init__(self, sock: socket.socket, said: LineRequests, now: float) -> None:
        """Take over `sock`, a connected stream. `now` and later times are monotonic seconds."""
        sock.setblocking(False)
        self._socket = sock
        self.said = said
        self._rest = bytearray()
        self._too_long = False
        self._lines: collections.deque[bytes | None] = collections.deque()
        """Requests of the last read that wait until an answer has been sent."""
        self._unsent = b""
        """The rest of an answer that the job has not read."""
        self._kept = False
        """Whether that answer waits until the job reads."""
        self._budget = float(BURST)
        self._budget_at = now
        self.heard_at = now
        """When the job last wrote something."""

    def fileno(self) -> int:
        """Return the descriptor to poll; -1 once the line is closed."""
        return self._socket.fileno()

    @property
    def events(self) -> int:
        """What to poll for: nothing is read while an answer has not been sent."""
        return select.POLLOUT if self._unsent else select.POLLIN

    def pump(self, now: float) -> float:
        """Read once and answer. Returns how many seconds not to read: 0 below the rate limit."""
        spent = 0
        if not self._unsent and not self._lines:
            data = self._receive()
            if data is None:
                return 0.0
            self.heard_at = now
            self._lines.extend(self._cut(data))
            # A read without a newline counts as one request: a line without end is limited too.
            spent = 0 if self._lines else 1
        self._send()
        while self._lines and not self._unsent:
            answer = self.said.carry_out(self._lines.popleft())
            spent += max(1, len(answer) // READ_BYTES)
            self._unsent, self._kept = answer, len(answer) > KEPT_BYTES
            self._send()
        earned = (now - self._budget_at) * REQUESTS_A_SECOND
        self._budget = min(self._budget + earned, BURST) - spent
        self._budget_at = now
        return max(0.0, -self._budget / REQUESTS_A_SECOND)

    def finish(self) -> None:
        """Read what was written before the job's end, without answers, and close."""
        for _ in range(LEFT_AT_END // READ_BYTES + 1):
            for line in self._lines:
                self.said.carry_out(line, answered=False)
            self._lines.clear()
            data = self._receive()
            if data is None:
                break
            self._lines.extend(self._cut(data))
        self._socket.close()

    def _receive(self) -> bytes | None:
        """Read once; None if there is nothing, or at the end, which closes the line."""
        if self._socket.fileno() < 0:
            return None
        try:
            # Not recvmsg: descriptors that the job may send along are dropped by the kernel.
            data = self._socket.recv(READ_BYTES)
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
        lines: list[bytes | None] = []
        *ended, rest = data.split(b"\n")
        for part in ended:
            if not self._too_long:
                whole = bytes(self._rest) + part
                lines.append(whole if len(whole) <= MAX_LINE else None)
            self._rest.clear()
            self._too_long = False
        if not self._too_long:
            self._rest += rest
            if len(self._rest) > MAX_LINE:
                self._too_long = True
                self._rest.clear()
                lines.append(None)
        return lines

    def _send(self) -> None:
        """Send what is left of an answer, as much as the socket takes.

        The kernel takes a short message whole or not at all.
        """
        if not self._unsent:
            return
        try:
            sent = self._socket.send(self._unsent, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            sent = 0 if self._kept else len(self._unsent)
        except OSError:  # the job does not read any more
            sent = len(self._unsent)
        self._unsent = self._unsent[sent:]
