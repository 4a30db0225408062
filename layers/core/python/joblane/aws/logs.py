"""Adapter for CloudWatch Logs: writes and reads the output of jobs, a stream for each claim."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from joblane.job.head import Head
from joblane.job.output import Cursor, LogRecord, Record, epoch_attempt, read_event, stream_name

if TYPE_CHECKING:
    from mypy_boto3_logs.client import CloudWatchLogsClient
    from mypy_boto3_logs.type_defs import GetLogEventsRequestTypeDef


@dataclass(frozen=True, slots=True)
class LogRead:
    """Result of one call."""

    records: list[LogRecord]
    token: str | None = None
    """Token to continue the stream with; None while there is no stream."""
    size: int = 0
    cut: bool = False
    """Whether the call returned more than `room` bytes."""


class LogStore:
    """Reads and writes the output of jobs."""

    def __init__(self, client: "CloudWatchLogsClient", group: str) -> None:
        self._client = client
        self._group = group

    def create(self, stream: str) -> None:
        """Create a stream, unless it exists."""
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

    def read(self, head: Head, cursor: Cursor, limit: int, room: int) -> LogRead:
        """Read an epoch's stream in one call: at most `limit` records after the cursor.

        `room` bounds the bytes of all records but the first. Raises ValueError for a cursor that
        CloudWatch does not accept.
        """
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
                return LogRead([])
            if code == "InvalidParameterException" and cursor.token is not None:
                raise ValueError("is not a cursor of this job's output") from error
            raise
        attempt = epoch_attempt(head, cursor.epoch)
        # A write that the SDK repeated after a lost response is in the stream twice.
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
        return LogRead(kept, answer["nextForwardToken"], size, cut=cut)
