"""A simulated agent: its heartbeats, claims and reports are the real ones, its jobs are not."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from botocore.exceptions import BotoCoreError, ClientError

from ec2_agent.attempt import Attempt
from ec2_agent.claiming import Claimer, Stores
from ec2_agent.decisions import Verdicted, of_blocking, of_told
from ec2_agent.finished import End, finish
from ec2_agent.flight import Flight, Held
from ec2_agent.lease import MARGIN_S
from ec2_agent.report import Report, Tools, letter_of
from ec2_agent.sandbox import Ending, Usage
from joblane.aws.agents import LEASE_S, AgentRow, AgentStore
from joblane.aws.jobs import JobStore
from joblane.aws.lanes import VISIBILITY_S, LaneQueue
from joblane.aws.requirements import Blocking
from joblane.conditions import scoped
from joblane.head import Head
from joblane.lifecycle import Outcome
from joblane.message import decode_command
from joblane.names import LANES, inbox_name
from tests.support.agents import DirectStore, Prompt, settings
from tests.support.aws import DESCRIPTOR, NAME, PREFIX
from tests.support.recovery import store

if TYPE_CHECKING:
    from tests.support.world import World

ENDING = Ending(
    exit_code=0,
    signal=None,
    timed_out=False,
    oom_killed=False,
    stopped=False,
    error=None,
    usage=Usage(cpu_s=0.1, wall_s=0.1),
)

TROUBLE = (ClientError, BotoCoreError)

THREADS = 4


@dataclass(eq=False)
class Running:
    """A job's process on a simulated host."""

    attempt: Attempt
    held: Held
    ends_at: float
    verdict: Verdicted


