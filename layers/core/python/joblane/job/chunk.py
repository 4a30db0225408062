"""Chunks of output: their encoding, and whether a chunk is stored in the table or in S3.

A chunk has the records `first` to `last` of one epoch, without gaps, as the shim's log has them: a
header and the bytes of the output as the job wrote them. All of it is compressed by zlib, which
adds a checksum.
"""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Self, get_args

from joblane.formats.levels import LEVELS, Level
from joblane.job.output import OutputRecord, Stream

CHUNK_BYTES = 1024 * 1024
"""Maximum bytes of a chunk before compression. A record has at most 32 KB."""

READ_MAX_BYTES = 2 * CHUNK_BYTES
"""The most that a reader decompresses of one chunk."""

FRAME = struct.Struct("<QBQI")
"""Header of a record: seq, kind, time in Unix milliseconds, length."""

STREAMS: tuple[Stream, ...] = get_args(Stream)
"""By the lower four bits of a record's kind."""

LEVEL_CODES: tuple[Level | None, ...] = (None, *LEVELS)
"""By the upper four bits of a record's kind."""

ROW_BYTES = 128
"""About what a chunk's row needs for everything but the data."""

WRITE_UNIT_DOLLARS = 0.625e-6
PUT_DOLLARS = 5.00e-6
TABLE_GB_MONTH_DOLLARS = 0.25
S3_GB_MONTH_DOLLARS = 0.023
"""List prices, us-east-1, 2026-11: DynamoDB on demand in the Standard table class, S3 Standard."""

_UNIT_BYTES = 1024
_GB = 1 << 30
_MONTH_DAYS = 30


class DamagedChunk(ValueError):
    """A chunk does not contain the records that its row names."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive records."""

    first: int
    last: int
    frames: bytes
    """For each record a FRAME and its bytes."""

    @classmethod
    def of(cls, records: Sequence[OutputRecord]) -> Self:
        """Make a chunk of at least one record."""
        parts: list[bytes] = []
        for record in records:
            kind = STREAMS.index(record.stream) | LEVEL_CODES.index(record.level) << 4
            parts += FRAME.pack(record.seq, kind, record.time_ms, len(record.data)), record.data
        return cls(records[0].seq, records[-1].seq, b"".join(parts))

    def compress(self) -> bytes:
        """Compress it: about 30 ms for 1 MB. The same chunk gives the same bytes."""
        return zlib.compress(self.frames)


def decode_chunk(data: bytes, first: int, last: int) -> list[OutputRecord]:
    """Decode a compressed chunk of the records `first` to `last`.

    Raises DamagedChunk if it has other records, or more than READ_MAX_BYTES: an agent that a job
    has taken over may write anything.
    """
    inflater = zlib.decompressobj()
    try:
        raw = inflater.decompress(data, READ_MAX_BYTES)
    except zlib.error as error:
        raise DamagedChunk(str(error)) from None
    if not inflater.eof:
        raise DamagedChunk(f"it is cut, or has more than {READ_MAX_BYTES} bytes")
    records: list[OutputRecord] = []
    at = 0
    while at < len(raw):
        if len(raw) - at < FRAME.size:
            raise DamagedChunk("its last record is cut")
        seq, kind, time_ms, length = FRAME.unpack_from(raw, at)
        at += FRAME.size
        stream, level = kind & 15, kind >> 4
        known = stream < len(STREAMS) and level < len(LEVEL_CODES)
        if seq != first + len(records) or not known or length > len(raw) - at:
            raise DamagedChunk(f"it has no record {first + len(records)}")
        text = raw[at : at + length]
        records.append(OutputRecord(seq, STREAMS[stream], time_ms, text, LEVEL_CODES[level]))
        at += length
    if not records or records[-1].seq != last:
        raise DamagedChunk(f"it does not end with record {last}")
    return records


def belongs_in_s3(size: int, days: int) -> bool:
    """Whether a compressed chunk of `size` bytes that is kept for `days` costs less in S3.

    The table: a write unit for each kilobyte, and its storage. S3: a PUT, its storage, and the row
    that names the object. Reads are left out: they cost least, and most output is read once or
    never. Of output that is kept for up to a week, chunks from 8,065 bytes go to S3; from 3,969
    bytes if kept for 90 days, and from 1,701 bytes if kept for a year.
    """
    gb_months = size / _GB * days / _MONTH_DAYS
    table = _row_dollars(size) + gb_months * TABLE_GB_MONTH_DOLLARS
    s3 = _row_dollars(0) + PUT_DOLLARS + gb_months * S3_GB_MONTH_DOLLARS
    return s3 < table


def _row_dollars(size: int) -> float:
    return ceil((ROW_BYTES + size) / _UNIT_BYTES) * WRITE_UNIT_DOLLARS
