"""Reads the output of a sandbox that has no shim: `python -m ec2_agent.sandbox`, and tests."""

import os
import selectors
from collections.abc import Callable

from ec2_agent.sandbox.handle import Sandbox
from ec2_agent.sandbox.model import Ending

CHUNK = 65536
"""The capacity of a pipe (pipe(7)), so that one read usually empties it."""

CHUNKS_AT_ONCE = 16
"""At most 1 MiB per call, so that a job with much output does not delay the others' readers."""


class Drain:
    """Reads a job's pipe into a sink, up to a cap.

    Output above the cap is read and dropped, and counted in `dropped`; the job continues.
    """

    def __init__(self, fd: int, sink: Callable[[bytes], None], cap_bytes: int) -> None:
        """Take over `fd`. The sink receives chunks of 1 to 65536 bytes."""
        os.set_blocking(fd, False)  # affects this end only
        self._fd = fd
        self._sink = sink
        self._left = cap_bytes
        self._cap = cap_bytes
        self.dropped = 0
        """Bytes above the cap."""

    def fileno(self) -> int:
        """Return the descriptor to watch for readability; -1 after the end."""
        return self._fd

    def pump(self) -> bool:
        """Read what is available and return at once; False after the end of the output."""
        for _ in range(CHUNKS_AT_ONCE):
            if self._fd < 0:
                return False
            try:
                chunk = os.read(self._fd, CHUNK)
            except BlockingIOError:
                return True
            if chunk:
                self._take(chunk)
            else:
                self.close()
        return self._fd >= 0

    def close(self) -> None:
        """Close the descriptor."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _take(self, chunk: bytes) -> None:
        kept = chunk[: self._left]
        self._left -= len(kept)
        if kept:
            self._sink(kept)
        over = len(chunk) - len(kept)
        if over and not self.dropped:
            self._sink(b"\n[output above %d bytes was dropped]\n" % self._cap)
        self.dropped += over


def follow(sandbox: Sandbox, *drains: Drain) -> Ending:
    """Read the output while the job runs, and the rest of it afterwards."""
    with selectors.DefaultSelector() as selector:
        selector.register(sandbox, selectors.EVENT_READ)
        for drain in drains:
            selector.register(drain, selectors.EVENT_READ)
        ending: Ending | None = None
        while selector.get_map():
            for key, _ in selector.select():
                if isinstance(key.fileobj, Drain):
                    fd = key.fd
                    if not key.fileobj.pump():
                        selector.unregister(fd)
                else:
                    selector.unregister(sandbox)
                    ending = sandbox.wait()
    return ending or sandbox.wait()
