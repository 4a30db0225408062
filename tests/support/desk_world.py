"""An agent's desk over AWS in memory: its jobs only wait for their end."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from ec2_agent.agent import Agent
from ec2_agent.core import Clocks
from ec2_agent.messages.delivery import Delivery
from ec2_agent.presence.inbox import Inbox
from ec2_agent.serving import slots
from ec2_agent.serving.disk import Disk
from joblane.aws.queue.lanes import LaneQueue, Received
from joblane.contract.job import job_view
from joblane.deployment.names import inbox_name
from joblane.formats.ids import nth_id
from joblane.job.head import Head, make_head
from joblane.job.judge import StopReason
from joblane.job.message import Command, Message
from joblane.job.spec import DEFAULT_MEMORY_MB
from joblane.queue.tenant_shares import Allowance
from joblane.service.job.wake_up import wake_up_message
from joblane.state.lease import Progress
from tests.support import inline_calls
from tests.support.agents import settings
from tests.support.aws import DESCRIPTOR, NAME
from tests.support.jobs import JOB, submission
from tests.support.memory import Memory
from tests.support.meter import Meter
from tests.support.serving import ServingCore

if TYPE_CHECKING:
    from ec2_agent.compose import Parts as AgentParts

THREADS = 2
MEMORY_MB = 8 * DEFAULT_MEMORY_MB

LARGE_MB = MEMORY_MB - DEFAULT_MEMORY_MB
LARGE: dict[str, Any] = {"resources": {"memory_mb": LARGE_MB}}
"""Runs beside one small job, and not beside one of the next kind."""

HALF: dict[str, Any] = {"resources": {"memory_mb": MEMORY_MB // 2}}


class HeldJobs:
    """Runs jobs until a test ends them."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}
        self.core: ServingCore | None = None

    async def run(self, head: Head, delivery: Delivery) -> None:
        """See Runner."""
        self.started.append(head.job_id)
        self.ends[head.job_id] = asyncio.Event()
        await self.ends[head.job_id].wait()
        assert self.core is not None
        await self.core.flight.delete(delivery)


class Recording(Agent):
    """An agent whose jobs run until they are ended, without a sandbox."""

    def __init__(self, core: ServingCore, jobs: HeldJobs, world: "World") -> None:
        self.core, self.jobs, self.world = core, jobs, world
        jobs.core = core
        inbox = Inbox(world.aws.clients.make("sqs"), inbox_name(NAME, "agent-1"), world.clocks.unix)
        parts: Any = core
        parts.inbox, parts.scale_in = inbox, None
        parts.host = SimpleNamespace(clock=world.clocks.unix)
        super().__init__(cast("AgentParts", parts), lambda: None)
        self.desk, self.flight, self.standing = core.desk, core.flight, core.standing

    @property
    def started(self) -> list[str]:
        """Ids of the jobs that were started."""
        return self.jobs.started

    def job(self, received: Received) -> None:
        """Take a message from the inbox."""
        self._on_job(self.world.inbox.url, received)

    def lane(self, received: Received, queue: str = "default") -> bool:
        """Take a message of a lane."""
        return self.desk.receive(self.world.delivery(received, queue))

    def command(self, command: Any) -> None:
        """Act on a command."""
        self._on_command(Command(command=command))

    def end(self, *received: Received) -> None:
        """End jobs."""
        for each in received:
            self.jobs.ends[job_of(each)].set()

    async def freed(self) -> None:
        """Serve what waits, once slots have become free."""
        await soon()
        self.desk.serve()
        await soon()

    async def finish(self) -> None:
        """End what runs."""
        await soon()
        for end in self.jobs.ends.values():
            end.set()
        await asyncio.wait_for(self.desk.tasks.done(), 5)


def job_of(received: Received) -> str:
    """The job that a message names."""
    return Message.decode(received.body).job_id


async def soon() -> None:
    """Let tasks go on, and calls in threads end."""
    for _ in range(5):
        await asyncio.sleep(0)


START = 1_800_000_000.0


