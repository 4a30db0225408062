"""A model of the agent around its real decisions: jobs and polls.

Real are: what to poll, who is served (the gates), and what a refused claim means. `presence.py` has
its lease and its end.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ec2_agent.lanes import polling
from ec2_agent.lanes.intake import PAUSE_S
from ec2_agent.lanes.polling import Fetch, LaneKey, next_fetch, serving_order
from ec2_agent.messages.flight import EXTEND_EVERY_S
from ec2_agent.serving.gates import Candidate, Offer, judge
from ec2_agent.serving.verdict import GiveBack, Verdict
from joblane.aws.queue.batch import BATCH
from joblane.job.spec import DEFAULT_MEMORY_MB
from joblane.queue.settings import READ_EVERY_S
from joblane.queue.tenant_shares import Allowance
from joblane.service.job.disposal import Action, dispose_refused
from joblane.state.lifecycle import State
from scripts.costs.month import START_S
from scripts.simulation.job import Job
from scripts.simulation.lane import Message, Poll
from scripts.simulation.presence import Presence

if TYPE_CHECKING:
    from scripts.simulation.world import World

CLAIM_S = 0.01
"""Seconds of a conditional write. Assumed."""

TICK_S = 1e-3
"""Least step of an agent's clock: a shorter one would be lost in rounding."""

UNLIMITED = Allowance(1 << 40, 1 << 40)
"""Of the one tenant that all jobs have."""

DELETE_AGAIN_S = 10.0
"""Pause before a message is deleted again after SQS did not answer."""


@dataclass(eq=False, slots=True)
class Attempt:
    """A job that runs here."""

    job: Job
    lane: LaneKey
    message: Message
    receipt: int
    received: float
    epoch: int = 0
    over: bool = False


