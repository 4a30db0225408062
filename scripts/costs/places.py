"""What output costs as the product stores it, in S3 alone, and in CloudWatch Logs.

Each is written once, kept for the days of retention and read once to its end. The chunks are the
product's own: where each lies is decided by `joblane.job.chunk.belongs_in_s3`, and how small it
gets is measured by compressing it.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from joblane.job.chunk import CHUNK_BYTES, FRAME, ROW_BYTES, Chunk, belongs_in_s3
from joblane.job.output import OutputRecord
from scripts.costs.prices import (
    DAYS,
    GB,
    LOG_GB,
    LOG_GB_MONTH,
    READ_UNIT,
    S3_GB,
    S3_GET,
    S3_PUT,
    TABLE_GB,
    WRITE_UNIT,
)

EVENT_BYTES = 26
"""What CloudWatch Logs adds to each event."""

ENVELOPE_BYTES = 45
"""About what a record had around it as an event: its number and its stream, in JSON."""

RECORD_BYTES = 32 * 1024
"""The most of one record; lines that come together are one."""

ROWS_A_QUERY = 50
LISTED = 1000
"""Keys of one ListObjectsV2, which costs as much as a PUT."""


@dataclass(frozen=True)
class Piece:
    """A chunk: so many records, of so many bytes, compressed to so many."""

    records: int
    printed: int
    stored: int
    days: float

    @property
    def in_s3(self) -> bool:
        """Whether it costs less in S3."""
        return belongs_in_s3(self.stored, round(self.days))


@dataclass(frozen=True)
class Used:
    """What some output uses here."""

    chunks: int
    objects: int
    write_units: int
    read_units: int
    stored: int
    """Bytes, of rows and objects."""
    dollars: float


def here(pieces: Sequence[Piece]) -> Used:
    """Return what output costs as the product stores it."""
    objects = [piece for piece in pieces if piece.in_s3]
    rows = [ROW_BYTES + (0 if piece.in_s3 else piece.stored) for piece in pieces]
    units = sum(ceil(row / 1024) for row in rows)
    batches = [sum(rows[n : n + ROWS_A_QUERY]) for n in range(0, len(rows), ROWS_A_QUERY)]
    reads = sum(ceil(batch / 4096) for batch in batches)
    months = sum(row * piece.days for row, piece in zip(rows, pieces, strict=True)) / GB / DAYS
    dollars = (
        WRITE_UNIT.of(units)
        + READ_UNIT.of(reads)
        + TABLE_GB.of(months)
        + S3_PUT.of(len(objects))
        + S3_GET.of(len(objects))
        + S3_GB.of(_gb_months(objects))
    )
    stored = sum(rows) + sum(piece.stored for piece in objects)
    return Used(len(pieces), len(objects), units, reads, stored, dollars)


def s3_alone(pieces: Sequence[Piece]) -> float:
    """Return the dollars for an object a chunk, found by listing."""
    lists = ceil(len(pieces) / LISTED)
    return S3_PUT.of(len(pieces) + lists) + S3_GET.of(len(pieces)) + S3_GB.of(_gb_months(pieces))


def cloudwatch_logs(pieces: Iterable[Piece]) -> float:
    """Return the dollars for an event a record; requests are free there, and limited.

    What is kept is charged by its compressed size: that of the chunks is taken for it.
    """
    pieces = list(pieces)
    sent = sum(p.printed + p.records * (EVENT_BYTES + ENVELOPE_BYTES) for p in pieces)
    return LOG_GB.of(sent / GB) + LOG_GB_MONTH.of(_gb_months(pieces))


def _gb_months(pieces: Iterable[Piece]) -> float:
    return sum(piece.stored * piece.days for piece in pieces) / GB / DAYS


def text(size: int, seed: int = 1205) -> bytes:
    """Lines such as a service logs, `size` bytes of them, always the same."""
    rng = random.Random(seed)
    lines: list[bytes] = []
    written = 0
    while written < size:
        n = len(lines)
        line = (
            f"2026-11-22T19:{n // 60_000 % 60:02}:{n // 1000 % 60:02}.{n % 1000:03}Z "
            f"{rng.choice(('INFO ', 'INFO ', 'DEBUG', 'WARN '))} worker-{rng.randrange(16)} "
            f"handled request {rng.randbytes(4).hex()} in {rng.randrange(900)} ms\n"
        ).encode()[: size - written]
        lines.append(line)
        written += len(line)
    return b"".join(lines)


def piece(moments: Sequence[bytes], days: float) -> Piece:
    """Compress what a job prints at some moments: a record each, or more if it is large."""
    parts = [
        printed[n : n + RECORD_BYTES]
        for printed in moments
        for n in range(0, len(printed), RECORD_BYTES)
    ]
    records = [OutputRecord(n, "stdout", 0, data) for n, data in enumerate(parts, 1)]
    printed = sum(map(len, parts))
    return Piece(len(records), printed, len(Chunk.of(records).compress()), days)


def at_once(size: int, days: float) -> list[Piece]:
    """Return the chunks of `size` bytes that a job prints at once; large output repeats a chunk."""
    whole = CHUNK_BYTES - 33 * FRAME.size
    chunks = [piece([text(whole)], days)] * (size // whole) if size >= whole else []
    rest = size % whole
    return [*chunks, piece([text(rest)], days)] if rest else chunks
