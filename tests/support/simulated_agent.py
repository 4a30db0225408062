"""A simulated agent: its heartbeats, claims and reports are the real ones, its jobs are not."""

from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ec2_agent.attempt import Attempt
from ec2_agent.claiming import Claimer, Stores
from ec2_agent.decisions import Verdicted, of_blocking, of_told
from ec2_agent.finished import End, Finished, Way, finish
from ec2_agent.flight import Flight, Held
from ec2_agent.journal import Undelivered
from ec2_agent.lease import lease_lost
from ec2_agent.report import Report, Tools, letter_of
from ec2_agent.sandbox import Ending, Usage
from joblane.aws.agents import AgentRow, AgentStore
from joblane.aws.jobs import JobStore
from joblane.aws.lanes import VISIBILITY_S, LaneQueue, Received
from joblane.aws.requirements import Blocking
from joblane.conditions import scoped
from joblane.head import Head
from joblane.lifecycle import Outcome
from joblane.message import decode_command
from joblane.names import LANES, inbox_name
from tests.support.agents import settings
from tests.support.aws import DESCRIPTOR, NAME, PREFIX
from tests.support.network import TROUBLE
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

THREADS = 4

LONGEST_S = 120
"""A simulated job runs so long at most."""

T = TypeVar("T")


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Run to its end what never waits: calls are made at once and sleeping takes no time here."""
    try:
        work.send(None)
    except StopIteration as end:
        return cast("T", end.value)
    raise AssertionError("it waits for something")


@dataclass(eq=False)
class Running:
    """A job's process on a simulated host."""

    attempt: Attempt
    held: Held
    ends_at: float
    verdict: Verdicted
    abandoned: bool = False


@dataclass(eq=False)
class Waiting:
    """An outcome in an agent's journal (`ec2_agent/journal.py`), which outlives the agent."""

    finished: Finished
    way: Way | None = None
    settled: bool = False
    in_hand: bool = False


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
        self._report = Report(
            self._jobs, conditions, self._flight, lambda url: LaneQueue(self._sqs, url)
        )
        self._journal = self.world.journals.setdefault(self.name, [])
        for entry in self._journal:
            entry.in_hand = False
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
            journal=cast("Any", None),
            room=cast("Any", None),
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
        return not lease_lost(self.renewed, self.world.clock.now)

    def beat(self) -> None:
        """Renew the lease, or give it up in time; `Lease` without its sleeping."""
        sent = self.world.clock.now
        if not self.holds_lease:
            self._abandon()
        jobs = (
            *self._claimer.claiming,
            *(job.attempt.head.job_id for job in self.running),
            *(entry.finished.head.job_id for entry in self._journal if not entry.settled),
        )
        row = AgentRow(
            name=self.name,
            since_ms=self.since_ms,
            beat_ms=self.now_ms(),
            threads=THREADS,
            running=len(jobs),
            queues=("default",),
            isolation="full",
            version="1",
            jobs=jobs,
        )
        try:
            self._agents.beat(row)
            self.renewed = max(sent, self.renewed)
        except TROUBLE:
            if not self.holds_lease:
                self._abandon()

    def _abandon(self) -> None:
        """Kill what runs, and say nothing."""
        for job in self.running:
            job.abandoned = True
        self.running.clear()

    def take(self) -> None:
        """Receive a message from some lane, and claim what it names."""
        if self.cut_off or not self.holds_lease or len(self.running) >= THREADS:
            return
        name = self.world.dice.choice(LANES)
        lane = LaneQueue(self._sqs, DESCRIPTOR.lane_url("default", name))
        with suppress(*TROUBLE):
            for received in lane.receive(1, 0):
                self._take(lane, received)

    def take_again(self) -> None:
        """Be handed the message that was handed out last, whoever holds it."""
        queues = self.world.queues
        last = queues.last
        if last is None or self.cut_off or not self.holds_lease or len(self.running) >= THREADS:
            return
        url, key = last
        if key in queues.entries[url] and "inbox" not in url:
            entry = queues.hand_out(url, key, self.world.clock.now + VISIBILITY_S)
            received = Received(entry.body, entry.receipt, entry.receives, int(entry.sent * 1000))
            with suppress(*TROUBLE):
                self._take(LaneQueue(self._sqs, url), received)

    def _take(self, lane: LaneQueue, received: Received) -> None:
        dead = LaneQueue(self._sqs, f"{lane.url}-dlq")
        held = Held(lane, dead, "default", received, self.clock())
        head = drive(self._claimer.claim(held))
        if head is not None and self.alive:
            self._start(head, held)

    def _start(self, head: Head, held: Held) -> None:
        """Run what was claimed, unless something that it requires is not there."""
        world = self.world
        if not self.holds_lease:
            return
        job = Running(Attempt(self._tools, head, held), held, 0, self._verdict(head))
        self.running.append(job)
        blocking = self._obstacle(head)
        if job.abandoned or not self.alive:
            return
        if blocking is not None:
            job.verdict = of_blocking(blocking)
            self.finish(job, job.verdict, started=False)
            return
        job.ends_at = world.clock.now + world.dice.choice([0, 0, world.dice.uniform(0, LONGEST_S)])
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
        """Put a job's end into the journal, and deliver it."""
        self.running.remove(job)
        end = End(verdict, ENDING if started else None, 0, self.now_ms())
        letter, retention = letter_of(job.held), self._tools.retention
        finished = finish(job.attempt.head, letter, end, retention, self.world.dice)
        self._journal.append(Waiting(finished))
        self.deliver()

    def deliver(self) -> None:
        """Bring what is in the journal to AWS, as far as AWS takes it."""
        for entry in [entry for entry in self._journal if not entry.in_hand]:
            entry.in_hand = True
            with suppress(Undelivered):
                if not entry.settled:
                    entry.way = drive(self._report.settle(entry.finished))
                    entry.settled = True
                if drive(self._report.let_go(entry.finished, entry.way)):
                    self._journal.remove(entry)
            entry.in_hand = False

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
                for job in list(self.running):
                    if job not in self.running or job.attempt.head.job_id != told:
                        continue
                    self.finish(job, of_told(job.attempt.head, self.now_ms(), "ended"))
                inbox.delete(received.receipt)

    def work(self) -> None:
        """Do what is due, but for the lease."""
        self.deliver()
        self.listen()
        self.finish_due()
        if self.alive:
            self.take()

    def extend(self) -> None:
        """Keep messages invisible."""
        for job in list(self.running):
            with suppress(*TROUBLE):
                job.held.lane.hide(job.held.received.receipt, VISIBILITY_S)

    def leave(self) -> None:
        """Drain: hand everything back, say goodbye, go."""
        for job in list(self.running):
            self.finish(job, Verdicted(Outcome.INTERRUPTED, "leaving"))
        if not self.running and not self._journal:
            with suppress(*TROUBLE):
                self._agents.goodbye(self.name)
            self.alive = False

    def die(self) -> None:
        """SIGKILL: its jobs die with it (`ec2_agent/sandbox/slot.py`)."""
        self.running.clear()
        self.alive = False
