"""A simulated agent: all of it is real but for its polls and its jobs.

Its core (`ec2_agent.core`) decides who is served and when, claims, holds its lease, and reports.
Its tasks run on a loop of its own, on the world's clock (`loop.py`).
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ec2_agent.aws_calls.queues import Queues
from ec2_agent.calls import AWS_ERRORS, in_thread
from ec2_agent.core import Clocks
from ec2_agent.messages.delivery import Delivery
from ec2_agent.retry import AWS_RETRY, Backoff
from ec2_agent.sandbox.model import Ending, Usage
from joblane.aws.queue.lanes import VISIBILITY_S, LaneQueue, Received
from joblane.condition.blocking import Blocking, decode
from joblane.condition.names import scope_name
from joblane.deployment.names import LANES, inbox_name
from joblane.job.head import Head
from joblane.job.judge import (
    AttemptResult,
    StopReason,
    judge,
    judge_blocked_before_start,
    not_started,
)
from joblane.job.message import Command
from joblane.state.lease import LEASE_S, Progress
from joblane.state.lifecycle import EXIT_BLOCKED, EXIT_PERMANENT, Outcome
from tests.support.agents import DirectStore, settings
from tests.support.aws import DESCRIPTOR, NAME, PREFIX
from tests.support.loop import NO_DELAY, SimLoop
from tests.support.network import TROUBLE
from tests.support.serving import ServingCore

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

THREADS = 2

MEMORY_MB, SMALL_MB = 1536, 600
"""Memory for the jobs of an agent, and the most for one job on a small one."""

LACKING, LACKING_S = 0.1, 600.0
"""Share of the attempts for which a host lacks something, and for how long it does."""

CLAIMED_WITHIN_S = 90.0
"""From a verdict to a job's start, at most: four calls that take `TIMEOUT_S`."""

