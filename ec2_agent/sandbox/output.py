"""Taking a job's output without ever waiting for it, or growing with it."""

import os
import selectors
from collections.abc import Callable

from ec2_agent.sandbox.handle import Sandbox
from ec2_agent.sandbox.model import Ending

CHUNK = 65536
"""A pipe holds as much (pipe(7)), so one read usually empties it."""

CHUNKS_AT_ONCE = 16
"""At most 1 MiB a call, so that one flooding job does not starve the others' readers."""


class Drain:
    """The read end of a job's pipe, emptied into a sink as far as a cap.

    What comes above the cap is read and dropped: the job runs on, and `dropped` counts.
    """

    def __init__(self, fd: int, sink: Callable[[bytes], None], cap_bytes: int) -> None:
        """Take over `fd`. The sink gets chunks of 1 to 65536 bytes, as they came."""
        os.set_blocking(fd, False)  # this end only: the job's is a description of its own
        self._fd = fd
        self._sink = sink
        self._left = cap_bytes
        self._cap = cap_bytes
        self.dropped = 0
        """Bytes that came above the cap."""

    def fileno(self) -> int:
        """Give the descriptor to watch for readability; -1 once the end was seen."""
        return self._fd

    def pump(self) -> bool:
        """Take what is there and return at once; False after the end of the output."""
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
        """Let go of the descriptor."""
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
    """Drain the output while the job runs, and what is left of it afterwards."""
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
