"""A small world: a simulated clock, lanes that misbehave as SQS may, agents that die and drift.

The table is moto's, the code that claims and settles is the agent's own; only time, the network
and the jobs' processes are simulated.
"""

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, cast

from botocore.exceptions import ClientError, ReadTimeoutError

from ec2_agent.attempt import Attempt
from ec2_agent.claiming import Claimer, Stores
from ec2_agent.decisions import Verdicted
from ec2_agent.flight import Flight, Held
from ec2_agent.lease import MARGIN_S
from ec2_agent.report import Report, Tools
from ec2_agent.sandbox import Ending, Usage
from joblane.aws.agents import HEARTBEAT_S, LEASE_S, AgentRow, AgentStore
from joblane.aws.clients import Clients
from joblane.aws.jobs import JobStore
from joblane.aws.lanes import VISIBILITY_S, LaneQueue, Received
from joblane.lifecycle import Outcome
from joblane.message import Message
from tests.support.agents import settings
from tests.support.aws import DESCRIPTOR, Cloud, new_session

_ENDING = Ending(
    exit_code=0,
    signal=None,
    timed_out=False,
    oom_killed=False,
    stopped=False,
    error=None,
    usage=Usage(cpu_s=0.1, wall_s=0.1),
)

SKEW_S = 5.0
"""Clocks of two hosts differ by this much at most."""


class Faults:
    """Whether a call fails now, and how: before it was made, or after, the answer lost."""

    def __init__(self, dice: random.Random, share: float) -> None:
        self.dice = dice
        self.share = share

    def refuse(self, **_: Any) -> None:
        """Fail before the call is made."""
        if self.dice.random() < self.share:
            raise ClientError({"Error": {"Code": "ThrottlingException"}}, "Any")

    def lose_answer(self, **_: Any) -> None:
        """Fail after the call was made."""
        if self.dice.random() < self.share:
            raise ReadTimeoutError(endpoint_url="https://aws.test")


@dataclass
class _Entry:
    body: str
    sent: float
    visible_at: float
    receives: int = 0
    receipt: str = ""


class Lane:
    """A lane as SQS promises it and no better: late, twice, out of order."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.entries: dict[int, _Entry] = {}
        self._ids = count()

    def send(self, message: Message) -> None:
        """Send; it shows within a second."""
        now = self._world.now
        late = self._world.dice.uniform(0, 1)
        self.entries[next(self._ids)] = _Entry(message.encode(), now, now + late)

    def receive_one(self) -> Received | None:
        """Hand out any visible message, now and then without hiding it."""
        self._world.faults.refuse()
        now = self._world.now
        visible = [key for key, entry in self.entries.items() if entry.visible_at <= now]
        if not visible:
            return None
        key = self._world.dice.choice(visible)
        entry = self.entries[key]
        entry.receives += 1
        entry.receipt = f"{key}/{entry.receives}"
        if self._world.dice.random() > self._world.faults.share:
            entry.visible_at = now + VISIBILITY_S
        return Received(entry.body, entry.receipt, entry.receives, int(entry.sent * 1000))

    def delete(self, receipt: str) -> None:
        """Delete, by the latest receipt or an older one."""
        self._world.faults.refuse()
        self.entries.pop(int(receipt.partition("/")[0]), None)

    def hide(self, receipt: str, seconds: int) -> None:
        """Change visibility; an old receipt changes nothing."""
        self._world.faults.refuse()
        entry = self.entries.get(int(receipt.partition("/")[0]))
        if entry is not None and entry.receipt == receipt:
            entry.visible_at = self._world.now + seconds


@dataclass(eq=False)
class Running:
    """A job's process on a simulated host."""

    attempt: Attempt
    held: Held
    ends_at: float
    outcome: Outcome


