"""The log of a job: its output in records, appended by its shim and read by the agent.

A record is a header (seq, kind, time, length) and its bytes. The last one may be incomplete,
after a killed shim or a full disk: readers stop before it.
"""

import os
import struct

TYPE_CHECKING = False  # see sandbox/wire.py
if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_RECORD = 32 * 1024
"""Bytes of one record: a page of output has at least one, and Lambda's answers have 6 MB."""

CAP_BYTES = 50 * 1024 * 1024
"""Output stored of one attempt; a marker stands for the rest."""

CAP_MARK = "output beyond 50 MB is dropped"

LOOK_BYTES = 64 * 1024
"""Bytes of output between two looks at what the disk has left."""

FRAME = struct.Struct("<QBQI")
"""seq, kind, time in Unix milliseconds, length."""

STREAMS = ("stdout", "stderr", "joblane")
"""By the lower four bits of a record's kind."""

LEVELS = (None, "debug", "info", "warning", "error", "critical")
"""By the upper four bits of a record's kind."""


class Cutter:
    """Cuts one stream into pieces: at line ends where possible, never within a character."""

    def __init__(self) -> None:
        self._rest = b""

    @property
    def waits(self) -> bool:
        """Whether an unfinished line is buffered."""
        return bool(self._rest)

    def feed(self, data: bytes) -> "Iterator[bytes]":
        """Add what was read; yields the complete pieces. An unfinished line is buffered."""
        data = self._rest + data
        end = data.rfind(b"\n") + 1
        start = 0
        while start < end or len(data) - start > MAX_RECORD:
            limit = start + MAX_RECORD
            if start < end <= limit:
                cut = end
            else:
                cut = data.rfind(b"\n", start, limit) + 1
                cut = cut or _character_boundary(data, start, limit)
            yield data[start:cut]
            start = cut
        self._rest = data[start:]

    def flush_characters(self) -> "Iterator[bytes]":
        """Yield the unfinished line up to its last whole character; up to 3 bytes stay."""
        end = len(self._rest) - _begun_character(self._rest)
        if end:
            piece, self._rest = self._rest[:end], self._rest[end:]
            yield piece

    def flush(self) -> "Iterator[bytes]":
        """Yield the unfinished line, if there is one."""
        if self._rest:
            yield self._rest
            self._rest = b""


class Writer:
    """Appends records to the log; errors of the disk are not raised."""

    def __init__(self, fd: int, cap: int = CAP_BYTES, mark: str = CAP_MARK, keep: int = 0) -> None:
        """Take over `fd`, open for writing on an empty file.

        Output up to `cap` bytes is stored; `mark` says what happens to the rest. `keep` bytes of
        the disk stay free.
        """
        self._fd = fd
        self._cap = cap
        self._mark = mark
        self._keep = keep
        self._unchecked = LOOK_BYTES
        """Bytes that were written since a look at the disk, which is due now."""
        self._marked = False
        self.output = 0
        """Bytes of output that were stored; the last record may go beyond the cap."""
        self._time_ms = 0
        self.size = 0
        """Bytes of the file."""
        self.seq = 0
        """Sequence number of the last record written."""
        self.lost = 0
        """Bytes that could not be written."""

    def write(self, stream: str, data: bytes, time_ms: int, level: "str | None" = None) -> None:
        """Append a record; above the cap, one marker is written and the rest is discarded."""
        if self._marked:
            return
        if self.output < self._cap:
            self.output += len(data)
            self._append(_kind(stream, level), data, time_ms)
        if self.output >= self._cap:
            self._marked = True
            self.note(self._mark, time_ms)

    def note(self, text: str, time_ms: int) -> None:
        """Append a record of Joblane's own, also above the cap: a warning."""
        self._append(NOTE, f"[{text}]\n".encode(), time_ms)

    @property
    def is_full(self) -> bool:
        """Whether the cap is reached: what is written is discarded."""
        return self._marked

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _append(self, kind: int, data: bytes, time_ms: int) -> None:
        # A clock that is set back must not make output look out of order.
        self._time_ms = max(self._time_ms, time_ms)
        if self.lost and kind != NOTE:
            mark = b"[the agent's disk was full: output is missing here]\n"
            if not self._put(NOTE, mark):
                self.lost += len(data)
                return
            self.lost = 0
        if not self._put(kind, data):
            self.lost += len(data)

    def _put(self, kind: int, data: bytes) -> bool:
        """Write one frame completely, or not at all; False on an error."""
        frame = FRAME.pack(self.seq + 1, kind, self._time_ms, len(data)) + data
        try:
            if not self._has_room(len(frame)):
                return False
            if os.pwrite(self._fd, frame, self.size) < len(frame):
                return False  # the next one overwrites it
        except OSError:
            return False
        self.seq += 1
        self.size += len(frame)
        return True

    def _has_room(self, size: int) -> bool:
        """Whether the disk keeps what is to stay free; raises OSError."""
        self._unchecked += size
        if self._unchecked >= LOOK_BYTES:
            disk = os.fstatvfs(self._fd)
            if disk.f_bavail * disk.f_frsize < self._keep:
                return False
            self._unchecked = 0
        return True


