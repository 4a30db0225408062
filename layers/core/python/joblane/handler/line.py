"""A job's end of its line (descriptor 3): one JSON object a line to the agent, one a line back."""

import json
import os
import threading
from typing import Any, Self

CHUNK = 65_536


class LineError(Exception):
    """The line is closed, or has no agent at its other end."""


class RefusedError(Exception):
    """The agent refused a request; the text is its answer."""


class Line:
    """The line on descriptor `fd`; threads take turns."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._rest = b""
        self._turn = threading.Lock()

    @classmethod
    def from_env(cls) -> Self:
        """Use the descriptor that the agent names. Raises `LineError` outside of a job."""
        number = os.environ.get("JOBLANE_FD", "")
        if not number.isdecimal():
            raise LineError("JOBLANE_FD is not set; handlers are run by an agent")
        return cls(int(number))

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return the answer. Raises `RefusedError` and `LineError`."""
        return self.ask_raw(json.dumps(request, separators=(",", ":")).encode())

    def ask_raw(self, request: bytes) -> dict[str, Any]:
        """Send a request that is JSON already, without a line end; see `ask`."""
        with self._turn:
            try:
                self._send(request + b"\n")
                answer = json.loads(self._read())
            except (OSError, ValueError) as error:
                raise LineError(f"no answer from the agent: {error}") from error
        if not isinstance(answer, dict):
            raise LineError("the answer of the agent is not a JSON object")
        if "error" in answer:
            raise RefusedError(str(answer["error"]))
        return answer

    def _send(self, data: bytes) -> None:
        # Not socket: its import is a tenth of an interpreter's start.
        left = memoryview(data)
        while left:
            left = left[os.write(self._fd, left) :]

    def _read(self) -> bytes:
        """Read one line. Raises ValueError at the end of the stream."""
        parts = [self._rest]
        while b"\n" not in parts[-1]:
            data = os.read(self._fd, CHUNK)
            if not data:
                raise ValueError("the line was closed")
            parts.append(data)
        line, _, self._rest = b"".join(parts).partition(b"\n")
        return line
