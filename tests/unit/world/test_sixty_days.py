"""Sixty days of waiting, in every way in which a job waits: none is dead, and none is lost.

The functions, the desk and `Flight` are the product's; SQS deletes messages after 14 days and
counts receives, S3 and DynamoDB delete objects and items when their days are over.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from ec2_agent.aws_calls.queues import Queues
from ec2_agent.core import Clocks
from ec2_agent.messages.delivery import Delivery
from ec2_agent.serving.waiting_room import FOREVER
from joblane.aws.queue.lanes import LaneQueue, read_body
from joblane.formats.times import rfc3339
from joblane.job.renewal import DAY_S
from joblane.queue.tenant_shares import Allowance
from joblane.state.lifecycle import State
from tests.support.agents import settings
from tests.support.aws import DESCRIPTOR
from tests.support.depth import budget, spread
from tests.support.renewal import HOUR_S, LANE, STEP_S, Calendar
from tests.support.serving import ServingCore

if TYPE_CHECKING:
    from ec2_agent.serving.desk import Runner

DAYS = 60
SERVED_DAYS = budget(40, 100)
"""Of which the last ones gain no message: one that was replaced ends after 28 days."""
MAX_RECEIVES = 1000
"""Of a lane (tests/infra/test_lanes.py); an inbox has no dead letters."""

AGENTS = ("web-1", "web-2")
KEY: dict[str, Any] = {"concurrency": {"key": ["k"], "max_queued": 1}}
TARGET: dict[str, Any] = {"reply_timeout_s": 86_400}


def soon_again(at: Calendar, job: str) -> str:
    """A job that has failed, and is to be tried again; its message is hidden until then."""
    at.end(job, State.RETRY, at.now_ms() + HOUR_S * 1000)
    return job


def ended(at: Calendar, job: str, state: State) -> str:
    at.end(job, state)
    return job


def long_ago(at: Calendar) -> str:
    """A job that is retried so late that its message is old: it has the one that it came with."""
    job = at.submit()
    at.clock.now += 8.9 * DAY_S
    at.beat(*AGENTS)
    return soon_again(at, job)


def member(at: Calendar, group: str, number: int = 0) -> str:
    found = at.aws.job(group).group
    assert found is not None
    return found.id_of(number)


def files_of(at: Calendar) -> dict[str, Any]:
    content = at.upload(b"content")
    return {"inputs": [{"path": "a", "sha256": content}], "stdin_file": at.upload(b"text")}


WAYS: dict[str, Callable[[Calendar], str]] = {
    "in backoff, with an old message": long_ago,
    "pending": lambda at: at.submit(),
    "in another lane": lambda at: at.submit(queue="bulk", priority="low"),
    "of another tenant": lambda at: at.submit("other"),
    "with files": lambda at: at.submit(**files_of(at)),
    "with a long submission": lambda at: at.submit(command=["a" * 5000]),
    "with a submission in S3": lambda at: at.submit(command=["a", *["x" * 100_000] * 3]),
    "scheduled": lambda at: at.submit(run_at=rfc3339(at.now_ms() + 20 * DAY_S * 1000)),
    "soon": lambda at: at.submit(run_at=rfc3339(at.now_ms() + 600_000)),
    "with a slot of its key": lambda at: at.submit(**KEY),
    "in backoff": lambda at: soon_again(at, at.submit()),
    "its agent died": lambda at: at.claim(at.submit()).job_id,
    "blocked, and not on the list": lambda at: ended(at, at.submit(), State.BLOCKED),
    "targeted": lambda at: soon_again(at, at.submit(target="host:web-1", **TARGET)),
    "a member": lambda at: soon_again(at, member(at, at.submit(target="_all", **TARGET))),
}


def everything(at: Calendar, jobs: dict[str, str]) -> None:
    """Each job has a message that could be received, or is still to get one."""
    messages = at.messages()
    for way, job in jobs.items():
        head = at.aws.job(job)
        assert not head.ended, (way, head.reason)
        waits = head.state in (State.SCHEDULED, State.WAITING)
        assert waits or messages.get(job), f"{way}: {head.state} without a message"


def live(at: Calendar, days: float, jobs: dict[str, str]) -> None:
    """Let days pass; only agents of targeted jobs beat, and nobody receives a message."""
    end = at.clock.now + days * DAY_S
    function = at.function()
    while at.clock.now < end:
        at.clock.now += STEP_S
        at.beat(*AGENTS)
        at.expire()
        function.run(lambda: 60.0)
        everything(at, jobs)


def test_nobody_receives_a_message_for_sixty_days():
    """As of a paused queue, or without agents of lanes."""
    at = Calendar()
    at.beat(*AGENTS)
    jobs = {way: make(at) for way, make in WAYS.items()}
    queued = at.submit(**KEY)
    live(at, DAYS, {**jobs, "waits for its key": queued})
    before = {way: at.aws.job(job) for way, job in jobs.items()}
    assert State.PENDING is before["scheduled"].state
    ages = at.messages()
    print({way: [round(age, 1) for age in ages.get(job, ())] for way, job in jobs.items()})
    assert max(len(ages[job]) for job in jobs.values()) <= 2
    start_all(at, jobs)
    text = at.aws.job(jobs["with a long submission"]).spec.command
    assert ("a" * 5000,) == text
    digests = at.aws.job(jobs["with files"]).spec
    find_file = at.aws.clients.make("s3").head_object
    for digest in (digests.stdin_file, digests.inputs[0].sha256):
        assert find_file(Bucket=DESCRIPTOR.bucket, Key=f"files/acme/{digest}")
    payload = at.aws.job(jobs["with a submission in S3"]).payload
    assert payload is not None
    assert find_file(Bucket=DESCRIPTOR.bucket, Key=payload.object)


def start_all(at: Calendar, jobs: dict[str, str]) -> None:
    """Agents come, receive what there is, and can claim each job by its message."""
    queues = at.memory.queues
    messages = [
        read_body(entry.body) for url in queues.entries for entry in queues.of(url).values()
    ]
    by_job = {message.job_id: message for message in messages}
    for way, job in jobs.items():
        head = at.aws.job(job)
        if head.state in (State.PENDING, State.RETRY):
            claimed = at.aws.jobs.claim(by_job[job], head.assigned or "agent-2", at.now_ms())
            assert State.ACTIVE is claimed.state, way
        else:
            assert head.state in (State.ACTIVE, State.BLOCKED), way
            assert job in by_job


@pytest.mark.parametrize("way", sorted(WAYS.keys() - {"scheduled"}))
def test_without_the_pass_a_job_is_lost(way: str, monkeypatch: pytest.MonkeyPatch):
    """So this test would see it."""
    at = Calendar()
    at.beat(*AGENTS)
    job = WAYS[way](at)
    function = at.function
    monkeypatch.setattr(
        at, "function", lambda: replace(function(), renew=lambda _left: cast("Any", {}))
    )
    with pytest.raises(AssertionError, match=r"without a message"):
        live(at, 15, {way: job})
    assert at.aws.job(job).state not in (State.DEAD, State.FAILED)


# --- agents that receive messages, and cannot start their jobs


class Agent(ServingCore):
    """An agent that runs no job, over the lanes of a deployment."""

    def __init__(self, at: Calendar, directory: Path) -> None:
        self.at = at
        sqs = at.aws.clients.make("sqs")
        super().__init__(
            replace(settings(), directory=directory),
            at.aws.clients,
            cast("Runner", None),
            clocks=Clocks(at.clock, at.clock, at.clock),
            memory_mb=1280,
            queue_at=Queues(sqs).at,
        )
        self.lane = LaneQueue(sqs, LANE)

    async def serve(self) -> None:
        """Receive what is visible, and let it wait here for as long as it may; in no time."""
        for received in self.lane.receive(10, 0):
            assert received.receives <= MAX_RECEIVES, "SQS moves it to the dead letters"
            self.desk.receive(Delivery("default", LANE, LANE, received, self.at.clock.now))
        await self.desk.tasks.done()
        for waiting in tuple(self.desk.room.in_order()):
            assert waiting.look_at < FOREVER, "it is held for ever"
            waiting.since -= HOUR_S
        self.desk.look()
        await self.desk.tasks.done()


def lacks_a_limit(agent: Agent, job: str) -> None:
    agent.lacking.remember(job)


def has_no_share(agent: Agent, _job: str) -> None:
    agent.limits.of_tenant = lambda _: Allowance(1, 0)  # type: ignore[method-assign, assignment]


def is_too_large(agent: Agent, _job: str) -> None:
    agent.slots.memory.most_mb = 256


@pytest.mark.parametrize("way", spread([has_no_share, lacks_a_limit, is_too_large], 1))
def test_agents_receive_messages_for_weeks_and_start_no_job(
    tmp_path: Path, way: Callable[[Agent, str], None]
):
    """Each hour: the job has a message, and not one more with every renewal."""
    at = Calendar()
    job = at.submit()
    agent = Agent(at, tmp_path)
    way(agent, job)
    function, most = at.function(), 0

    async def live() -> None:
        nonlocal most
        await agent.limits.begin()
        for hour in range(SERVED_DAYS * 24):
            at.clock.now += HOUR_S
            await agent.serve()
            if hour % 24 == 0:
                function.renew(lambda: 60.0)
            ages = at.messages().get(job, [])
            assert ages, f"day {hour / 24}: no message"
            most = max(most, len(ages))

    asyncio.run(live())
    assert 2 <= most <= 5
    assert State.PENDING is at.aws.job(job).state
