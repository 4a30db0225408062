"""Find where the last lines of a job's output begin, without reading what comes before them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from joblane.aws.job.output_store import OutputStore
from joblane.formats.levels import Level, reaches
from joblane.job.head import Head
from joblane.job.output import Cursor, OutputRecord, epoch_end, stream_name
from joblane.service.output.pages import CALLS_A_PAGE, PAGE_BYTES

MOST_CHUNKS = 2000
"""Chunks that one request reads: of output without line breaks there may be no end."""

MOST_EPOCHS = 32
"""Claims whose output one request reads, not counting those that are known to have none."""


SIFTED_BYTES = CALLS_A_PAGE * PAGE_BYTES
"""Output without the level that is asked for, which one request passes over: 6 MB."""


@dataclass(frozen=True, slots=True)
class TailStart:
    """Where the last lines begin."""

    cursor: Cursor
    """Of a reader whose next record has the first of the lines."""
    cut: int = 0
    """Bytes of that record before the line: a record may have many lines."""


def tail_start(store: OutputStore, head: Head, lines: int, level: Level | None = None) -> TailStart:
    """Find the last `lines` lines over all claims, `PAGE_BYTES` at most; fewer if there are fewer.

    What an attempt wrote last counts as a line also if it does not end. The chunks are read from
    the end: those of the lines, and a few more, because a Query reads several. With `level`, lines
    of this level or above count, among the last `SIFTED_BYTES` of output.
    """
    found, left, size, chunks, passed = TailStart(Cursor()), lines, 0, 0, 0
    for epoch in _epochs(head):
        newest = True
        if size == 0:  # what was written before the oldest claim that is looked at is not read
            found = TailStart(Cursor(epoch))
        for at, records in store.backwards(stream_name(head.tenant, head.job_id, epoch)):
            chunks += 1
            wanted = [each for each in records if level is None or reaches(each.level, level)]
            passed += _size(records) - _size(wanted)
            for record in reversed(wanted):
                left -= newest and size > 0  # the first line of the attempt after this one
                size += len(record.data)
                if left == 0 or size > PAGE_BYTES:
                    return found
                here = Cursor(epoch, record.seq - 1, at)
                for after in _breaks(record, newest=newest):
                    left -= 1
                    if left == 0:
                        return TailStart(here, after) if after < len(record.data) else found
                found, newest = TailStart(here), False
            if chunks == MOST_CHUNKS or passed > SIFTED_BYTES:
                return found if size else TailStart(Cursor(epoch, at - 1, at))
    return found


def _epochs(head: Head) -> Iterator[int]:
    """Claims that may have output, the last one first."""
    left = MOST_EPOCHS
    for epoch in range(head.epoch, 0, -1):
        end = epoch_end(head, epoch)
        if end is None or end.records != 0:
            yield epoch
            left -= 1
        if left == 0:
            break


def _breaks(record: OutputRecord, *, newest: bool) -> Iterator[int]:
    """Where lines begin after a line break, the last one first; a break that ends all is none."""
    data = record.data
    end = len(data) - (newest and data.endswith(b"\n"))
    while (end := data.rfind(b"\n", 0, end)) >= 0:
        yield end + 1


def _size(records: Sequence[OutputRecord]) -> int:
    return sum(len(record.data) for record in records)
