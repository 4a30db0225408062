"""A job's output between its pipes and CloudWatch: cut into records, kept on disk, bounded.

The spool is a file without a name: it takes the output as fast as the page cache does, so a
flood neither blocks the job nor grows the agent, and it is gone with the process.
"""

import os
import struct
import tempfile
from collections.abc import Iterator
from typing import IO

from joblane.logs import Record, Stream

MAX_RECORD = 32 * 1024
"""Bytes of one record. CloudWatch takes events of 256 KB, and JSON writes a control character
as six bytes: 32 KB stays below in the worst case."""

CAP_BYTES = 50 * 1024 * 1024
"""Output kept of one attempt; a marker stands for the rest."""

_FRAME = struct.Struct("<QBQI")  # seq, stream, time_ms, length
_STREAMS: tuple[Stream, ...] = ("stdout", "stderr", "joblane")


class Cutter:
    """Cuts one stream into pieces: whole lines where there are any, never within a character."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take what was read; yield what is complete. An unfinished line stays behind."""
        data = self._rest + data
        end = data.rfind(b"\n") + 1
        start = 0
        while end - start > MAX_RECORD:
            cut = data.rfind(b"\n", start, start + MAX_RECORD) + 1
            cut = cut or _character_boundary(data, start, start + MAX_RECORD)
            yield data[start:cut]
            start = cut
        if end > start:
            yield data[start:end]
            start = end
        while len(data) - start > MAX_RECORD:
            cut = _character_boundary(data, start, start + MAX_RECORD)
            yield data[start:cut]
            start = cut
        self._rest = data[start:]

    def flush(self) -> Iterator[bytes]:
        """Yield the unfinished line, if there is one."""
        if self._rest:
            yield self._rest
            self._rest = b""


class Spool:
    """Records of one attempt, in order, written once and read once. One thread at a time."""

    def __init__(self, cap: int = CAP_BYTES) -> None:

        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="joblane-spool-")  # noqa: SIM115
        self._read_at = 0
        self._end = 0
        self._room = cap
        self._cap = cap
        self._time_ms = 0
        self.seq = 0
        """Sequence number of the last record written."""

    def write(self, stream: Stream, data: bytes, time_ms: int) -> None:
        """Append a record; above the cap, one marker is written and the rest is dropped."""
        if self._room <= 0:
            return
        self._room -= len(data)
        self._append(stream, data, time_ms)
        if self._room <= 0:
            mark = f"[output beyond {self._cap // 1024 // 1024} MB is dropped]\n".encode()
            self._append("joblane", mark, time_ms)

    def _append(self, stream: Stream, data: bytes, time_ms: int) -> None:
        # CloudWatch orders a stream by time: a clock that steps back must not reorder it.
        self._time_ms = max(self._time_ms, time_ms)
        self.seq += 1
        frame = _FRAME.pack(self.seq, _STREAMS.index(stream), self._time_ms, len(data))
        os.pwrite(self._file.fileno(), frame + data, self._end)
        self._end += len(frame) + len(data)

    @property
    def unread(self) -> bool:
        """Whether `read` would return something."""
        return self._read_at < self._end

    def read(self, most_bytes: int, most_records: int) -> list[Record]:
        """Take the next records, together about `most_bytes` of output at most, at least one."""
        records: list[Record] = []
        size = 0
        while self.unread and len(records) < most_records:
            header = os.pread(self._file.fileno(), _FRAME.size, self._read_at)
            seq, stream, time_ms, length = _FRAME.unpack(header)
            if records and size + length > most_bytes:
                break
            data = os.pread(self._file.fileno(), length, self._read_at + _FRAME.size)
            records.append(Record(seq, _STREAMS[stream], time_ms, data))
            self._read_at += _FRAME.size + length
            size += length
        return records

    def close(self) -> None:
        """Give the disk space back."""
        self._file.close()


def _character_boundary(data: bytes, start: int, end: int) -> int:
    """The last place at or before `end` that is not inside a UTF-8 character."""
    cut = end
    while cut > start and end - cut < 4 and data[cut] & 0xC0 == 0x80:  # noqa: PLR2004 - UTF-8
        cut -= 1
    return cut if data[cut] & 0xC0 != 0x80 and cut > start else end  # noqa: PLR2004 - UTF-8
