"""Reads what a job writes, and appends it to its log: whole lines, characters, and no secrets."""

import os
import time

from ec2_agent.shim.levels import Levels
from ec2_agent.shim.log import Cutter, Writer
from ec2_agent.shim.masking import Mask, Secrets

READ_BYTES = 64 * 1024
"""One read: a pipe's usual size, so that no pipe waits long while another is flooded."""

PIPE_BYTES = 1024 * 1024
"""The most a pipe can hold (fs.pipe-max-size)."""

MOST_READS = PIPE_BYTES // 4096
"""Reads until a pipe is empty: one for each page, if its writer has set O_DIRECT."""

PARTIAL_AFTER_S = 0.2
"""An unfinished line (a prompt, a progress bar) is recorded after this long."""


class _Stream:
    """What belongs to one pipe."""

    def __init__(self, name: str, secrets: Secrets, *, has_levels: bool) -> None:
        self.name = name
        self.levels = Levels() if has_levels else None
        self.mask = Mask(secrets)
        self.cutter = Cutter()
        self.read_ms = 0
        """When the first byte that the cutter has was read."""


class Output:
    """The pipes of one job, by descriptor and in the order in which they are read."""

    def __init__(
        self, pipes: dict[int, str], log: Writer, secrets: Secrets, levels: int | None = None
    ) -> None:
        """Take over the descriptors; the values are the streams that they are.

        Of the descriptor `levels`, marks of levels are read; other output is stored as it comes.
        """
        self._log = log
        self._streams = {
            fd: _Stream(name, secrets, has_levels=fd == levels) for fd, name in pipes.items()
        }
        self.flush_at: float | None = None
        """The monotonic time to `flush`."""
        for fd in pipes:
            os.set_blocking(fd, False)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Those that are open, stdout first: of what both have, more was written in that order."""
        return tuple(self._streams)

    def read(self, fd: int) -> bool:
        """Read once. Returns whether there may be more."""
        stream = self._streams[fd]
        try:
            data = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._end(fd)
            return False
        if self._log.is_full:
            return True
        self._feed(stream, stream.mask.feed(data))
        if stream.cutter.waits and self.flush_at is None:
            self.flush_at = time.monotonic() + PARTIAL_AFTER_S
        return True

    def flush(self) -> None:
        """Record unfinished lines, up to the last whole character."""
        self.flush_at = None
        for stream in self._streams.values():
            for piece in stream.cutter.flush_characters():
                self._write(stream, piece)

    def finish(self) -> None:
        """Read what the pipes still have, once no process of the job is left."""
        for fd in self.descriptors:
            # A pipe whose write end was passed on to another process must not block here.
            for _ in range(MOST_READS):
                if fd not in self._streams or not self.read(fd):
                    break
            if fd in self._streams:
                self._end(fd)

    def _feed(self, stream: _Stream, data: bytes) -> None:
        """Record what is complete. A record's time is that of the read of its first byte."""
        now_ms = time.time_ns() // 1_000_000
        if not stream.cutter.waits:
            stream.read_ms = now_ms
        for piece in stream.cutter.feed(data):
            self._write(stream, piece)
            stream.read_ms = now_ms

    def _write(self, stream: _Stream, piece: bytes) -> None:
        if stream.levels is None:
            self._log.write(stream.name, piece, stream.read_ms)
            return
        for level, run in stream.levels.split(piece):
            self._log.write(stream.name, run, stream.read_ms, level)

    def _end(self, fd: int) -> None:
        stream = self._streams.pop(fd)
        os.close(fd)
        self._feed(stream, stream.mask.flush())
        for piece in stream.cutter.flush():
            self._write(stream, piece)
        if stream.levels is not None:
            for level, run in stream.levels.flush():
                self._log.write(stream.name, run, stream.read_ms, level)
