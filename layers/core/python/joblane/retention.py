"""How long things stay readable: jobs after they ended, their output, the audit trail."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from joblane.lifecycle import State

Days = Annotated[int, Field(ge=1, le=3650)]

LogDays = Literal[1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1827, 3653]
"""The retention periods that CloudWatch Logs accepts."""


PAYLOAD_START_DAYS = 30
"""Latest `run_at` of a job whose submission lies in S3, in days from its submission."""

PAYLOAD_SLACK_DAYS = 60
"""How much longer an object lives than a job stays readable: 30 days until its `run_at`, 14 in
its lane, which is SQS's longest, and 16 for its attempts and the conditions it waits for."""


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

    @property
    def payload_days(self) -> int:
        """Days after which S3 expires a submission, from the day on which it was written.

        By its age and not by the job's end, which would cost a request a job. A job that is
        retried or replayed by hand so late that its object has expired fails with that reason.
        """
        longest = max(self.completed_days, self.failed_days, self.dead_days, self.other_days)
        return longest + PAYLOAD_SLACK_DAYS
