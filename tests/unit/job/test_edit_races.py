"""Edits, claims, cancels and takeovers in any order, with every message that was ever sent."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from functions.submission.handler import Settings, build
from joblane.aws.job.jobs import Refused
from joblane.deployment.names import LANES
from joblane.job.edit import patched
from joblane.job.head import Head, make_head
from joblane.job.message import Message
from joblane.job.moves import AttemptFacts
from joblane.service.job.wake_up import wake_up_message
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import QUEUES, Cloud, configure
from tests.support.depth import budget
from tests.support.jobs import JOB, submission
from tests.support.memory import Memory
from tests.support.requests import Api

PATH = f"/v1/jobs/{JOB}"

AGENTS = {"agent-1": "default", "agent-2": "bulk"}
"""The queue that each agent's fleet serves."""

places = st.fixed_dictionaries(
    {}, optional={"queue": st.sampled_from(QUEUES), "priority": st.sampled_from(LANES)}
)
memory = st.sampled_from([None, 64, 1024]).map(lambda mb: {"resources": {"memory_mb": mb}})
steps = st.one_of(
    st.tuples(st.just("edit"), st.one_of(places.filter(bool), memory)),
    st.tuples(st.just("claim"), st.integers(0, 5)),
    st.tuples(st.just("end"), st.sampled_from([State.RETRY, State.PENDING])),
    st.tuples(st.sampled_from(["take over", "cancel"]), st.none()),
)


@dataclass
class Race:
    """One job, two fleets, and all messages of the job that were ever sent, which SQS repeats."""

    aws: Cloud
    now_ms: int = 1_800_000_000_000
    messages: list[Message] = field(default_factory=list)
    held: Head | None = None
    """The job as its agent claimed it."""

    def __post_init__(self) -> None:
        self.api = Api(build(configure(Settings), self.aws.clients, lambda: self.now_ms / 1000))
        head = make_head(JOB, "acme", submission(), self.now_ms)
        self.messages.append(wake_up_message(head))
        self.aws.jobs.put_new(head)

    def do(self, what: str, how: Any) -> None:
        """Do one thing, a moment after the one before."""
        self.now_ms += 1000
        before = self.aws.job(JOB)
        match what:
            case "edit":
                self._edit(before, how)
            case "claim":
                self._claim(before, self.messages[how % len(self.messages)])
            case "end" if self.held is not None:
                step = Step(how, self.now_ms, self.held.attempt, "as the test wants")
                facts = AttemptFacts(Outcome.FAILED)
                self.held = self.aws.jobs.settle(self.held, step, facts)
                self.held = None
            case "take over" if self.held is not None:
                self.held = self.aws.jobs.take_over(self.held, "agent-3", self.now_ms)
            case "cancel" if self.held is None:
                self.api("POST", f"{PATH}/cancel")

    def _edit(self, before: Head, changes: dict[str, Any]) -> None:
        status, _ = self.api("PATCH", PATH, changes)
        after = self.aws.job(JOB)
        # One that changes nothing is taken in any state: it may be sent again by a client.
        changes_it = patched(before.spec, changes) != before.spec
        refused = changes_it and (before.ended or self.held is not None)
        assert status == (409 if refused else 200)
        assert after.edit - before.edit == (status == 200 and after.spec != before.spec)
        if after.edit > before.edit:
            self.messages.append(wake_up_message(after))

    def _claim(self, before: Head, message: Message) -> None:
        """The agent of the fleet that serves the message's lane receives it."""
        agent = next(name for name, queue in AGENTS.items() if queue == message.queue)
        try:
            claimed = self.aws.jobs.claim(message, agent, self.now_ms)
        except Refused:
            waits = before.state in {State.PENDING, State.RETRY}
            assert not waits or message != self.messages[-1], "its newest message is refused"
            return
        assert message == wake_up_message(before), "an outdated message has started it"
        assert self.held is None, "it runs twice"
        assert (message.queue, message.memory_mb) == (claimed.queue, claimed.spec.resources.memory)
        self.held = claimed


@settings(max_examples=budget(100, 1000))
@given(st.lists(steps, min_size=1, max_size=12))
def test_only_the_message_of_its_latest_edit_starts_a_job(todo: list[tuple[str, Any]]):
    race = Race(Memory().cloud())
    for what, how in todo:
        race.do(what, how)
    head = race.aws.job(JOB)
    if not head.ended and race.held is None:
        race.do("claim", len(race.messages) - 1)
        assert race.held is not None
