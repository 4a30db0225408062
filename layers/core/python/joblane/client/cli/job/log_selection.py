"""Which records of a job's output `logs` shows: those of a time, an attempt, a stream."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from joblane.client.answers import LogRecord
from joblane.client.cli.text.formats import parse_time

Stream = Literal["stdout", "stderr", "joblane"]


@dataclass(slots=True)
class LogSelection:
    """Passes the records on that are wanted, and knows whether there were any."""

    since: datetime | None
    attempt: int | None
    stream: Stream | None
    any: bool = False

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
            self.any = self.any or bool(wanted)
            show(wanted)

        return show_wanted

    def _admits(self, record: LogRecord) -> bool:
        at = None if self.since is None else parse_time(record.time)
        return (
            (self.since is None or (at is not None and at >= self.since))
            and self.attempt in {None, record.attempt}
            and self.stream in {None, record.stream}
        )
