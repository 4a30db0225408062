"""Results: what became of each due time of a schedule."""

from dataclasses import dataclass
from typing import Final, Literal

Outcome = Literal["started", "skipped", "missed", "refused", "paused"]
"""`started`: a job or group was submitted, or jobs were requeued. `skipped`: what was started
before had not ended (`overlap`). `missed`: it was too late, or a later due time came first.
`refused`: the submission was not accepted. `paused`: the schedule was paused."""

Cause = Literal["due", "run", "backfill"]
"""`due`: its time came. `run`: somebody asked for it. `backfill`: somebody asked for past times."""

RESULT_DAYS: Final = 90
"""Days for which results are kept."""

TEXT_CHARS: Final = 200
"""Longest text of a result that is stored."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a due time, or of several in a row. Times are Unix milliseconds."""

    due_ms: int
    """The due time, or the first of several; of a run, when somebody asked for it."""
    outcome: Outcome
    at_ms: int
    """When it was decided."""
    text: str = ""
    """Why, in a sentence; empty where outcome and times say it."""
    cause: Cause = "due"
    to_ms: int | None = None
    """The last of several due times; None for one."""
    times: int | None = 1
    """How many due times; None if nobody counted them."""
    job_id: str | None = None
    """What was started, unless the due time gives its id."""

    def covers(self, due_ms: int) -> bool:
        """Whether a due time of the schedule has this result."""
        last_ms = self.due_ms if self.to_ms is None else self.to_ms
        return self.cause == "due" and self.due_ms <= due_ms <= last_ms
