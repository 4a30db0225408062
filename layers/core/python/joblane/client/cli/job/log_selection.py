"""Which records of a job's output `logs` shows: those of a time, an attempt, a stream."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from joblane.client.answers import LogRecord
from joblane.client.cli.text.formats import parse_time
from joblane.formats.levels import Level

Stream = Literal["stdout", "stderr", "joblane"]


@dataclass(slots=True)
class LogSelection:
    """Passes the records on that are wanted, and knows whether there were any."""

    since: datetime | None
    attempt: int | None
    stream: Stream | None
    any: bool = False
    read: bool = False
    """Whether there was a record, wanted or not."""

    @property
    def is_limited(self) -> bool:
        """Whether it leaves out anything."""
        return (self.since, self.attempt, self.stream) != (None, None, None)

    def of(
        self, show: Callable[[Sequence[LogRecord]], None]
    ) -> Callable[[Sequence[LogRecord]], None]:
        """Make of `show` one that gets the wanted records only."""

        def show_wanted(records: Sequence[LogRecord]) -> None:
            wanted = [record for record in records if self._admits(record)]
            self.any, self.read = self.any or bool(wanted), self.read or bool(records)
            show(wanted)

        return show_wanted

    def missing(self, tail: int | None, level: Level | None) -> str | None:
        """Say why nothing was shown, of what the options were to show; None if something was."""
        if self.any:
            return None
        if level is not None and not self.read:
            return f"no output has the level {level} or above; that of commands has none"
        if not self.is_limited:
            return None
        having = "" if level is None else f" with the level {level} or above"
        what = (
            f"no output{having} is" if tail is None else f"none of the last {tail} lines{having} is"
        )
        return f"{what} of this time, attempt and stream"

    def _admits(self, record: LogRecord) -> bool:
        at = None if self.since is None else parse_time(record.time)
        return (
            (self.since is None or (at is not None and at >= self.since))
            and self.attempt in {None, record.attempt}
            and self.stream in {None, record.stream}
        )