class Reader:
    """Reads records in order."""

    def __init__(self, fd: int, after: int = 0) -> None:
        """Take over `fd`, open for reading; records up to the number `after` are skipped."""
        self._fd = fd
        self._at = 0
        self._next = 1
        self._peeked = 0, 0
        self.skip(after)

    @property
    def at(self) -> int:
        """Bytes of the file that have been read."""
        return self._at

    @property
    def seq(self) -> int:
        """Number of the last record that was read or skipped."""
        return self._next - 1

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return os.fstat(self._fd).st_size

    @property
    def unread(self) -> bool:
        """Whether there is another complete record."""
        return self._header() is not None

    def read(self) -> tuple[int, str, int, bytes]:
        """Return seq, stream, time and bytes of the next record; raises EOFError at the end."""
        head = self._header()
        if head is None:
            raise EOFError
        seq, kind, time_ms, length = head
        data = os.pread(self._fd, length, self._at + FRAME.size)
        self.skip(seq)
        return seq, STREAMS[kind & 15], time_ms, data

    def frames(self, size: int) -> tuple[int, bytes]:
        """Return the next records as they are in the log, `size` bytes at most, and skip none.

        Also returns the number of the last of them: `seq` if there is none.
        """
        data = os.pread(self._fd, size, self._at)
        last, end = self.seq, 0
        while (length := _frame_length(data, end, last + 1)) is not None:
            last, end = last + 1, end + length
        self._peeked = last, end
        return last, data[:end]

    def skip(self, last: int) -> None:
        """Skip records up to the number `last`."""
        peeked, length = self._peeked
        if last == peeked:
            self._at, self._next = self._at + length, last + 1
        while self._next <= last and (head := self._header()) is not None:
            self._at += FRAME.size + head[3]
            self._next += 1
        self._peeked = self.seq, 0

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _header(self) -> tuple[int, int, int, int] | None:
        """Return the next frame's header, if the frame is complete."""
        raw = os.pread(self._fd, FRAME.size, self._at)
        if len(raw) < FRAME.size:
            return None
        seq, kind, time_ms, length = FRAME.unpack(raw)
        whole = self._at + FRAME.size + length <= self.size
        return (seq, kind, time_ms, length) if whole and _sound(raw, 0, self._next) else None


def _kind(stream: str, level: "str | None") -> int:
    return STREAMS.index(stream) | LEVELS.index(level) << 4


NOTE = _kind("joblane", "warning")
"""A message of Joblane: output is missing, or processes were stopped."""


def _sound(data: bytes, at: int, number: int) -> bool:
    """Whether there is a header of this record, and not one that is being written or incomplete."""
    seq, kind, _, length = FRAME.unpack_from(data, at)
    known = kind & 15 < len(STREAMS) and kind >> 4 < len(LEVELS)
    return bool(seq == number and known and length <= MAX_RECORD)


def _frame_length(data: bytes, at: int, number: int) -> int | None:
    """Bytes of the frame of this record; None if it is not there completely."""
    if len(data) - at < FRAME.size or not _sound(data, at, number):
        return None
    length: int = FRAME.size + FRAME.unpack_from(data, at)[3]
    return length if length <= len(data) - at else None


def _character_boundary(data: bytes, start: int, end: int) -> int:
    """The last place at or before `end` that is not inside a UTF-8 character."""
    cut = end
    while cut > start and end - cut < 4 and data[cut] & 0xC0 == 0x80:
        cut -= 1
    return cut if data[cut] & 0xC0 != 0x80 and cut > start else end


def _begun_character(data: bytes) -> int:
    """Bytes at the end that begin a UTF-8 character and do not end it: 0 to 3."""
    for count, byte in enumerate(reversed(data[-3:]), 1):
        if byte & 0xC0 == 0x80:
            continue
        length = 2 if byte & 0xE0 == 0xC0 else 3 if byte & 0xF0 == 0xE0 else 4
        return count if byte >= 0xC0 and length > count else 0
    return 0