@dataclass(eq=False)
class Agent:
    """One agent on one instance."""

    world: "World"
    name: str
    fleet: str
    queues: tuple[str, ...]
    threads: int
    attempts: dict[Job, Attempt] = field(default_factory=dict)
    gone: bool = False
    cut_off: bool = False
    """Whether it reaches nothing of AWS."""
    begun: int = 0
    """Slots taken so far."""
    received: int = 0
    """Messages that polls have brought so far."""
    failed: int = 0
    """Polls that have failed so far."""
    total: int = 0
    """Slots in use."""

    def __post_init__(self) -> None:
        self._clock = self.world.clock
        self._since_ms = self._clock.now_ms
        self.taken: Counter[str] = Counter()
        self._polls: dict[LaneKey, Poll] = {}
        self._open_polls: dict[LaneKey, polling.Poll] = {}
        self._known: set[LaneKey] = set()
        self._fetches = 0
        self._asks = 0
        self._caps: dict[str, int] = {}
        self._read_limits()
        self.presence = Presence(self)
        self.decide()

    # What it polls.

    def free(self) -> dict[str, int]:
        """Free slots by queue, as `Offers.free`."""
        if self.gone or self.presence.closed:
            return dict.fromkeys(self.queues, 0)
        left = self.threads - self.total
        return {name: min(left, self._caps[name] - self.taken[name]) for name in self.queues}

    def decide(self, ask: int | None = None) -> None:
        """Open the polls that are due, as `Intake.run`."""
        if self.gone or (ask is not None and ask != self._asks):
            return
        self._asks += 1  # a timer of an earlier decision is void
        if self.total >= self.threads:
            return  # no slot is free, so `next_fetch` opens nothing
        order = serving_order(self.queues, self._fetches)
        while True:
            now = self._clock.now
            decision = next_fetch(order, self.free(), self._open_polls, self._known, now)
            if isinstance(decision, Fetch):
                self._open(decision, now)
                continue
            if decision is not None:
                self._clock.after(max(decision, TICK_S), self.decide, self._asks)
            return

    def _open(self, fetch: Fetch, now: float) -> None:
        lane = self.world.lanes[fetch.lane]
        poll = Poll(self, lane, fetch.most, now)
        self._open_polls[fetch.lane] = polling.Poll(now, fetch.most)
        self._polls[fetch.lane] = poll
        if self.cut_off:
            self.refused(poll)
        else:
            lane.poll(poll)

    def answer(self, poll: Poll, messages: list[Message]) -> None:
        """Take what a poll brought."""
        key = poll.lane.key
        if self.gone or self.cut_off:
            for message in messages:  # the answer is lost
                poll.lane.abandon(message, message.receipt, self._clock.now)
            messages = []
        if self.gone:
            return
        del self._open_polls[key], self._polls[key]
        self._known.add(key)
        if messages:
            self._fetches += 1
            self.received += len(messages)
        for message in messages:
            verdict = self._judge(key[0])
            if isinstance(verdict, GiveBack):
                poll.lane.hide(message, message.receipt, verdict.seconds)
            else:
                self.taken[key[0]] += 1
                self.total += 1
                self.begun += 1
                attempt = Attempt(message.job, key, message, message.receipt, self._clock.now)
                wait_s = self.world.table.wait(self._clock.now)
                self._clock.after(CLAIM_S + wait_s, self._claim, attempt)
        self.decide()
        self.presence.look_empty()

    def _judge(self, queue: str) -> Verdict:
        """Decide over a message, as the desk does: all jobs are alike, and of one tenant."""
        free = self.free()[queue]
        taken, most = self.taken[queue], self._caps[queue]
        offer = Offer(
            agent=self.name,
            closed="is closed" if self.presence.closed else "",
            queues=self.queues,
            lacks=False,
            free=free,
            short="",
            taken=taken,
            most=most,
            running=self.total,
            threads=self.threads,
            most_mb=DEFAULT_MEMORY_MB,
            free_mb=DEFAULT_MEMORY_MB * max(0, self.threads - self.total),
            total_mb=DEFAULT_MEMORY_MB * self.threads,
            rooms=(),
            tenant_running=self.total,
            tenant=UNLIMITED,
            tenant_held=0,
            targeted_held=0,
            prefetch=0,
        )
        candidate = Candidate(queue, "acme", DEFAULT_MEMORY_MB, receives=1, targeted=False)
        return judge(candidate, offer)

    def refused(self, poll: Poll) -> None:
        """A poll failed: pause before the next one of its lane."""
        self.failed += 1
        self._clock.after(PAUSE_S, self.answer, poll, [])

    def open_no_more(self) -> None:
        """Let the open polls end."""
        for poll in self._polls.values():
            poll.lane.let_expire(poll)

    @property
    def empty(self) -> bool:
        """Whether it has no job, no message and no open poll."""
        return not self.total and not self._polls

    # Jobs.

    def _claim(self, attempt: Attempt) -> None:
        job, lane = attempt.job, self.world.lanes[attempt.lane]
        self.world.usage.write_units += 1
        if self.gone or self.cut_off:
            self._release(attempt)
            lane.abandon(attempt.message, attempt.receipt, attempt.received)
        elif job.state is State.PENDING:
            self._run(attempt)
        else:
            self._refused(attempt)

    def _refused(self, attempt: Attempt) -> None:
        job, now_ms = attempt.job, self._clock.now_ms
        holder = self.world.heartbeats.get(job.agent) if job.agent else None
        found = dispose_refused(job.head(), holder, now_ms, self.name)
        lane = self.world.lanes[attempt.lane]
        if found.action is Action.TAKE_OVER:
            self.world.usage.write_units += 1
            self.world.taken_over += 1
            self._run(attempt)
            return
        if found.action is Action.DELETE:
            lane.delete(attempt.message, attempt.receipt)
        else:
            lane.hide(attempt.message, attempt.receipt, found.hide_s)
        self._release(attempt)

    def _run(self, attempt: Attempt) -> None:
        job, world, now = attempt.job, self.world, self._clock.now
        job.epoch += 1
        job.agent, job.claimed_ms = self.name, self._clock.now_ms
        world.change(job, State.ACTIVE)
        attempt.epoch = job.epoch
        self.attempts[job] = attempt
        job.overlaps += job.running > 0
        job.running += 1
        world.runs(job.queue, 1)
        if job.started is None:
            job.started = now
        self._clock.after(START_S + job.run_s, self._end, attempt)

    def _end(self, attempt: Attempt) -> None:
        """Its program has ended: report, delete the message, free the slot."""
        if attempt.over:
            return
        self._stop(attempt)
        if self.cut_off:  # the outcome waits in the journal, and is refused if it comes too late
            self.world.when_back(self, self._report, attempt)
        else:
            self._report(attempt)
        self._release(attempt)
        self.decide()

    def _report(self, attempt: Attempt) -> None:
        job = attempt.job
        self.world.usage.write_units += 1
        self.world.table.wait(self._clock.now)
        if job.epoch == attempt.epoch and job.state is State.ACTIVE:
            job.ended = self._clock.now
            job.completions += 1
            self.world.change(job, State.COMPLETED)
            self.world.ended()
        self._delete(attempt)

    def _delete(self, attempt: Attempt) -> None:
        lane = self.world.lanes[attempt.lane]
        if not lane.delete(attempt.message, attempt.receipt):
            self._clock.after(DELETE_AGAIN_S, self._delete, attempt)

    def _stop(self, attempt: Attempt) -> None:
        attempt.over = True
        attempt.job.running -= 1
        self.world.runs(attempt.job.queue, -1)
        extended = (self._clock.now - attempt.received) // EXTEND_EVERY_S
        self.world.usage.sqs += extended / min(BATCH, max(1, len(self.attempts)))
        self.attempts.pop(attempt.job, None)

    def _release(self, attempt: Attempt) -> None:
        self.taken[attempt.lane[0]] -= 1
        self.total -= 1
        self.presence.look_empty()

    def interrupt_all(self) -> None:
        """Stop what runs and give it back: the job is pending again, the attempt not counted."""
        for attempt in list(self.attempts.values()):
            self._stop(attempt)
            job = attempt.job
            job.interrupted += 1
            if job.epoch == attempt.epoch and job.state is State.ACTIVE:
                self.world.change(job, State.PENDING)
            self.world.usage.write_units += 1
            lane = self.world.lanes[attempt.lane]
            lane.hide(attempt.message, attempt.receipt, 0)
            self._release(attempt)

    def abandon_all(self) -> None:
        """Kill what runs and report nothing: the lease is lost."""
        for attempt in list(self.attempts.values()):
            self._stop(attempt)
            attempt.job.interrupted += 1
            self._release(attempt)

    def _read_limits(self) -> None:
        self._caps = {
            name: self.world.settings[name].cap(self.threads, self.name, self._since_ms)
            for name in self.queues
        }
        if self.world.limited and not self.gone:
            self._clock.after(READ_EVERY_S, self._read_limits)

    # What is lost.

    def cut(self) -> None:
        """Reach nothing of AWS from now on: nothing is polled, extended, written or reported."""
        self.cut_off = True
        self.lose_messages()

    def lose_messages(self) -> None:
        """Extend no message that it has: SQS shows them again."""
        for attempt in self.attempts.values():
            self._abandon(attempt)

    def lose(self) -> None:
        """Its instance is gone, with what runs on it."""
        self.gone = True
        self.open_no_more()
        for attempt in list(self.attempts.values()):
            self._stop(attempt)
            attempt.job.interrupted += 1
            self._abandon(attempt)

    def _abandon(self, attempt: Attempt) -> None:
        """Nobody extends its message any more."""
        began = self.presence.began
        periods = (self._clock.now - began) // EXTEND_EVERY_S
        extended = max(attempt.received, began + periods * EXTEND_EVERY_S)
        self.world.lanes[attempt.lane].abandon(attempt.message, attempt.receipt, extended)