@dataclass(eq=False)
class SimAgent:
    """One host with an agent."""

    world: "World"
    name: str
    skew_s: float
    running: list[Running] = field(default_factory=list)
    alive: bool = True
    cut_off: bool = False
    renewed: float = 0.0

    def __post_init__(self) -> None:
        self.inbox_url = PREFIX + inbox_name(NAME, self.name)
        self.world.queues.make(self.inbox_url)
        clients = self.world.clients(lambda: self.cut_off)
        dynamodb, self._sqs = clients.make("dynamodb"), clients.make("sqs")
        self._jobs = JobStore(dynamodb, DESCRIPTOR.jobs_table)
        self._agents = AgentStore(dynamodb, DESCRIPTOR.agents_table)
        conditions = store(clients)
        self._flight = Flight(self.clock)
        self.since_ms = self.now_ms()
        self._claimer = Claimer(
            settings(self.name),
            Stores(self._jobs, self._agents, conditions),
            self._flight,
            self.clock,
        )
        report = Report(self._jobs, conditions, self._flight, lambda url: LaneQueue(self._sqs, url))
        self._tools = Tools(
            jobs=self._jobs,
            payloads=cast("Any", None),
            logs=cast("Any", None),
            conditions=conditions,
            requirements=None,
            launcher=cast("Any", None),
            keep=cast("Any", None),
            secrets=cast("Any", None),
            flight=self._flight,
            journal=Prompt(DirectStore(), report, self.clock),
            retention=DESCRIPTOR.retention,
            clock=self.clock,
            dice=self.world.dice,
        )

    def clock(self) -> float:
        """Unix seconds as this host believes."""
        return self.world.clock.now + self.skew_s

    def now_ms(self) -> int:
        """Unix milliseconds as this host believes."""
        return int(self.clock() * 1000)

    @property
    def holds_lease(self) -> bool:
        """Whether it may still believe that its jobs are its own."""
        return self.world.clock.now - self.renewed < LEASE_S - MARGIN_S

    def beat(self) -> None:
        """Renew the lease, or give it up in time; `Lease` without its sleeping."""
        sent = self.world.clock.now
        row = AgentRow(
            name=self.name,
            since_ms=self.since_ms,
            beat_ms=self.now_ms(),
            threads=THREADS,
            running=len(self.running),
            queues=("default",),
            isolation="full",
            version="1",
            jobs=tuple(job.attempt.head.job_id for job in self.running),
        )
        try:
            self._agents.beat(row)
            self.renewed = sent
        except TROUBLE:
            if not self.holds_lease:
                self.running.clear()

    def take(self) -> None:
        """Receive a message from some lane, and claim what it names."""
        if self.cut_off or not self.holds_lease or len(self.running) >= THREADS:
            return
        name = self.world.dice.choice(LANES)
        lane = LaneQueue(self._sqs, DESCRIPTOR.lane_url("default", name))
        dead = LaneQueue(self._sqs, DESCRIPTOR.dead_letter_url("default", name))
        try:
            for received in lane.receive(1, 0):
                held = Held(lane, dead, "default", received, self.clock())
                head = asyncio.run(self._claimer.claim(held))
                if head is not None:
                    self._start(head, held)
        except TROUBLE:
            return

    def _start(self, head: Head, held: Held) -> None:
        """Run what was claimed, unless something that it requires is not there."""
        world = self.world
        job = Running(Attempt(self._tools, head, held), held, 0, self._verdict(head))
        self.running.append(job)
        blocking = self._obstacle(head)
        if blocking is not None:
            job.verdict = of_blocking(blocking)
            self.finish(job, job.verdict, started=False)
            return
        job.ends_at = world.clock.now + world.dice.uniform(0, 400)
        world.started(head.job_id, self)

    def _obstacle(self, head: Head) -> Blocking | None:
        requires = [scoped(name, head.tenant) for name in head.spec.requires]
        if not requires:
            return None
        try:
            found = self.world.recovery({"do": "check", "conditions": requires})
        except TROUBLE:
            return Blocking(requires[0], "could not be tested", hopeless=False)
        if found["blocking"] is None:
            return None
        return Blocking(found["blocking"], found["why"], found["hopeless"])

    def _verdict(self, head: Head) -> Verdicted:
        """How its process is going to end."""
        outcome = self.world.dice.choice(
            [Outcome.SUCCEEDED, Outcome.SUCCEEDED, Outcome.FAILED, Outcome.PERMANENT]
            + ([Outcome.BLOCKED] if self.world.troubled else [])
        )
        if outcome is not Outcome.BLOCKED:
            return Verdicted(outcome, outcome.value)
        condition = scoped((*head.spec.requires, "app:default")[0], head.tenant)
        return Verdicted(outcome, "exit 75", condition)

    def finish(self, job: Running, verdict: Verdicted, *, started: bool = True) -> None:
        """Report a job's end; while cut off, it waits."""
        if self.cut_off:
            return
        self.running.remove(job)
        tools = self._tools
        end = End(verdict, ENDING if started else None, 0, tools.now_ms())
        letter = letter_of(job.held)
        finished = finish(job.attempt.head, letter, end, tools.retention, tools.dice)
        asyncio.run(tools.journal.put(finished))

    def finish_due(self) -> None:
        """Report the jobs whose time is over."""
        for job in list(self.running):
            if job in self.running and job.ends_at <= self.world.clock.now:
                self.finish(job, job.verdict)

    def listen(self) -> None:
        """Do what the inbox says."""
        inbox = LaneQueue(self._sqs, self.inbox_url)
        with suppress(*TROUBLE):
            for received in inbox.receive(10, 0):
                told = decode_command(received.body).job_id
                for job in [j for j in self.running if j.attempt.head.job_id == told]:
                    self.finish(job, of_told(job.attempt.head, self.now_ms(), "ended"))
                inbox.delete(received.receipt)

    def work(self) -> None:
        """Do what is due, but for the lease."""
        self.listen()
        self.finish_due()
        if self.alive:
            self.take()

    def extend(self) -> None:
        """Keep messages invisible."""
        for job in self.running:
            with suppress(*TROUBLE):
                job.held.lane.hide(job.held.received.receipt, VISIBILITY_S)

    def leave(self) -> None:
        """Drain: hand everything back, say goodbye, go."""
        for job in list(self.running):
            self.finish(job, Verdicted(Outcome.INTERRUPTED, "leaving"))
        if not self.running:
            with suppress(*TROUBLE):
                self._agents.goodbye(self.name)
            self.alive = False

    def die(self) -> None:
        """SIGKILL: its jobs die with it (`ec2_agent/sandbox/slot.py`)."""
        self.running.clear()
        self.alive = False