SHORT_JOBS = 0.2
"""Share of the looks at a lane before which an agent has just run many short jobs."""

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
        self.processes = None
        self._agent = agent
        self._delivery = delivery
        self._reason: StopReason | None = None
        self._abandoned = False
        self._stop = asyncio.Event()
        self._until = agent.core.lease.until

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
        if agent.lacks_something(self.head):
            why = f"agent {agent.name}: it lacks something"
            await self._record(not_started(Outcome.INTERRUPTED, why, agent.now_ms()))
            return
        exit_code = agent.choose_exit_code()
        blocking = await self._test_conditions()
        now = world.clock.now
        if self._abandoned or (blocking is None and now >= agent.core.lease.until):
            agent.core.flight.abandon(self._delivery)
            return
        if blocking is not None:
            await self._record(judge_blocked_before_start(blocking, agent.now_ms()))
            return
        self.started = True
        self._until = agent.core.lease.until
        world.started(self.head.job_id, agent)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), self._duration_s())
        runs, self.ended = self.runs, True
        if not runs:
            agent.core.flight.abandon(self._delivery)
            return
        ending = replace(ENDING, exit_code=exit_code, stopped=self._stop.is_set())
        await self._record(judge(self.head, ending, self._reason, agent.now_ms()))

    def _duration_s(self) -> float:
        rng = self._agent.world.rng
        if rng.random() < 1 / 8:
            return rng.uniform(LEASE_S, 2 * LEASE_S)
        return rng.choice([0, 0, rng.uniform(0, LONGEST_S)])

    async def _record(self, result: AttemptResult) -> None:
        await self._agent.core.recorder.record(self.head, self._delivery, result)

    async def _test_conditions(self) -> Blocking | None:
        requires = [scope_name(name, self.head.tenant) for name in self.head.spec.requires]
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
        self.loop = SimLoop(lambda: world.clock.now, self._delays)
        self._tasks: set[asyncio.Task[None]] = set()
        self._inbox_url = PREFIX + inbox_name(NAME, name)
        world.queues.make(self._inbox_url)
        clients = world.clients(lambda: self.cut_off)
        self._sqs = clients.make("sqs")
        own = replace(
            settings(name),
            since_ms=self.now_ms(),
            threads=THREADS,
            directory=world.directory_of(name),
            max_memory_mb=SMALL_MB if name == world.small else None,
        )
        self.core = ServingCore(
            own,
            clients,
            self,
            clocks=Clocks(self.clock, lambda: world.clock.now, lambda: world.clock.now),
            rng=world.rng,
            memory_mb=MEMORY_MB,
            queue_at=Queues(self._sqs).at,
            records=DirectStore(world.records_of(name), lambda: world.clock.now),
            backoff=lambda: Backoff(AWS_RETRY, rng=world.rng.random),
        )
        self._closed_at = self.world.clock.now if self.core.standing.cordoned else None
        """When it was cordoned, or began to drain."""
        self._lacks_at: dict[str, float] = {}
        """When it last lacked something for a job."""
        self.core.limits.of_tenant = world.share_of  # type: ignore[method-assign, assignment]

    def clock(self) -> float:
        """Unix seconds of this host's clock."""
        return self.world.clock.now + self._skew_s

    def now_ms(self) -> int:
        """Unix milliseconds of this host's clock."""
        return int(self.clock() * 1000)

    def _delays(self) -> tuple[float, float]:
        """How long a call takes, before and after AWS executes it."""
        rng = self.world.rng
        if not self.world.troubled or (not self.cut_off and rng.random() >= SLOW):
            return NO_DELAY
        slow_s = rng.uniform(0, TIMEOUT_S)
        return (slow_s, 0.0) if self.cut_off or rng.random() < 0.5 else (0.0, slow_s)

    @property
    def holds_lease(self) -> bool:
        """Whether the agent holds its lease, as far as it knows."""
        return self.core.lease.held

    @property
    def running(self) -> list[SimAttempt]:
        """Attempts whose processes run."""
        return [a for a in self.core.roster.attempts if isinstance(a, SimAttempt) and a.runs]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def start(self) -> None:
        """Start the process."""
        self._spawn(self._begin())
        self.loop.run()

    async def _begin(self) -> None:
        core = self.core
        for finished in await core.journal.recover():
            core.flight.add(finished.delivery)
        try:
            await core.lease.announce()
            core.journal.resume()
            await core.limits.begin()
        except AWS_ERRORS:
            self.die()  # an agent that cannot announce itself exits
            return
        kept = [
            core.lease.keep(),
            core.limits.keep(),
            core.flight.keep(),
            core.flight.keep_giving_back(),
            core.desk.keep(),
            self._serve_again(),
        ]
        for loop in kept:
            self._spawn(loop)
        self._ready = True

    async def _serve_again(self) -> None:
        """Serve what waits when something has changed, as Intake does."""
        while True:
            await self.core.changed.wait()
            self.core.changed.clear()
            self.core.desk.serve()

    def work(self) -> None:
        """Poll the inbox and a lane, and run what is due."""
        if self._ready and not self.core.standing.draining:
            self._spawn(self._listen())
            self._spawn(self._poll())
        self.loop.run()

    def take_again(self) -> None:
        """Receive the message that was delivered last, even if another agent holds it."""
        queues = self.world.queues
        if queues.last is None or not self._ready or self.cut_off:
            return
        url, key = queues.last
        if "inbox" not in url and key in queues.entries[url]:
            entry = queues.hand_out(url, key, self.world.clock.now + VISIBILITY_S)
            received = Received(entry.body, entry.receipt, entry.receives, int(entry.sent * 1000))
            self._spawn(self._take(url, [received]))
            self.loop.run()

    async def _poll(self) -> None:
        if self.world.rng.random() < SHORT_JOBS:
            for _ in range(20):
                self.core.offers.prefetch.count_freed("default")
        wanted = self.core.offers.wanted()["default"]
        if self.cut_off or wanted <= 0:
            return
        lane = LaneQueue(self._sqs, DESCRIPTOR.lane_url("default", self.world.rng.choice(LANES)))
        with suppress(*AWS_ERRORS):
            received = await in_thread(lambda: lane.receive(min(wanted, 3), 0), "poll")
            await self._take(lane.url, received)

    async def _take(self, url: str, all_received: list[Received]) -> None:
        """Take messages of a lane to the desk."""
        letters = DESCRIPTOR.dead_letter_url
        for received in all_received:
            self.core.desk.receive(Delivery("default", url, letters, received, self.clock()))

    async def run(self, head: Head, delivery: Delivery) -> None:
        """Run one attempt of a claimed job: see AttemptRunner."""
        attempt = SimAttempt(self, head, delivery)
        with self.core.roster.runs(attempt):
            if not self.core.lease.held:
                attempt.abandon()
            try:
                await attempt.run()
            except Exception as error:
                self.world.broken.append(error)  # the desk would give the message back, and go on
                raise

    def check_served(self, job_id: str) -> None:
        """A job that starts was served as it may be: counted by what runs here, not by the desk.

        What changed while it was being claimed does not count.
        """
        running, before = self.running, self.world.clock.now - CLAIMED_WITHIN_S
        (job,) = (attempt.head for attempt in running if attempt.head.job_id == job_id)
        memory = [attempt.head.spec.resources.memory for attempt in running]
        assert len(running) <= THREADS, f"{self.name} runs {len(running)} jobs"
        assert sum(memory) <= MEMORY_MB, f"{self.name} runs jobs of {memory} MB"
        most = self.core.slots.memory.most_mb
        assert job.spec.resources.memory <= most, f"{self.name} runs one of more than {most} MB"
        shares = self.world.shares
        old = max(at for at, _ in shares if at <= before or at == 0.0)
        share = max(share for at, share in shares if at >= old)
        assert len(running) <= share, f"{self.name} runs {len(running)} of a share of {share}"
        closed = self._closed_at is not None and self._closed_at <= before
        assert not closed, f"{self.name} is cordoned or drains, and starts {job_id}"
        lacks_at = self._lacks_at.get(job_id, -LACKING_S)
        lacks = lacks_at <= before and self.world.clock.now < lacks_at + LACKING_S
        assert not lacks or job.assigned, f"{self.name} lacks what {job_id} needs"

    def check_idle(self) -> None:
        """Nothing is taken at an agent that serves nothing."""
        slots = self.core.slots
        taken = (slots.taken, slots.memory.free_mb - MEMORY_MB)
        assert self.core.desk.busy or taken == (0, 0), f"{self.name} has taken {taken} for nobody"

    def lacks_something(self, head: Head) -> bool:
        """Whether this host lacks what a job needs, for a while."""
        world = self.world
        lacks = world.troubled and head.assigned is None and world.rng.random() < LACKING
        if lacks:
            self.core.lacking.remember(head.job_id, LACKING_S)
            self._lacks_at[head.job_id] = world.clock.now
        return lacks

    def choose_exit_code(self) -> int:
        """How a job's process will exit."""
        codes = [0, 0, 1, EXIT_PERMANENT] + ([EXIT_BLOCKED] if self.world.troubled else [])
        return self.world.rng.choice(codes)

    async def _listen(self) -> None:
        """Act on the commands in the inbox, and take its jobs to the desk."""
        inbox = LaneQueue(self._sqs, self._inbox_url)
        with suppress(*AWS_ERRORS):
            for received in await in_thread(lambda: inbox.receive(10, 0), "inbox"):
                if "tenant" in received.body:
                    delivery = Delivery("default", inbox.url, None, received, self.clock())
                    self.core.desk.receive(delivery)
                    continue
                self._obey(Command.decode(received.body))
                delete: Callable[[], None] = partial(inbox.delete, received.receipt)
                await in_thread(delete, "delete command")

    def _obey(self, command: Command) -> None:
        if command.command == "cordon":
            self.core.standing.cordon(len(self.core.roster.attempts))
            self._closed_at = self._closed_at or self.world.clock.now
        elif command.command == "uncordon":
            self.core.standing.uncordon()
            self._closed_at = None
        elif command.command == "cancel" and command.job_id is not None:
            self.core.roster.stop(command.job_id)

    def leave(self) -> None:
        """Drain: stop the jobs, deliver outcomes, give up the lease, exit."""
        if self._ready and not self.core.standing.draining:
            self._spawn(self._leave())
        self.loop.run()

    async def _leave(self) -> None:
        core = self.core
        core.standing.drain()
        self._closed_at = self.world.clock.now
        core.desk.serve()
        core.roster.stop_all(StopReason.DRAIN)
        await core.desk.tasks.done()
        if await core.journal.flush(FLUSH_S):
            await core.lease.end()
        await core.desk.give_back_all(targeted=True)
        self.die()

    def die(self) -> None:
        """SIGKILL: its jobs die with it (`ec2_agent/sandbox/slot.py`)."""
        self.alive = False
        self.loop.kill()
        self.core.roster.attempts.clear()
