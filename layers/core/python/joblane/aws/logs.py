"""CloudWatch Logs: where the output of jobs goes, and where readers find it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from joblane.head import Head
from joblane.job import LogRecord
from joblane.logs import (
    Cursor,
    EpochEnd,
    Record,
    epoch_attempt,
    epoch_end,
    read_event,
    stream_name,
)

if TYPE_CHECKING:
    from mypy_boto3_logs.client import CloudWatchLogsClient
    from mypy_boto3_logs.type_defs import GetLogEventsRequestTypeDef

SETTLE_MS = 10_000
"""How long after an attempt ended its missing records are still waited for: those of an agent
that was lost may never come."""

_CALLS_A_PAGE = 8  # bounds one request of ours; the reader comes again with the cursor

_PAGE_BYTES = 1024 * 1024
"""Events that a page holds at most, one of any size apart. JSON within Lambda's JSON makes at
most 3.5 of each byte, and Lambda answers with no more than 6 MB."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A record, and the cursor of a reader who has read everything up to it."""

    record: LogRecord
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class LogPage:
    """Some records of a job, in order, and where to go on."""

    entries: list[Placed]
    cursor: Cursor
    complete: bool
    """True when the job has ended and nothing more will ever come."""
    full: bool
    """True when the page ended before the output that is there did."""

    @property
    def records(self) -> list[LogRecord]:
        """The records alone."""
        return [entry.record for entry in self.entries]


class LogStore:
    """Reads and writes the output of jobs."""

    def __init__(self, client: "CloudWatchLogsClient", group: str) -> None:
        self._client = client
        self._group = group

    def create(self, stream: str) -> None:
        """Make a stream; one that exists already is fine."""
        try:
            self._client.create_log_stream(logGroupName=self._group, logStreamName=stream)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ResourceAlreadyExistsException":
                raise

    def write(self, stream: str, records: Sequence[Record]) -> None:
        """Write records; their times must not go back within a stream."""
        self._client.put_log_events(
            logGroupName=self._group,
            logStreamName=stream,
            logEvents=[{"timestamp": r.time_ms, "message": r.encode()} for r in records],
        )

    def page(self, head: Head, cursor: Cursor, *, limit: int, now_ms: int) -> LogPage:
        """Read up to `limit` records after the cursor, walking the job's epochs in order.

        An epoch is done when as many records as its agent counted were read, so a reader who
        joins before, during or after the job sees each record once and stops by itself.
        Raises ValueError for a cursor that CloudWatch does not take.
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
            read = self._read(head, cursor, limit - len(entries), room)
            room -= read.size
            # A cursor within what one call brought has the token of that call: whoever comes
            # back with it makes the same call, and its seq says what to leave out.
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

    def _read(self, head: Head, cursor: Cursor, limit: int, room: int) -> "_Read":
        """Make one call to one epoch's stream; keep one record, and more as `room` allows."""
        stream = stream_name(head.tenant, head.job_id, cursor.epoch)
        request: GetLogEventsRequestTypeDef = {
            "logGroupName": self._group,
            "logStreamName": stream,
            "startFromHead": True,
            "limit": limit,
        }
        if cursor.token is not None:
            request["nextToken"] = cursor.token
        try:
            answer = self._client.get_log_events(**request)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code == "ResourceNotFoundException":
                return _Read([])
            if code == "InvalidParameterException" and cursor.token is not None:
                raise ValueError("is not a cursor of this job's output") from error
            raise
        attempt = epoch_attempt(head, cursor.epoch)
        # A write that the SDK repeated after a lost answer stands twice in the stream.
        fresh: dict[int, tuple[LogRecord, int]] = {}
        for event in answer["events"]:
            record = read_event(event["message"], event["timestamp"], attempt)
            if record is not None and record.seq > cursor.seq:
                fresh[record.seq] = record, len(event["message"].encode())
        kept: list[LogRecord] = []
        size = 0
        for seq in sorted(fresh):
            record, length = fresh[seq]
            if kept and size + length > room:
                break
            kept.append(record)
            size += length
        cut = len(kept) < len(fresh)
        return _Read(kept, answer["nextForwardToken"], size, cut=cut)


@dataclass(frozen=True, slots=True)
class _Read:
    """What one call brought."""

    records: list[LogRecord]
    token: str | None = None
    """Where the stream goes on; None while there is no stream."""
    size: int = 0
    cut: bool = False
    """True when the call brought more than there was room for."""


def _behind_silence(head: Head, cursor: Cursor) -> Cursor:
    """Pass over epochs without output, as far as another follows: they have no stream."""
    while cursor.seq == 0 and (end := epoch_end(head, cursor.epoch)) is not None:
        if end.records != 0 or end.last >= head.epoch:
            break
        cursor = Cursor(end.last + 1)
    return cursor


def _done(end: EpochEnd, seq: int, now_ms: int, *, at_tail: bool) -> bool:
    if end.records is not None and seq >= end.records:
        return True
    return at_tail and now_ms - end.at_ms > SETTLE_MS