@dataclass(eq=False)
class SimAgent:
    """An agent whose heartbeats, claims and reports are real, and whose jobs are not."""

    world: "World"
    name: str
    skew_s: float
    running: list[Running] = field(default_factory=list)
    alive: bool = True
    cut_off: bool = False
    renewed: float = 0.0

    def __post_init__(self) -> None:
        session = new_session()
        events = session.get_component("event_emitter")
        events.register("before-call", self._refuse)
        events.register("after-call", self._lose_answer)
        dynamodb = Clients(session).make("dynamodb")
        self._jobs = JobStore(dynamodb, DESCRIPTOR.jobs_table)
        self._agents = AgentStore(dynamodb, DESCRIPTOR.agents_table)
        self._flight = Flight(lambda: self.now_ms() / 1000)
        self.since_ms = self.now_ms()
        self._claimer = Claimer(
            settings(self.name),
            Stores(self._jobs, self._agents, None),
            self._flight,
            self.clock,
        )
        self._tools = Tools(
            jobs=self._jobs,
            payloads=cast("Any", None),
            logs=cast("Any", None),
            conditions=None,
            requirements=None,
            launcher=cast("Any", None),
            secrets=cast("Any", None),
            flight=self._flight,
            retention=DESCRIPTOR.retention,
            clock=self.clock,
            dice=self.world.dice,
        )

    def _refuse(self, **_: Any) -> None:
        if self.cut_off:
            raise ReadTimeoutError(endpoint_url="https://aws.test")
        self.world.faults.refuse()

    def _lose_answer(self, **_: Any) -> None:
        self.world.faults.lose_answer()

    def clock(self) -> float:
        """Unix seconds as this host believes."""
        return self.world.now + self.skew_s

    def now_ms(self) -> int:
        """Unix milliseconds as this host believes."""
        return int(self.clock() * 1000)

    def beat(self) -> None:
        """Renew the lease, or give it up in time; `Lease` without its sleeping."""
        sent = self.world.now
        row = AgentRow(
            name=self.name,
            since_ms=self.since_ms,
            beat_ms=self.now_ms(),
            threads=4,
            running=len(self.running),
            queues=("default",),
            isolation="full",
            version="1",
            jobs=tuple(job.attempt.head.job_id for job in self.running),
        )
        try:
            self._agents.beat(row)
            self.renewed = sent
        except (ClientError, ReadTimeoutError):
            if self.world.now - self.renewed >= LEASE_S - MARGIN_S:
                self.running.clear()

    def take(self) -> None:
        """Receive a message and claim what it names."""
        if self.cut_off or self.world.now - self.renewed >= LEASE_S - MARGIN_S:
            return
        try:
            received = self.world.lane.receive_one()
        except ClientError:
            return
        if received is None:
            return
        lane = cast("LaneQueue", self.world.lane)
        held = Held(lane, lane, "default", received, self.now_ms() / 1000)
        try:
            head = asyncio.run(self._claimer.claim(held))
        except (ClientError, ReadTimeoutError):
            return
        if head is not None:
            dice = self.world.dice
            ends = self.world.now + dice.uniform(0, 400)
            outcome = dice.choice([Outcome.SUCCEEDED, Outcome.FAILED, Outcome.PERMANENT])
            self.running.append(Running(Attempt(self._tools, head, held), held, ends, outcome))
            self.world.started(head.job_id, self)

    def finish(self, job: Running, verdict: Verdicted) -> None:
        """Report a job's end; while cut off, it waits."""
        if self.cut_off:
            return
        self.running.remove(job)
        report = Report(self._tools, job.attempt.head, job.held, lambda: False)
        asyncio.run(report.write(verdict, _ENDING, 0))

    def finish_due(self) -> None:
        """Report the jobs whose time is over, and keep the messages of the others hidden."""
        for job in list(self.running):
            if job.ends_at <= self.world.now:
                self.finish(job, Verdicted(job.outcome, job.outcome.value))

    def extend(self) -> None:
        """Keep messages invisible."""
        for job in self.running:
            try:
                job.held.lane.hide(job.held.received.receipt, VISIBILITY_S)
            except ClientError:
                continue

    def leave(self) -> None:
        """Drain: hand everything back, say goodbye, go."""
        for job in list(self.running):
            self.finish(job, Verdicted(Outcome.INTERRUPTED, "leaving"))
        if not self.running:
            with suppress(ClientError, ReadTimeoutError):
                self._agents.goodbye(self.name)
            self.alive = False

    def die(self) -> None:
        """SIGKILL: its jobs die with it (`ec2_agent/sandbox/slot.py`)."""
        self.running.clear()
        self.alive = False


class World:
    """Everything, and the check that no job runs twice at once."""

    def __init__(self, aws: Cloud, seed: int, share: float) -> None:
        self.dice = random.Random(seed)
        self.now = 1_800_000_000.0
        self.faults = Faults(self.dice, share)
        self.lane = Lane(self)
        self.jobs = aws.jobs
        self.agents: list[SimAgent] = []
        self.starts: dict[str, int] = {}

    def started(self, job_id: str, by: SimAgent) -> None:
        """Note a start; nobody else may be running the job."""
        self.starts[job_id] = self.starts.get(job_id, 0) + 1
        for agent in self.agents:
            others = [job for job in agent.running if job.attempt.head.job_id == job_id]
            assert not others or (agent is by and len(others) == 1), f"{job_id} runs twice"

    def join(self, name: str) -> None:
        """Let an agent start; it beats before it takes anything."""
        agent = SimAgent(self, name, self.dice.uniform(-SKEW_S / 2, SKEW_S / 2))
        agent.renewed = self.now - LEASE_S
        self.agents.append(agent)
        agent.beat()

    def tick(self, seconds: float) -> None:
        """Let time pass; every live agent does what is due."""
        self.now += seconds
        for agent in [a for a in self.agents if a.alive]:
            agent.beat()
            agent.finish_due()
            agent.extend()
            agent.take()
        self.agents = [a for a in self.agents if a.alive]


TICK_S = HEARTBEAT_S
