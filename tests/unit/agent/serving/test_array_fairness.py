"""An array of one tenant on a busy agent that receives ahead: others' jobs, and its own urgent one.

SQS is stood in for by lanes that serve the message groups in turn, as fair queues do.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from ec2_agent.lanes.polling import MOST_A_FETCH
from joblane.aws.queue.lanes import LaneQueue, Received
from joblane.formats.ids import nth_id
from joblane.group.array import Indices
from joblane.group.record import Group
from joblane.job.head import Head, make_head
from joblane.job.member import member_job
from joblane.service.job.wake_up import wake_up_message
from tests.support.aws import DESCRIPTOR
from tests.support.desk_world import THREADS, World, job_of, virtual_s
from tests.support.jobs import JOB, submission

JOB_S = 0.02
"""How long each job runs."""

ANSWER_S = 0.005
"""How long SQS takes to answer."""

DEFAULT, HIGH = (DESCRIPTOR.lane_url("default", lane) for lane in ("default", "high"))


@dataclass
class FairLane:
    """A lane in memory whose tenants are served in turn; what is given back comes again."""

    queue: LaneQueue
    tenants: Mapping[str, str]
    """By the ids of jobs."""
    groups: dict[str, deque[Received]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """See `QueueCalls`."""
        return self.queue.url

    async def receive(self, most: int, wait_s: int) -> list[Received]:
        """See `QueueCalls`."""
        until = virtual_s() + wait_s
        while not self._has_some() and virtual_s() < until:
            await asyncio.sleep(ANSWER_S)
        await asyncio.sleep(ANSWER_S)
        found: list[Received] = []
        while len(found) < most and self._has_some():
            tenant, waiting = next(iter(self.groups.items()))
            self.groups[tenant] = self.groups.pop(tenant)  # the others are before it now
            found += [waiting.popleft()] if waiting else []
        return found

    def _has_some(self) -> bool:
        while received := self.queue.receive(MOST_A_FETCH, 0):
            for each in received:
                self.groups.setdefault(self.tenants[job_of(each)], deque()).append(each)
        return any(self.groups.values())


@dataclass
class Site:
    """An agent whose jobs are short, its lanes, and what is sent to them."""

    world: World
    lanes: dict[str, FairLane] = field(default_factory=dict)
    tenants: dict[str, str] = field(default_factory=dict)
    """By the ids of jobs."""
    ahead: int = 0
    """Most messages that waited for a slot at once."""

    def at(self, url: str) -> FairLane:
        """The lane of a URL."""
        if url not in self.lanes:
            queue = LaneQueue(self.world.aws.clients.make("sqs"), url)
            self.lanes[url] = FairLane(queue, self.tenants)
        return self.lanes[url]

    def send_array(self, tenant: str, first: str, size: int) -> None:
        """The members of an array get their messages."""
        group = Group(size, nth_id(first, 1), begun=size, array=Indices())
        parent = make_head(first, tenant, submission(array={"size": size}), 1000)
        parent = replace(parent, group=group)
        numbers = range(size)
        self.send(DEFAULT, [member_job(parent, n, None, 1000, inline=True) for n in numbers])

    def send(self, url: str, jobs: list[Head]) -> None:
        """Jobs come into a lane."""
        for job in jobs:
            self.tenants[job.job_id] = job.tenant
            self.world.aws.jobs.put_new(job)
            self.at(url).queue.send(wake_up_message(job))

    async def work(self, for_s: float) -> None:
        """The agent polls, and its jobs end one after the other."""
        ends, room = self.world.agent.jobs.ends, self.world.agent.desk.room
        until = virtual_s() + for_s
        while virtual_s() < until:
            await asyncio.sleep(JOB_S / THREADS)
            self.ahead = max(self.ahead, room.ahead_of("default"))
            for end in [end for end in ends.values() if not end.is_set()][:1]:
                end.set()

    @property
    def started(self) -> list[str]:
        """Tenants of the jobs in the order of their starts."""
        return [self.tenants[job_id] for job_id in self.world.agent.started]


@pytest.mark.deep
def test_an_array_holds_up_neither_another_tenant_nor_an_urgent_job(world: World):
    async def story() -> None:
        site = Site(world)
        intake = world.agent.core.intake
        intake.queue_at = site.at  # type: ignore[assignment]
        site.send_array("acme", nth_id(JOB, 1_000), 200)
        polls = asyncio.create_task(intake.run(world.agent.desk))
        await site.work(1.0)
        before = len(site.started)
        assert before > 50
        assert 0 < site.ahead <= MOST_A_FETCH, "as many as start within a tenth of a second"
        waits = site.ahead + THREADS  # what was received before

        site.send_array("other", nth_id(JOB, 2_000), 20)
        urgent = make_head(nth_id(JOB, 3_000), "acme", submission(priority="high"), 1000)
        site.send(HIGH, [urgent])
        await site.work(0.6)
        order = site.started[before:]
        others = [number for number, tenant in enumerate(order) if tenant == "other"]
        assert 20 == len(others)
        assert all(at <= 2 * (number + 1) + waits for number, at in enumerate(others)), others
        assert world.agent.started.index(urgent.job_id) - before <= waits
        assert len(site.started) == len({*world.agent.started})
        polls.cancel()
        await world.agent.finish()

    world.run(story())
