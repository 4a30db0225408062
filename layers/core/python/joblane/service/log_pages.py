"""Read a job's output in pages, across its attempts."""

from dataclasses import dataclass

from joblane.aws.logs import LogStore
from joblane.job.head import Head
from joblane.job.output import Cursor, EpochEnd, LogRecord, epoch_end

SETTLE_MS = 10_000
"""How long after the end of an attempt to wait for missing records: those of a lost agent may
never arrive."""

_CALLS_A_PAGE = 8  # bounds one request; the reader continues with the cursor

_PAGE_BYTES = 1024 * 1024
"""Maximum bytes of a page's events, unless a single event is longer. JSON within Lambda's JSON
expands each byte to at most 3.5, and Lambda's limit is 6 MB."""


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
    full: bool
    """Whether more output is available now."""

    @property
    def records(self) -> list[LogRecord]:
        """The records alone."""
        return [entry.record for entry in self.entries]


def log_page(logs: LogStore, head: Head, cursor: Cursor, *, limit: int, now_ms: int) -> LogPage:
    """Read up to `limit` records after the cursor, through the job's epochs in order.

    An epoch is complete when as many records as its agent counted were read, so a reader that
    starts before, during or after the job gets each record once and stops at its end. Raises
    ValueError for a cursor that CloudWatch does not accept.
    """
    entries: list[Placed] = []
    room = _PAGE_BYTES
    full = True
    for _ in range(_CALLS_A_PAGE):
        cursor = _behind_silence(head, cursor)
        if cursor.epoch > head.epoch:
            full = False
            break
        if len(entries) >= limit or room <= 0:
            break
        read = logs.read(head, cursor, limit - len(entries), room)
        room -= read.size
        # A cursor inside the result of one call has the token of that call: the next request
        # makes the same call, and skips records by the cursor's seq.
        entries += [Placed(r, Cursor(cursor.epoch, r.seq, cursor.token)) for r in read.records]
        if read.cut:
            return LogPage(entries, entries[-1].cursor, complete=False, full=True)
        moved = read.token is not None and read.token != cursor.token
        cursor = Cursor(
            cursor.epoch,
            read.records[-1].seq if read.records else cursor.seq,
            read.token or cursor.token,
        )
        if read.records:
            entries[-1] = Placed(read.records[-1], cursor)
        end = epoch_end(head, cursor.epoch)
        if end is not None and _done(end, cursor.seq, now_ms, at_tail=not moved):
            if cursor.epoch == head.epoch:
                return LogPage(entries, cursor, complete=head.ended, full=False)
            cursor = Cursor(cursor.epoch + 1)
        elif not moved:
            full = False
            break
    nothing_comes = head.ended and cursor.epoch > head.epoch
    return LogPage(entries, cursor, complete=nothing_comes, full=full)


def _behind_silence(head: Head, cursor: Cursor) -> Cursor:
    """Skip epochs without output that another one follows: they have no stream."""
    while cursor.seq == 0 and (end := epoch_end(head, cursor.epoch)) is not None:
        if end.records != 0 or end.last >= head.epoch:
            break
        cursor = Cursor(end.last + 1)
    return cursor


def _done(end: EpochEnd, seq: int, now_ms: int, *, at_tail: bool) -> bool:
    if end.records is not None and seq >= end.records:
        return True
    return at_tail and now_ms - end.at_ms > SETTLE_MS
