"""A job whose changes are read from the stream, for tests of spans."""

from typing import Any

from joblane.aws.trace.stream import read_ended
from joblane.job.head import Head, make_head
from joblane.job.moves import AttemptFacts, plan
from joblane.job.spans import Ended, Span, spans
from joblane.state.lifecycle import Event, Outcome, State
from joblane.state.timeline import Step
from joblane.state.trace import TraceContext
from tests.support.jobs import named, submission
from tests.support.keyed import NOW_MS, Deployed
from tests.support.keys import job

CALLER = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", 1, "rojo=1")


class Scene:
    """A job in a deployment whose spans are collected; a step takes a second."""

    def __init__(self, **fields: Any) -> None:
        self.at = Deployed()
        self.now = NOW_MS
        spec = submission(**{"name": "nightly", **fields})
        self.head = make_head(job("A"), "acme", spec, self.now, caller_trace=CALLER)
        self.ended: list[Ended] = []

    def put(self) -> None:
        """Store the job."""
        self.at.aws.jobs.put_new(self.head)

    def later(self) -> int:
        """A second later, in Unix milliseconds."""
        self.now += 1000
        return self.now

    def claim(self, agent: str = "agent-1") -> Head:
        """Let an agent claim it."""
        self.head = self.at.aws.jobs.claim(named(job("A")), agent, self.later())
        return self.head

    def settle(self, state: State, outcome: Outcome, **facts: Any) -> None:
        """End its attempt."""
        step = Step(state, self.later(), self.head.attempt, f"it is {outcome}")
        self.head = self.at.aws.jobs.settle(self.head, step, AttemptFacts(outcome, **facts))

    def move(self, event: Event) -> None:
        """Change its state as the API does."""
        step = plan(self.head, event, self.later(), f"{event} by a test")
        self.head = self.at.aws.jobs.move(self.head, event, step)

    def read(self, ratio: float = 1.0) -> list[Ended]:
        """What the stream says that has ended since the last call."""
        read = [read_ended(record, ratio) for record in self.at.stream.take()]
        found = [each for each in read if each is not None]
        self.ended += found
        return found

    def spans(self) -> list[Span]:
        """What has ended since the last call."""
        return [span for ended in self.read() for span in spans(ended)]
