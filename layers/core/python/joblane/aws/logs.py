"""CloudWatch Logs: where the output of jobs goes, and where readers find it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from joblane.head import Head
from joblane.logs import (
    Cursor,
    EpochEnd,
    Record,
    epoch_attempt,
    epoch_end,
    read_event,
    stream_name,
)
from joblane.model import LogRecord

if TYPE_CHECKING:
    from mypy_boto3_logs.client import CloudWatchLogsClient
    from mypy_boto3_logs.type_defs import GetLogEventsRequestTypeDef

SETTLE_MS = 10_000
"""How long after an attempt ended its missing records are still waited for: those of an agent
that was lost may never come."""

_CALLS_A_PAGE = 8  # bounds one request of ours; the reader comes again with the cursor


@dataclass(frozen=True, slots=True)
class LogPage:
    """Some records of a job, in order, and where to go on."""

    records: list[LogRecord]
    cursor: Cursor
    complete: bool
    """True when the job has ended and nothing more will ever come."""


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
        records: list[LogRecord] = []
        for _ in range(_CALLS_A_PAGE):
            if len(records) >= limit or cursor.epoch > head.epoch:
                break
            read, token = self._read(head, cursor, limit - len(records))
            records += read
            moved = token is not None and token != cursor.token
            cursor = Cursor(
                cursor.epoch, read[-1].seq if read else cursor.seq, token or cursor.token
            )
            end = epoch_end(head, cursor.epoch)
            if end is not None and _done(end, cursor.seq, now_ms, at_tail=not moved):
                if cursor.epoch == head.epoch:
                    return LogPage(records, cursor, complete=head.ended)
                cursor = Cursor(cursor.epoch + 1)
            elif not moved:
                break
        never_ran = head.ended and cursor.epoch > head.epoch
        return LogPage(records, cursor, complete=never_ran)

    def _read(self, head: Head, cursor: Cursor, limit: int) -> tuple[list[LogRecord], str | None]:
        """Read one page of one epoch's stream; the token is None while there is no stream."""
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
                return [], None
            if code == "InvalidParameterException" and cursor.token is not None:
                raise ValueError("is not a cursor of this job's output") from error
            raise
        attempt = epoch_attempt(head, cursor.epoch)
        found = [
            read_event(event["message"], event["timestamp"], attempt) for event in answer["events"]
        ]
        # A write that the SDK repeated after a lost answer stands twice in the stream.
        fresh: dict[int, LogRecord] = {r.seq: r for r in found if r and r.seq > cursor.seq}
        return sorted(fresh.values(), key=lambda r: r.seq), answer["nextForwardToken"]


def _done(end: EpochEnd, seq: int, now_ms: int, *, at_tail: bool) -> bool:
    if end.records is not None and seq >= end.records:
        return True
    return at_tail and now_ms - end.at_ms > SETTLE_MS
