"""A simulated job, and the row of the jobs table that decides who may run it."""

from dataclasses import dataclass, field

from joblane.deployment.names import Lane
from joblane.job.head import Head
from joblane.job.spec import Submission
from joblane.state.lifecycle import State
from joblane.state.timeline import Step

_SPEC = Submission(command=("true",))
"""Nothing of it is simulated but that it has no deadline."""


@dataclass(eq=False, slots=True)
class Job:
    """One job."""

    number: int
    queue: str
    lane: Lane
    run_s: float
    """Seconds that its program runs."""
    job_id: str = field(init=False)
    """Its id, as heartbeats list it."""
    submitted: float = 0.0
    """When its row was written."""
    state: State = State.PENDING
    epoch: int = 0
    agent: str | None = None
    claimed_ms: int = 0
    started: float | None = None
    """When its first attempt started."""
    ended: float | None = None
    completions: int = 0
    """Attempts whose success was stored: one in the end."""
    running: int = 0
    """Attempts that run at this moment, anywhere."""
    overlaps: int = 0
    """Attempts that started while another one ran."""
    interrupted: int = 0
    """Attempts that ended before their program did."""

    def __post_init__(self) -> None:
        self.job_id = f"{self.number:026d}"

    def head(self) -> Head:
        """Its row, for the product's functions that read one."""
        step = Step(self.state, self.claimed_ms, self.epoch, "claimed", self.agent)
        return Head(
            job_id=self.job_id,
            tenant="main",
            state=self.state,
            epoch=self.epoch,
            attempt=self.epoch,
            spec=_SPEC,
            timeline=(step,),
            agent=self.agent,
        )


@dataclass(slots=True)
class Usage:
    """Requests to AWS that are billed, as `scripts/costs` prices them."""

    sqs: float = 0
    """Requests to lanes, which pay the surcharge of fair queues."""
    sqs_other: float = 0
    """Requests to inboxes, and reads of lengths."""
    write_units: float = 0
    read_units: float = 0
    lambda_calls: float = 0
    lambda_s: float = 0
    refused: dict[str, int] = field(default_factory=dict)
    """Requests that a limit of AWS held up, by the name of the limit."""

    def hold_up(self, limit: str) -> None:
        """Count a request that a limit held up."""
        self.refused[limit] = self.refused.get(limit, 0) + 1
