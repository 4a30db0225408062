"""Retention of jobs, output and the audit trail."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from joblane.state.lifecycle import State

Days = Annotated[int, Field(ge=1, le=3650)]

JobDays = Annotated[int, Field(ge=1, le=180)]
"""For no longer is a long submission sure to be there: its item lives for 400 days from the
submission, which begin anew when half of them are gone, within 14 days, and the job has not ended
(`joblane.job.head.DATA_DAYS`, decision 1675)."""

LogDays = Literal[1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1827, 3653]
"""The retention periods that CloudWatch Logs accepts: they apply to the logs of functions too."""


LOOK_DAYS = 14
"""Most days from a job's submission to the first look of requeue at what it needs, and from one
look to the next (`joblane.job.renewal`)."""

PAYLOAD_SLACK_DAYS = 60
"""How much longer a payload stays in S3 than its job stays readable. It is copied onto itself when
half of them are gone, while its job has not ended (`joblane.job.renewal`)."""


class Retention(BaseModel):
    """Days for which data is kept; jobs count from their end."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    completed_days: JobDays = 7
    """Completed jobs."""
    failed_days: JobDays = 30
    """Failed jobs, and groups of which some members failed."""
    dead_days: JobDays = 90
    """Dead jobs."""
    other_days: JobDays = 7
    """Jobs that ended in any other state."""
    logs_days: LogDays = 90
    """Output of jobs."""
    audit_days: Days = 400
    """Entries of the audit trail."""
    files_days: Days = 30
    """Uploaded input files, from their upload: for so many days a submission may name them, and
    then they stay until its job has ended. Output files stay as long as results do."""
    exports_days: Days = 400
    """Ended jobs in S3, of tenants with `export_jobs`, from their export."""

    def expires_at(self, state: State, now_ms: int, *, member: bool = False) -> int:
        """When the row of a job that ends in `state` now expires, in Unix seconds.

        A member of a group is kept at least as long as a group that ends now, whatever becomes of
        it, so that no group is shown without the members that it counts.
        """
        days = {
            State.COMPLETED: self.completed_days,
            State.FAILED: self.failed_days,
            State.PARTIAL_FAILURE: self.failed_days,
            State.DEAD: self.dead_days,
        }.get(state, self.other_days)
        if member:
            days = max(days, self.completed_days, self.failed_days, self.other_days)
        return now_ms // 1000 + days * 86_400

    @property
    def stored_files_days(self) -> int:
        """Days after which S3 expires an input file, counted from the day it was written or copied.

        A submission may name it until `files_days` are over. It is there at the next look of
        requeue at the job then, which copies it onto itself.
        """
        return self.files_days + LOOK_DAYS

    @property
    def payload_days(self) -> int:
        """Days after which S3 expires a payload, counted from the day it was written or copied.

        Counted from the write, because counting from the job's end would cost one request a job.
        A job that is retried or replayed after its payload has expired fails with that reason.
        """
        longest = max(self.completed_days, self.failed_days, self.dead_days, self.other_days)
        return longest + PAYLOAD_SLACK_DAYS
