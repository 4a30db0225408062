"""Records of a job's output: how they are cut, named and encoded. Pure.

Each claim of a job writes a stream of its own (`tenant/job/epoch`), so two agents never write
to one stream, even when one of them only believes that it holds the lease; a reader walks the
epochs in order (docs/decisions/0003-log-stream-per-claim.md).
"""

import base64
import binascii
import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from joblane.head import Head, rfc3339
from joblane.job import LogRecord
from joblane.lifecycle import State

Stream = Literal["stdout", "stderr", "joblane"]


@dataclass(frozen=True, slots=True)
class Record:
    """A piece of output: one line with its line end, or a part of a very long one."""

    seq: int
    """1 for the first record of an attempt, then without gaps."""
    stream: Stream
    time_ms: int
    data: bytes

    def encode(self) -> str:
        """The text of the CloudWatch Logs event; bytes that are not UTF-8 go as base64."""
        body: dict[str, int | str] = {"seq": self.seq, "stream": self.stream}
        try:
            body["text"] = self.data.decode("utf-8")
        except UnicodeDecodeError:
            body["base64"] = base64.b64encode(self.data).decode("ascii")
        return json.dumps(body, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a reader is in a job's output."""

    epoch: int = 1
    seq: int = 0
    """Last record read of this epoch."""
    token: str | None = None
    """CloudWatch's own forward token in the stream of this epoch."""

    def encode(self) -> str:
        """An opaque, URL-safe text."""
        row = json.dumps([self.epoch, self.seq, self.token], separators=(",", ":"))
        return base64.urlsafe_b64encode(row.encode()).decode("ascii").rstrip("=")

    @classmethod
    def decode(cls, text: str) -> "Cursor":
        """Inverse of `encode`. Raises ValueError for anything that it did not write."""
        try:
            row = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            epoch, seq, token = row
        except (binascii.Error, UnicodeError, ValueError, TypeError):
            raise ValueError("is not a cursor of this API") from None
        sound = (
            type(epoch) is int
            and 1 <= epoch < 1 << 53
            and type(seq) is int
            and 0 <= seq < 1 << 53
            and (token is None or (isinstance(token, str) and 0 < len(token) <= 512))  # noqa: PLR2004
        )
        if not sound:
            raise ValueError("is not a cursor of this API")
        return cls(epoch, seq, token)

    @classmethod
    def past_end(cls, head: Head) -> "Cursor":
        """Where a reader is who was told that the job has ended: before an attempt to come.

        If somebody starts the job again, that reader goes on with exactly this attempt.
        """
        return cls(head.epoch + 1)

    def was_told_end(self, head: Head) -> bool:
        """Whether the reader of a stream of events knows already that this job has ended."""
        return head.ended and self == Cursor.past_end(head)


def stream_name(tenant: str, job_id: str, epoch: int) -> str:
    """The CloudWatch Logs stream of one claim's output."""
    return f"{tenant}/{job_id}/{epoch}"


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """How the attempt of one epoch ended, as far as its output goes."""

    attempt: int
    at_ms: int
    """When the next transition was written."""
    records: int | None
    """How many records it wrote; None when nobody can tell: its agent was lost, or its line
    stands for several blocks."""
    last: int
    """The last epoch that this is true of."""


def epoch_attempt(head: Head, epoch: int) -> int:
    """The attempt that ran, or runs, under an epoch."""
    end = epoch_end(head, epoch)
    return head.attempt if end is None else end.attempt


def epoch_end(head: Head, epoch: int) -> EpochEnd | None:
    """How an epoch ended, or None while it runs or has not begun.

    Every claim in the timeline is an epoch; one that stands before several blocks in one line
    is as many.
    """
    seen = 0
    for step, following in pairwise(head.timeline):
        if step.state is State.ACTIVE:
            seen += following.times
            if epoch <= seen:
                return EpochEnd(step.attempt, following.at_ms, following.records, seen)
    return None


def read_event(text: str, time_ms: int, attempt: int) -> LogRecord | None:
    """Read what `Record.encode` wrote; None for an event that is not ours."""
    try:
        body = json.loads(text)
        return LogRecord(
            attempt=attempt,
            seq=body["seq"],
            stream=body["stream"],
            time=rfc3339(time_ms),
            text=body.get("text"),
            base64=body.get("base64"),
        )
    except (ValueError, KeyError, TypeError):
        return None
