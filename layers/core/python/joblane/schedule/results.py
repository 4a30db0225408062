"""Results: what became of each due time of a schedule."""

from typing import Literal

Outcome = Literal["started", "skipped", "missed", "refused", "paused"]
"""`started`: a job or group was submitted, or jobs were requeued. `skipped`: what was started
before had not ended (`overlap`). `missed`: it was too late, or a later due time came first.
`refused`: the submission was not accepted. `paused`: the schedule was paused."""

Cause = Literal["due", "run", "backfill"]
"""`due`: its time came. `run`: somebody asked for it. `backfill`: somebody asked for past times."""
