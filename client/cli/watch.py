"""Following a job's log on a terminal: bytes as they were, and a word when nothing happens."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from client.api import Client
from client.cli import out
from client.errors import JoblaneError
from client.follow import Edge, Note, Policy
from client.wire import LogRecord, record

WAITING = frozenset({"scheduled", "pending", "retry", "blocked"})
"""States in which a job waits for something that a person may want to know."""

PATIENCE_S = 2.0
"""Quiet time after which a person is told what the job waits for."""

ASK_AGAIN_S = 5.0
"""Between two looks at the reason of a job that still waits."""


@dataclass(slots=True)
class Waiting:
    """Decides when to look up, and when to say, what a job waits for. Times in seconds."""

    quiet_since: float
    asked: float | None = None
    said: str | None = None

    def should_ask(self, state: str | None, *, output: bool, now: float) -> bool:
        """Take in one answer; True when it is time to look at the job's reason."""
        if output or state not in WAITING:
            self.quiet_since, self.asked = now, None
            return False
        if now - self.quiet_since < PATIENCE_S:
            return False
        if self.asked is not None and now - self.asked < ASK_AGAIN_S:
            return False
        self.asked = now
        return True

    def is_new(self, reason: str) -> bool:
        """Whether this reason was not the last one said."""
        new = reason != self.said
        self.said = reason
        return new


def write_records(records: Sequence[LogRecord]) -> None:
    """Write records to the streams they came from, in order; `joblane`'s own words to stderr."""
    data = b""
    stderr = False
    for piece in records:
        to_stderr = piece.stream != "stdout"
        if data and to_stderr != stderr:
            out.write(data, stderr=stderr)
            data = b""
        stderr = to_stderr
        data += piece.data
    if data:
        out.write(data, stderr=stderr)


def as_json(records: Sequence[LogRecord]) -> None:
    """Write records as JSON lines, as the API sent them."""
    for piece in records:
        out.json_line(piece.entry)


@dataclass(slots=True)
class Watcher:
    """Follows one job to the end of its log."""

    client: Client
    give_up_s: float
    """Seconds without an answer of the API after which following ends."""
    show: Callable[[Sequence[LogRecord]], None] = write_records
    clock: Callable[[], float] = field(default=time.monotonic)

    def watch(self, job_id: str) -> None:
        """Show every record once, until no more can come. Raises `JoblaneError`."""
        waiting = Waiting(self.clock())
        policy = Policy(give_up_s=self.give_up_s)
        for page in self.client.follow(job_id, policy=policy, edge=Edge(tell=self._tell)):
            entries = page["entries"]
            self.show([record(entry) for entry in entries])
            state = page.get("state")
            if waiting.should_ask(state, output=bool(entries), now=self.clock()):
                self._say_reason(job_id, waiting)

    def _say_reason(self, job_id: str, waiting: Waiting) -> None:
        try:
            job = self.client.get(job_id)
        except JoblaneError as error:
            if not error.retryable:
                raise
            return  # following says it when the API is really away
        reason = job.reason or "no reason given"
        if job.state in WAITING and waiting.is_new(reason):
            out.note(f"job {job_id} is {job.state}: {reason}")

    def _tell(self, note: Note, error: JoblaneError | None) -> None:
        if note is Note.AWAY:
            out.note(f"{error}; trying again for {self.give_up_s:.0f} s, the job is not affected")
        else:
            out.note(note.value)


def person_watches() -> bool:
    """Whether a person looks at stderr."""
    return out.is_terminal(sys.stderr)
