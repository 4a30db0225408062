"""Read a job's output in pages, across its attempts."""

from dataclasses import dataclass, replace

from joblane.aws.job.output_store import OutputStore
from joblane.formats.levels import Level, reaches
from joblane.job.head import Head
from joblane.job.output import Cursor, EpochEnd, LogRecord, epoch_attempt, epoch_end, stream_name

SETTLE_MS = 10_000
"""How long after the end of an attempt to wait for missing records: those of a lost agent may
never arrive."""

CALLS_A_PAGE = 8
"""Reads of the store for one page; the reader continues with the cursor."""

SIFTED = 20_000
"""Records that one read of the store examines for those of a level."""

PAGE_BYTES = 768 * 1024
"""Maximum bytes of output in a page, unless a single record is longer. JSON within Lambda's JSON
writes a control character as seven bytes, and Lambda's limit is 6 MB."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A record, and the cursor of a reader that has read everything up to it."""

    record: LogRecord
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class LogPage:
    """Some records of a job, in order, and where to continue."""

    entries: list[Placed]
    cursor: Cursor
    complete: bool
    """Whether the job has ended and no more output will come."""
    more: bool
    """Whether more can be read now."""

    @property
    def records(self) -> list[LogRecord]:
        """The records alone."""
        return [entry.record for entry in self.entries]


def log_page(
    store: OutputStore,
    head: Head,
    cursor: Cursor,
    *,
    limit: int,
    now_ms: int,
    cut: int = 0,
    level: Level | None = None,
) -> LogPage:
    """Read up to `limit` records after the cursor, through the job's epochs in order.

    `cut` leaves out the first bytes of the first record. With `level`, only records of this level
    or above count, of up to `CALLS_A_PAGE` times `PAGE_BYTES`, so a page may have few or none
    while there are more.

    An epoch is complete when as many records as its agent counted were read, so a reader that
    starts before, during or after the job gets each record once and stops at its end. Of those that
    one line of the timeline stands for, each is complete at its tail: their agents have counted,
    and did so when all was stored.
    """
    entries: list[Placed] = []
    room = PAGE_BYTES
    more = True
    for _ in range(CALLS_A_PAGE):
        cursor = _behind_silence(head, cursor)
        if cursor.epoch > head.epoch:
            more = False
            break
        if len(entries) >= limit or room <= 0:
            break
        stream = stream_name(head.tenant, head.job_id, cursor.epoch)
        left = limit - len(entries)
        wanted = (left, room) if level is None else (SIFTED, PAGE_BYTES)
        read = store.read(stream, cursor.seq, cursor.at, *wanted)
        attempt = epoch_attempt(head, cursor.epoch)
        for record, at in read.entries:
            shown = replace(record, data=record.data[cut:]) if cut else record
            if level is None or reaches(record.level, level):
                if len(entries) == limit or (entries and len(record.data) > room):
                    return LogPage(entries, cursor, complete=False, more=True)
                room -= len(record.data)
                here = Cursor(cursor.epoch, record.seq, at)
                entries.append(Placed(LogRecord.of(shown, cursor.epoch, attempt), here))
            cursor = Cursor(cursor.epoch, record.seq, at)
            cut = 0
        cursor = Cursor(cursor.epoch, cursor.seq, read.at)
        end = epoch_end(head, cursor.epoch)
        if end is not None and _is_done(end, cursor.seq, now_ms, at_tail=not read.more):
            if cursor.epoch == head.epoch:
                return LogPage(entries, cursor, complete=head.ended, more=False)
            cursor = Cursor(cursor.epoch + 1)
        elif not read.more:
            more = False
            break
    nothing_comes = head.ended and cursor.epoch > head.epoch
    return LogPage(entries, cursor, complete=nothing_comes, more=more)


def _behind_silence(head: Head, cursor: Cursor) -> Cursor:
    """Skip epochs without output, which have no chunks, up to the newest one."""
    while cursor.seq == 0 and (end := epoch_end(head, cursor.epoch)) is not None:
        following = min(end.last + 1, head.epoch)
        if end.records != 0 or cursor.epoch >= following:
            break
        cursor = Cursor(following)
    return cursor


def _is_done(end: EpochEnd, seq: int, now_ms: int, *, at_tail: bool) -> bool:
    if end.records is not None:
        if end.first < end.last:
            return at_tail
        if seq >= end.records:
            return True
    return at_tail and now_ms - end.at_ms > SETTLE_MS
