"""A simulated agent: its lease, claims, messages and journal are the real ones, its jobs are not.

Its tasks run on a loop of its own, on the world's clock (`loop.py`).
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ec2_agent.attempt.adoption import Adoption
from ec2_agent.aws_calls.jobs import JobCalls
from ec2_agent.aws_calls.queues import Queues
from ec2_agent.calls import AWS_ERRORS, in_thread
from ec2_agent.lanes.claiming import Claimer
from ec2_agent.lanes.memory import Memory
from ec2_agent.lanes.targeted import TargetedJobs
from ec2_agent.lanes.tenants import TenantGate
from ec2_agent.messages.delivery import Delivery
from ec2_agent.messages.flight import Flight
from ec2_agent.outcomes.journal import Journal, OutcomeRecorder
from ec2_agent.outcomes.judge import (
    AttemptResult,
    StopReason,
    blocked_before_start,
    judge,
)
from ec2_agent.outcomes.report import Report
from ec2_agent.presence.lease import Lease
from ec2_agent.presence.standing import Standing
from ec2_agent.retry import AWS_RETRY, Backoff
from ec2_agent.sandbox.model import Ending, Usage
from ec2_agent.slots import Slots
from joblane.aws.agents import AgentStore
from joblane.aws.jobs import JobStore
from joblane.aws.keys import KeyStore
from joblane.aws.lanes import VISIBILITY_S, LaneQueue, Received
from joblane.condition.blocking import Blocking, decode
from joblane.condition.names import scoped
from joblane.deployment.names import LANES, inbox_name, table_name
from joblane.job.head import Head
from joblane.job.lease import LEASE_S, Progress
from joblane.job.lifecycle import EXIT_BLOCKED, EXIT_PERMANENT
from joblane.job.message import Command
from joblane.queue.tenant_shares import Allowance
from tests.support.agents import DirectStore, settings
from tests.support.aws import DESCRIPTOR, NAME, PREFIX
from tests.support.loop import NO_DELAY, SimLoop
from tests.support.network import TROUBLE
from tests.support.recovery import supervisor

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
    records=0,
)

THREADS = 4

LONGEST_S = 120
"""Longest run of a simulated job; one in eight runs for longer than a lease."""

TIMEOUT_S = 21.0
"""Longest time of a call while the agent is cut off: three tries (`clients.QUICK`)."""

SLOW = 0.02
"""Share of calls that take up to `TIMEOUT_S`, while there are faults."""

FLUSH_S = 10.0
"""How long a draining agent goes on delivering outcomes."""


class SimAttempt:
    """An attempt of a claimed job, whose process is simulated."""

    def __init__(self, agent: "SimAgent", head: Head, delivery: Delivery) -> None:
        self.head = head
        self.started = False
        self.ended = False
        self.progress: Progress | None = None
        self._agent = agent
        self._delivery = delivery
        self._reason: StopReason | None = None
        self._abandoned = False
        self._stop = asyncio.Event()
        self._until = agent.lease.until

    @property
    def runs(self) -> bool:
        """Whether its process runs; the shim kills it when the lease is not renewed."""
        alive = not self.ended and not self._abandoned
        return self.started and alive and self._agent.world.clock.now < self._until

    def request_stop(self, reason: StopReason) -> None:
        """See Attempt."""
        self._reason = self._reason or reason
        self._stop.set()

    def follow(self) -> None:
        """See Attempt; output is not simulated."""

    def abandon(self) -> None:
        """See Attempt."""
        self._abandoned = True
        self._stop.set()

    def renew(self, until: float) -> None:
        """See Attempt."""
        self._until = until

    async def run(self) -> None:
        """Run to the end and record the outcome, as Attempt does."""
        agent, world = self._agent, self._agent.world
        exit_code = agent.choose_exit_code()
        blocking = await self._test_conditions()
        now = world.clock.now
        if self._abandoned or (blocking is None and now >= agent.lease.until):
            agent.flight.abandon(self._delivery)
            return
        if blocking is not None:
            await self._record(blocked_before_start(blocking, agent.now_ms()))
            return
        self.started = True
        self._until = agent.lease.until
        world.started(self.head.job_id, agent)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), self._duration_s())
        runs, self.ended = self.runs, True
        if not runs:
            agent.flight.abandon(self._delivery)
            return
        ending = replace(ENDING, exit_code=exit_code, stopped=self._stop.is_set())
        await self._record(judge(self.head, ending, self._reason, agent.now_ms()))

    def _duration_s(self) -> float:
        dice = self._agent.world.dice
        if dice.random() < 1 / 8:
            return dice.uniform(LEASE_S, 2 * LEASE_S)
        return dice.choice([0, 0, dice.uniform(0, LONGEST_S)])

    async def _record(self, result: AttemptResult) -> None:
        await self._agent.recorder.record(self.head, self._delivery, result)

    async def _test_conditions(self) -> Blocking | None:
        requires = [scoped(name, self.head.tenant) for name in self.head.spec.requires]
        if not requires:
            return None
        event = {"do": "check", "conditions": requires}
        try:
            answer = await in_thread(lambda: self._agent.world.recovery(event), "requires")
        except TROUBLE:
            return Blocking(requires[0], "could not be tested", untestable=False)
        return decode(answer)


class SimAgent:
    """One host with an agent."""

    def __init__(self, world: "World", name: str, skew_s: float) -> None:
        self.world = world
        self.name = name
        self.alive = True
        self.cut_off = False
        self._skew_s = skew_s
        self._ready = False
        self._leaving = False
        self.loop = SimLoop(lambda: world.clock.now, self._delays)
        self._tasks: set[asyncio.Task[None]] = set()
        self._inbox_url = PREFIX + inbox_name(NAME, name)
        world.queues.make(self._inbox_url)
        clients = world.clients(lambda: self.cut_off)
        dynamodb, self._sqs = clients.make("dynamodb"), clients.make("sqs")
        jobs = JobStore(dynamodb, DESCRIPTOR.jobs_table)
        agents = AgentStore(dynamodb, DESCRIPTOR.agents_table)
        conditions = supervisor(clients)
        own = replace(settings(name), since_ms=self.now_ms(), threads=THREADS)
        self.flight = Flight(self.clock, Queues(self._sqs).at, self._backoff)
        keys = KeyStore(dynamodb, table_name(NAME, "keys"))
        self._claimer = Claimer(
            own, JobCalls(jobs), agents, keys, conditions, self.flight, self.clock, world.dice
        )
        report = Report(JobCalls(jobs), conditions, self.flight)
        records = DirectStore(world.records_of(name), lambda: world.clock.now)
        self._journal = Journal(records, report, self.clock, self._backoff)
        self.recorder = OutcomeRecorder(self._journal, DESCRIPTOR.retention, self.clock, world.dice)
        self._freed = asyncio.Event()
        adoption = Adoption(Path("/nonexistent"), jobs)
        self._slots = Slots(self._claimer, self._journal, adoption, self._freed, Memory(None))
        self._claimer.own_jobs = self._slots.job_ids
        tenants = TenantGate(name, lambda _: Allowance(THREADS, THREADS), jobs, self.flight)
        self._targeted = TargetedJobs(
            tenants, jobs, self.flight, lambda _: "busy", lambda: world.clock.now
        )
        self.lease = Lease(
            own,
            agents,
            self.clock,
            lambda: world.clock.now,
            self._slots.job_ids,
            self._slots.progress,
            lambda: None,
            self._slots.abandon_all,
            self._slots.renew_all,
            Standing(Path("/nonexistent"), self._freed.set),
        )

    def clock(self) -> float:
        """Unix seconds of this host's clock."""
        return self.world.clock.now + self._skew_s

    def now_ms(self) -> int:
        """Unix milliseconds of this host's clock."""
        return int(self.clock() * 1000)

    def _backoff(self) -> Backoff:
        return Backoff(AWS_RETRY, dice=self.world.dice.random)

    def _delays(self) -> tuple[float, float]:
        """How long a call takes, before and after AWS executes it."""
        dice = self.world.dice
        if not self.world.troubled or (not self.cut_off and dice.random() >= SLOW):
            return NO_DELAY
        slow_s = dice.uniform(0, TIMEOUT_S)
        return (slow_s, 0.0) if self.cut_off or dice.random() < 0.5 else (0.0, slow_s)

    @property
    def holds_lease(self) -> bool:
        """Whether the agent holds its lease, as far as it knows."""
        return self.lease.held

    @property
    def running(self) -> list[SimAttempt]:
        """Attempts whose processes run."""
        return [a for a in self._slots.attempts if isinstance(a, SimAttempt) and a.runs]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def start(self) -> None:
        """Start the process."""
        self._spawn(self._begin())
        self.loop.run()

    async def _begin(self) -> None:
        for finished in await self._journal.recover():
            self.flight.add(finished.delivery)
        try:
            await self.lease.begin()
        except AWS_ERRORS:
            self.die()  # an agent that cannot send its first heartbeat exits
            return
        self._journal.resume()
        self._spawn(self.lease.keep())
        self._spawn(self.flight.keep())
        self._spawn(self.flight.keep_giving_back())
        self._ready = True

    def work(self) -> None:
        """Poll the inbox and a lane, and run what is due."""
        if self._ready and not self._leaving:
            self._spawn(self._listen())
            self._spawn(self._poll())
        self.loop.run()

    def take_again(self) -> None:
        """Receive the message that was delivered last, even if another agent holds it."""
        queues = self.world.queues
        if queues.last is None or not self._takes_jobs():
            return
        url, key = queues.last
        if "inbox" not in url and key in queues.entries[url]:
            entry = queues.hand_out(url, key, self.world.clock.now + VISIBILITY_S)
            received = Received(entry.body, entry.receipt, entry.receives, int(entry.sent * 1000))
            self._admit(url, received)
            self.loop.run()

    def _takes_jobs(self) -> bool:
        able = self._ready and not self._leaving and not self.cut_off and self.lease.held
        return able and self._slots.counts().taken < THREADS

    async def _poll(self) -> None:
        if not self._takes_jobs():
            return
        lane = LaneQueue(self._sqs, DESCRIPTOR.lane_url("default", self.world.dice.choice(LANES)))
        with suppress(*AWS_ERRORS):
            for received in await in_thread(lambda: lane.receive(1, 0), "poll"):
                self._admit(lane.url, received)

    def _admit(self, url: str, received: Received) -> None:
        """Take a slot for a message of a lane."""
        dead_letter_url = DESCRIPTOR.dead_letter_url
        self._start(Delivery("default", url, dead_letter_url, received, self.clock()))

    def _resume(self) -> None:
        """Start the targeted jobs that wait, as Agent does."""
        while self._takes_jobs() and (delivery := self._targeted.next({"default": 1})) is not None:
            self._start(delivery)

    def _start(self, delivery: Delivery) -> None:
        received = delivery.received
        self._slots.take("default", received.memory_mb)
        self.flight.add(delivery)
        self._spawn(self._serve(delivery))

    async def _serve(self, delivery: Delivery) -> None:
        """Claim the job that a message names, and run it, as Agent does."""
        try:
            head = await self._claimer.claim(delivery)
            if head is not None:
                attempt = SimAttempt(self, head, delivery)
                with self._slots.running(attempt):
                    if not self.lease.held:
                        attempt.abandon()
                    await attempt.run()
        except AWS_ERRORS:
            await self.flight.give_back(delivery, 5)
        finally:
            self._slots.release("default", delivery.received.memory_mb)

    def choose_exit_code(self) -> int:
        """How a job's process will exit."""
        codes = [0, 0, 1, EXIT_PERMANENT] + ([EXIT_BLOCKED] if self.world.troubled else [])
        return self.world.dice.choice(codes)

    async def _listen(self) -> None:
        """Act on the commands in the inbox."""
        inbox = LaneQueue(self._sqs, self._inbox_url)
        with suppress(*AWS_ERRORS):
            for received in await in_thread(lambda: inbox.receive(10, 0), "inbox"):
                if "tenant" in received.body:
                    self._targeted.hold(
                        Delivery("default", inbox.url, None, received, self.clock())
                    )
                    continue
                command = Command.decode(received.body)
                for attempt in self._slots.attempts:
                    if command.command == "cancel" and attempt.head.job_id == command.job_id:
                        attempt.request_stop(StopReason.COMMAND)
                delete: Callable[[], None] = partial(inbox.delete, received.receipt)
                await in_thread(delete, "delete command")
        self._resume()

    def leave(self) -> None:
        """Drain: stop the jobs, deliver outcomes, give up the lease, exit."""
        if self._ready and not self._leaving:
            self._leaving = True
            for attempt in self._slots.attempts:
                attempt.request_stop(StopReason.DRAIN)
            self._spawn(self._leave())
        self.loop.run()

    async def _leave(self) -> None:
        while self._slots.counts().taken:
            self._freed.clear()
            await self._freed.wait()
        if await self._journal.flush(FLUSH_S):
            await self.lease.end()
        await self._targeted.give_back()
        self.die()

    def die(self) -> None:
        """SIGKILL: its jobs die with it (`ec2_agent/sandbox/slot.py`)."""
        self.alive = False
        self.loop.kill()
        self._slots.attempts.clear()
