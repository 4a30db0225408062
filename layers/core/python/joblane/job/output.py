"""Log records of a job, their streams, and the cursor of a reader.

Each claim of a job writes its own stream (`tenant/job/epoch`), so two agents never write to one
stream, even if one of them has lost its lease without knowing; a reader reads the epochs in order
(docs/decisions/1201-output-in-chunks.md). A stream is stored in chunks (`joblane.job.chunk`).
"""

import base64
import binascii
import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from pydantic import BaseModel, ConfigDict

from joblane.formats.levels import Level
from joblane.formats.times import rfc3339
from joblane.job.head import Head
from joblane.state.lifecycle import State

Stream = Literal["stdout", "stderr", "joblane"]

SEQ_MAX = 1 << 52
"""Largest number of a chunk's first record; no job writes that many."""

_CURSOR_MAX = 1 << 53


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """A piece of output: one line with its line end, or a part of a very long one."""

    seq: int
    """1 for the first record of a claim, then without gaps."""
    stream: Stream
    time_ms: int
    data: bytes
    level: Level | None = None
    """That of the log record that it is of; None for what was printed."""


class LogRecord(BaseModel):
    """A piece of a job's output, usually a line; `epoch` and `seq` together identify it."""

    model_config = ConfigDict(defer_build=True)

    epoch: int
    """Number of the claim by an agent that it is of, from 1: each time that the job was started has
    its own, also those that do not count as an attempt."""
    attempt: int
    """Number of the attempt."""
    seq: int
    """Number of the record within the claim, from 1."""
    stream: Stream
    """`joblane` marks messages of Joblane, such as "output cap reached"."""
    time: str
    """When the job wrote it."""
    level: Level | None = None
    """That of a record of a handler's log: `debug`, `info`, `warning`, `error` or `critical`.
    Messages of Joblane are warnings. What was printed has none, nor has the output of a command."""
    text: str | None = None
    """The output, if it is UTF-8."""
    base64: str | None = None
    """Bytes that are not UTF-8."""

    @classmethod
    def of(cls, record: OutputRecord, epoch: int, attempt: int) -> "LogRecord":
        """Show a record of a claim, which was that attempt."""
        text = encoded = None
        try:
            text = record.data.decode("utf-8")
        except UnicodeDecodeError:
            encoded = base64.b64encode(record.data).decode("ascii")
        return cls(
            epoch=epoch,
            attempt=attempt,
            seq=record.seq,
            stream=record.stream,
            time=rfc3339(record.time_ms),
            level=record.level,
            text=text,
            base64=encoded,
        )


@dataclass(frozen=True, slots=True)
class Cursor:
    """A reader's position in a job's output."""

    epoch: int = 1
    seq: int = 0
    """Last record read of this epoch."""
    at: int = 1
    """Chunks that begin before this record have been read: the first record of the chunk that holds
    `seq`, or one more at its end."""

    def encode(self) -> str:
        """Encode as an opaque, URL-safe text."""
        row = json.dumps([self.epoch, self.seq, self.at], separators=(",", ":"))
        return base64.urlsafe_b64encode(row.encode()).decode("ascii").rstrip("=")

    @classmethod
    def decode(cls, text: str) -> "Cursor":
        """Inverse of `encode`. Raises ValueError for any other text."""
        try:
            row = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            epoch, seq, at = row
        except (binascii.Error, UnicodeError, ValueError, TypeError, RecursionError):
            raise ValueError("is not a cursor of this API") from None
        sound = (
            all(type(number) is int for number in (epoch, seq, at))
            and 1 <= epoch < _CURSOR_MAX
            and 0 <= seq < _CURSOR_MAX
            and 1 <= at < _CURSOR_MAX
        )
        if not sound:
            raise ValueError("is not a cursor of this API")
        return cls(epoch, seq, at)

    @classmethod
    def past_end(cls, head: Head) -> "Cursor":
        """The position after the end of the job's output.

        If the job is restarted, a reader continues from there with the new attempt.
        """
        return cls(head.epoch + 1)

    def is_past_end_of(self, head: Head) -> bool:
        """Whether the reader of a stream of events has already received the end of this job."""
        return head.ended and self == Cursor.past_end(head)


def stream_name(tenant: str, job_id: str, epoch: int) -> str:
    """The stream of one claim's output: the partition of its chunks in the table `output`.

    The tenant comes first, so that the role of a fleet can be limited to it.
    """
    return f"{tenant}/{job_id}/{epoch}"


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """The end of one epoch's output."""

    attempt: int
    at_ms: int
    """When the next transition was written."""
    records: int | None
    """Number of records, of all epochs that ended so; None if unknown (`Step.records`)."""
    first: int
    """The first epoch that ended so: of those in one line of the timeline."""
    last: int
    """The last epoch that ended so."""


def epoch_attempt(head: Head, epoch: int) -> int:
    """The attempt number of an epoch."""
    end = epoch_end(head, epoch)
    return head.attempt if end is None else end.attempt


def epoch_end(head: Head, epoch: int) -> EpochEnd | None:
    """The end of an epoch, or None while it runs or has not begun.

    Every claim in the timeline is one epoch; a claim before a line that stands for several ends
    of attempts is as many epochs. Their numbers are taken to rise by one up to that of the line,
    which is exact for retries and for blocks, and not where an operator restarted the job.
    """
    seen = 0
    for step, following in pairwise(head.timeline):
        if step.state is State.ACTIVE:
            first = seen + 1
            seen += following.times
            if epoch <= seen:
                attempt = max(step.attempt, min(step.attempt + epoch - first, following.attempt))
                return EpochEnd(attempt, following.at_ms, following.records, first, seen)
    return None