def virtual_s() -> float:
    """Seconds of virtual time; 0 before its loop runs."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return 0.0


def virtual_unix_s() -> float:
    """The same as a clock that starts at a date."""
    return START + virtual_s()


class World:
    """An agent with two slots, its inbox and a lane, in virtual time."""

    def __init__(self, directory: Path) -> None:
        self.aws = Memory(virtual_unix_s, polite=True).cloud()
        self.meter = Meter()
        self.clocks = Clocks(virtual_unix_s, virtual_s, virtual_s)
        self.sent = 0
        sqs = self.aws.clients.make("sqs")
        url = sqs.create_queue(QueueName=inbox_name(NAME, "agent-1"))["QueueUrl"]
        self.inbox = LaneQueue(sqs, url)
        self.lane = LaneQueue(sqs, DESCRIPTOR.lane_url("default", "default"))
        self.shares: dict[str, int] = {}
        """Of tenants; others may run as much as they like."""
        self.directory = directory
        self.agent = self.start()

    def start(
        self,
        memory_mb: int = MEMORY_MB,
        most_mb: int | None = None,
        disk: Disk | None = None,
        threads: int = THREADS,
    ) -> Recording:
        """Make the parts of a process of the agent."""
        own = replace(settings(), threads=threads, directory=self.directory, max_memory_mb=most_mb)
        jobs, metered = HeldJobs(), self.meter.clients_of(self.aws)
        core = ServingCore(
            own,
            metered,
            jobs,
            clocks=self.clocks,
            memory_mb=memory_mb,
            agents=self.aws.agents,
            disk=disk,
        )
        asyncio.run(core.limits.begin())
        core.limits.of_tenant = lambda tenant: Allowance(  # type: ignore[method-assign]
            5, self.shares.get(tenant, 1000)
        )
        self.meter.write_units = 0
        return Recording(core, jobs, self)

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        """Let a story happen beside the loops that keep what the agent has."""
        agent = self.agent

        async def work() -> None:
            disk = agent.core.slots.disk.keep(agent.desk.serve)
            kept = [agent.desk.keep(), agent.core.lease.keep(), agent.flight.keep(), disk]
            loops = [asyncio.create_task(loop) for loop in kept]
            await soon()
            await story
            for loop in loops:
                assert not loop.done(), loop.result()
                loop.cancel()

        inline_calls.run(work())

    @property
    def memory(self) -> slots.Memory:
        """What memory the agent has."""
        return self.agent.core.slots.memory

    def send(
        self, tenant: str = "acme", queue: str = "default", files_mb: int = 0, **fields: Any
    ) -> Received:
        """Submit a job for this agent alone, and receive its message from the inbox."""
        head = make_head(self._id(), tenant, submission(queue=queue, **fields), 1000)
        head = replace(head, files_mb=files_mb)
        self.aws.jobs.put_new(replace(head, assigned="agent-1"))
        self.inbox.send(replace_queue(wake_up_message(head), queue))
        (received,) = self.inbox.receive(1, 0)
        return received

    def send_by_lane(
        self, tenant: str = "acme", receives: int | None = None, files_mb: int = 0, **fields: Any
    ) -> Received:
        """Submit a job to the lane, and receive its message, as if for the `receives`th time."""
        head = make_head(self._id(), tenant, submission(**fields), 1000)
        head = replace(head, files_mb=files_mb)
        self.aws.jobs.put_new(head)
        self.lane.send(wake_up_message(head))
        return self.receive(receives)

    def receive(self, receives: int | None = None) -> Received:
        """Receive the message of the lane that is there."""
        (received,) = self.lane.receive(1, 0)
        return received if receives is None else replace(received, receives=receives)

    def delivery(self, received: Received, queue: str = "default") -> Delivery:
        """A message of the lane, as a poll passes it on."""
        url = self.lane.url
        return Delivery(queue, url, DESCRIPTOR.dead_letter_url, received, self.clocks.unix())

    def _id(self) -> str:
        self.sent += 1
        return nth_id(JOB, self.sent)

    def reason(self, received: Received) -> str:
        """What `joblane get` shows."""
        return job_view(self.head(received)).reason

    def head(self, received: Received) -> Head:
        """The job of a message."""
        return self.aws.job(job_of(received))

    @property
    def in_lane(self) -> tuple[int, int]:
        """Messages of the lane that are visible, and in flight."""
        lengths = self.lane.lengths()
        return lengths.visible, lengths.in_flight

    @property
    def in_inbox(self) -> tuple[int, int]:
        """Messages of the inbox that are visible, and in flight."""
        lengths = self.inbox.lengths()
        return lengths.visible, lengths.in_flight


def replace_queue(message: Message, queue: str) -> Message:
    """The message as an inbox has it, which names the queue."""
    return message.model_copy(update={"queue": queue})


@dataclass(eq=False)
class NotedAttempt:
    """An attempt that notes what it is asked to do."""

    head: Head
    started: bool = False
    stopped: StopReason | None = None
    abandoned: bool = False
    until: float = 0.0
    progress: Progress | None = None
    processes: None = None

    def request_stop(self, reason: StopReason) -> None:
        """Note it."""
        self.stopped = reason

    def follow(self) -> None:
        """Not asked for here."""
        raise AssertionError

    def abandon(self) -> None:
        """Note it."""
        self.abandoned = True

    def renew(self, until: float) -> None:
        """Note it."""
        self.until = until


async def fill(world: World, **fields: Any) -> list[Received]:
    """Run a job in each slot."""
    running = [world.send_by_lane(**fields) for _ in range(THREADS)]
    assert [True] * THREADS == [world.agent.lane(each) for each in running]
    await soon()
    assert list(map(job_of, running)) == world.agent.started
    return running


def shorten_jobs(world: World) -> None:
    """Let the agent receive one message ahead of a slot, as one whose jobs are short."""
    for _ in range(10):
        world.agent.core.offers.prefetch.count_freed("default")
