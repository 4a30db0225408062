"""How long things stay readable: jobs after they ended, their output, the audit trail."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from joblane.lifecycle import State

Days = Annotated[int, Field(ge=1, le=3650)]

LogDays = Literal[1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1827, 3653]
"""The retention periods that CloudWatch Logs accepts."""


class Retention(BaseModel):
    """Days that things stay readable: a job after it ended, by the way it ended."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    completed_days: Days = 7
    failed_days: Days = 30
    dead_days: Days = 90
    other_days: Days = 7
    logs_days: LogDays = 90
    audit_days: Days = 400
    """Of the audit trail, from the action on."""

    def expires_at(self, state: State, now_ms: int) -> int:
        """When a job that ends in `state` now may be deleted, in Unix seconds."""
        days = {
            State.COMPLETED: self.completed_days,
            State.FAILED: self.failed_days,
            State.DEAD: self.dead_days,
        }.get(state, self.other_days)
        return now_ms // 1000 + days * 86_400
