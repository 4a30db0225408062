"""What a `Job` and an `AsyncJob` have in common: the values of a job."""

from joblane.client.answers import JobJson
from joblane.job.lifecycle import ENDED


class JobValues:
    """A job as it was when it was last read."""

    def __init__(self, data: JobJson) -> None:
        self.data = data
        """The API's answer, unknown fields included."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.state}>"

    @property
    def id(self) -> str:
        """The job's ULID."""
        return self.data["id"]

    @property
    def state(self) -> str:
        """A `joblane.job.lifecycle.State`, or a state that is newer than this version."""
        return self.data["state"]

    @property
    def ended(self) -> bool:
        """Whether the job is in a final state."""
        return self.state in ENDED

    @property
    def reason(self) -> str:
        """Why the job waits or how it ended: a sentence."""
        return str(self.data.get("reason") or "")

    @property
    def exit_code(self) -> int | None:
        """Exit code of the last attempt; None before its end and when a signal ended it."""
        return self.data.get("exit_code")
