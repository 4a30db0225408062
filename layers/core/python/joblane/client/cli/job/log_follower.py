"""Following a job's log: its output, and the reason why it waits."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from joblane.client.answers import LogReader, LogRecord, log_page
from joblane.client.cli.text import terminal
from joblane.client.cli.text.api_away import report_api_away
from joblane.client.cli.text.escapes import TerminalText
from joblane.client.clients import Client
from joblane.client.errors import JoblaneError
from joblane.client.follow import FollowPolicy
from joblane.formats.levels import Level

WAITING = frozenset({"scheduled", "waiting", "pending", "retry", "blocked"})
"""States in which a job waits."""

PATIENCE_S = 2.0
"""Time without output after which the reason is shown."""

ASK_AGAIN_S = 5.0
"""Between two reads of the reason of a job that waits."""


@dataclass(slots=True)
class Waiting:
    """Decides when to read and when to show why a job waits. Times in seconds."""

    quiet_since: float
    asked: float | None = None
    shown: str | None = None

    def should_ask(self, state: str | None, *, output: bool, now: float) -> bool:
        """Record an answer; True when it is time to read the job's reason."""
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
        """Whether this reason differs from the one that was shown last."""
        new = reason != self.shown
        self.shown = reason
        return new


class LogWriter:
    """Writes records to the streams they came from, in order; the agent's messages to stderr.

    A terminal gets control characters escaped unless `raw`; files and pipes get every byte. A line
    on stderr stands between the output of two starts of the job. With `timestamps` each line begins
    with the time of its first byte; with `all_to_stderr` stdout is left to the result.
    """

    def __init__(self, *, raw: bool, timestamps: bool = False, all_to_stderr: bool = False) -> None:
        self._timestamps, self._all_to_stderr = timestamps, all_to_stderr
        self._start: tuple[int, int] | None = None
        """Epoch and attempt of what was written last."""
        self._open: set[str] = set()
        """Streams whose last line has not ended."""
        self._texts = {
            stderr: TerminalText()
            for stderr, stream in ((False, sys.stdout), (True, sys.stderr))
            if terminal.is_terminal(stream) and not raw
        }

    def __call__(self, records: Sequence[LogRecord]) -> None:
        """Write some records."""
        for (epoch, attempt), started in groupby(
            records, lambda piece: (piece.epoch, piece.attempt)
        ):
            if self._start not in {None, (epoch, attempt)}:
                self._separate(attempt)
            self._start = (epoch, attempt)
            for stderr, pieces in groupby(started, self._goes_to_stderr):
                data = b"".join(map(self._bytes_of, pieces))
                text = self._texts.get(stderr)
                terminal.write(data if text is None else text.feed(data), stderr=stderr)

    def _goes_to_stderr(self, piece: LogRecord) -> bool:
        return self._all_to_stderr or piece.stream != "stdout"

    def _separate(self, attempt: int) -> None:
        """Write a line between two starts; a terminal's line is ended, a file stays as it is."""
        self.end()
        if self._open and terminal.is_terminal(sys.stderr):
            terminal.write(b"\n", stderr=True)
        self._open.clear()
        again = self._start is not None and self._start[1] == attempt
        terminal.note(f"--- attempt {attempt}{', started again' if again else ''} ---")

    def _bytes_of(self, piece: LogRecord) -> bytes:
        """The bytes of a record, with the time in front of each line that begins in it."""
        lines = piece.data.split(b"\n")
        begins = [piece.stream not in self._open, *([True] * (len(lines) - 1))]
        if lines[-1] or (len(lines) == 1 and not begins[0]):
            self._open.add(piece.stream)
        else:
            self._open.discard(piece.stream)
        if not self._timestamps:
            return piece.data
        stamp = f"{piece.time} ".encode()
        if not lines[-1]:
            begins[-1] = False  # nothing of a further line is here
        return b"\n".join(
            stamp + line if begin else line for begin, line in zip(begins, lines, strict=True)
        )

    def end_lines(self) -> None:
        """End lines that a note of Joblane would be written over."""
        for stderr, text in self._texts.items():
            terminal.write(text.end_line(), stderr=stderr)

    def end(self) -> None:
        """Write what waited for a next record that did not come."""
        for stderr, text in self._texts.items():
            terminal.write(text.end(), stderr=stderr)


def as_json(records: Sequence[LogRecord]) -> None:
    """Write records as JSON lines, as the API sent them."""
    for piece in records:
        terminal.json_line(piece.entry)


@dataclass(slots=True)
class LogFollower:
    """Follows a job to the end of its log."""

    client: Client
    give_up_s: float
    """Following ends after so many seconds without an answer of the API."""
    show: Callable[[Sequence[LogRecord]], None]
    before_note: Callable[[], None] = lambda: None
    """Called before something is said on stderr."""
    level: Level | None = None
    """Show only records of this level or above."""
    clock: Callable[[], float] = field(default=time.monotonic)

    def follow(self, job_id: str, tail: int | None = None) -> None:
        """Show each record once until the log is complete, from the last `tail` on if given.

        Raises `JoblaneError`.
        """
        waiting, reader = Waiting(self.clock()), LogReader()
        policy = FollowPolicy(give_up_s=self.give_up_s)
        for page in self.client.follow(
            job_id,
            tail=tail,
            level=self.level,
            policy=policy,
            runtime=report_api_away(self.give_up_s, clear=self.before_note),
        ):
            entries = log_page(page.model_dump())["entries"]
            self.show(reader.read(entries))
            if waiting.should_ask(page.state, output=bool(entries), now=self.clock()):
                self._show_reason(job_id, waiting)

    def _show_reason(self, job_id: str, waiting: Waiting) -> None:
        try:
            job = self.client.get(job_id)
        except JoblaneError as error:
            if not error.retryable:
                raise
            return  # following reports an API that does not answer
        reason = job.reason or "no reason given"
        if job.state in WAITING and waiting.is_new(reason):
            self.before_note()
            terminal.note(f"job {job_id} is {job.state}: {reason}")
