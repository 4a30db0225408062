"""A model of the agent around its real decisions.

Real are: what to poll, what a refused claim means, and when its lease is lost.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ec2_agent.lanes.disposal import Action, dispose_refused
from ec2_agent.lanes.flight import EXTEND_EVERY_S
from ec2_agent.lanes.intake import PAUSE_S
from ec2_agent.lanes.polling import Fetch, LaneKey, next_fetch, serving_order
from ec2_agent.lanes.queue_limits import READ_EVERY_S
from ec2_agent.presence.lease import lease_lost
from joblane.aws.lanes import BATCH
from joblane.job.lease import HEARTBEAT_S, Heartbeat, Mode
from joblane.job.lifecycle import State
from scripts.costs.month import START_S
from scripts.simulation.job import Job
from scripts.simulation.lane import Message, Poll

if TYPE_CHECKING:
    from scripts.simulation.world import World

CLAIM_S = 0.01
"""Seconds of a conditional write. Assumed."""

TICK_S = 1e-3
"""Least step of an agent's clock: a shorter one would be lost in rounding."""

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
    epoch: int
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
    mode: Mode | None = None
    gone: bool = False
    cut_off: bool = False
    """Whether it reaches nothing of AWS."""
    heartbeat: Heartbeat | None = None
    """Its row in the agents table."""

    def __post_init__(self) -> None:
        self._clock = self.world.clock
        self.began = self._clock.now
        self.idle_since = self._clock.now
        """When it last had a job, or began; meaningless while it has one."""
        self._renewed = self.began
        self._taken: Counter[str] = Counter()
        self._open_since: dict[LaneKey, float] = {}
        self._fetches = 0
        self._asks = 0
        self._caps: dict[str, int] = {}
        self._on_empty: Callable[[], None] | None = None
        self._read_limits()
        self._beat()
        self._clock.after(self._clock.dice.uniform(0, HEARTBEAT_S), self._keep_lease)
        self._decide()

    # What it polls.

    def free(self) -> dict[str, int]:
        """Free slots by queue, as `FreeSlots.by_queue`."""
        if self.mode is not None or self.gone or self._lost:
            return dict.fromkeys(self.queues, 0)
        left = self.threads - sum(self._taken.values())
        return {name: min(left, self._caps[name] - self._taken[name]) for name in self.queues}

    def _decide(self, ask: int | None = None) -> None:
        """Open the polls that are due, as `Intake.run`."""
        if self.gone or (ask is not None and ask != self._asks):
            return
        self._asks += 1  # a timer of an earlier decision is void
        while True:
            now = self._clock.now
            order = serving_order(self.queues, self._fetches)
            decision = next_fetch(order, self.free(), self._open_since, now)
            if isinstance(decision, Fetch):
                self._open_since[decision.lane] = now
                lane = self.world.lanes[decision.lane]
                poll = Poll(self, lane, decision.most, now)
                if self.cut_off:
                    self.refused(poll)
                else:
                    lane.poll(poll)
                continue
            if decision is not None:
                self._clock.after(max(decision, TICK_S), self._decide, self._asks)
            return

    def answer(self, poll: Poll, messages: list[Message]) -> None:
        """Take what a poll brought."""
        key = poll.lane.key
        if self.gone or self.cut_off:
            for message in messages:  # the answer is lost
                poll.lane.abandon(message, message.receipt, self._clock.now)
            messages = []
        if self.gone:
            return
        del self._open_since[key]
        if messages:
            self._fetches += 1
        for message in messages:
            if self.free()[key[0]] <= 0:
                poll.lane.hide(message, message.receipt, 0)
            else:
                self._taken[key[0]] += 1
                self._clock.after(
                    CLAIM_S + self.world.table.wait(self._clock.now),
                    self._claim,
                    Attempt(message.job, key, message, message.receipt, self._clock.now, 0),
                )
        self._decide()
        self._maybe_empty()

    def refused(self, poll: Poll) -> None:
        """A poll failed: pause before the next one of its lane."""
        self._clock.after(PAUSE_S, self.answer, poll, [])

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
        job = attempt.job
        job.epoch += 1
        job.state, job.agent, job.claimed_ms = State.ACTIVE, self.name, self._clock.now_ms
        attempt.epoch = job.epoch
        self.attempts[job] = attempt
        job.overlaps += job.running > 0
        job.running += 1
        self.world.running[job.queue] += 1
        if job.started is None:
            job.started = self._clock.now
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
        self.idle_since = self._clock.now
        self._decide()
        self._maybe_empty()

    def _report(self, attempt: Attempt) -> None:
        job = attempt.job
        self.world.usage.write_units += 1
        self.world.table.wait(self._clock.now)
        if job.epoch == attempt.epoch and job.state is State.ACTIVE:
            job.state, job.ended = State.COMPLETED, self._clock.now
            job.completions += 1
            self.world.ended()
        self._delete(attempt)

    def _delete(self, attempt: Attempt) -> None:
        lane = self.world.lanes[attempt.lane]
        if not lane.delete(attempt.message, attempt.receipt):
            self._clock.after(DELETE_AGAIN_S, self._delete, attempt)

    def _stop(self, attempt: Attempt) -> None:
        attempt.over = True
        attempt.job.running -= 1
        self.world.running[attempt.job.queue] -= 1
        extended = (self._clock.now - attempt.received) // EXTEND_EVERY_S
        self.world.usage.sqs += extended / min(BATCH, len(self.attempts))
        self.attempts.pop(attempt.job, None)

    def _release(self, attempt: Attempt) -> None:
        self._taken[attempt.lane[0]] -= 1

    def interrupt_all(self) -> None:
        """Stop what runs and give it back: the job is pending again, the attempt not counted."""
        for attempt in list(self.attempts.values()):
            self._stop(attempt)
            job = attempt.job
            job.interrupted += 1
            if job.epoch == attempt.epoch and job.state is State.ACTIVE:
                job.state = State.PENDING
            self.world.usage.write_units += 1
            lane = self.world.lanes[attempt.lane]
            lane.hide(attempt.message, attempt.receipt, 0)
            self._release(attempt)
        self._maybe_empty()

    # Its lease.

    @property
    def _lost(self) -> bool:
        return lease_lost(self._renewed, self._clock.now)

    def _beat(self) -> None:
        """Write its heartbeat."""
        now_ms = self._clock.now_ms
        self._renewed = self._clock.now
        self.world.beat(
            self,
            Heartbeat(
                name=self.name,
                since_ms=int(self.began * 1000),
                beat_ms=now_ms,
                threads=self.threads,
                running=sum(self._taken.values()),
                queues=self.queues,
                isolation="full",
                version="",
                jobs=tuple(job.job_id for job in self.attempts),
                labels={},
                mode=self.mode,
            ),
        )

    def _keep_lease(self) -> None:
        if self.gone:
            return
        if self._lost:
            for attempt in list(self.attempts.values()):  # killed, and nothing reported
                self._stop(attempt)
                attempt.job.interrupted += 1
                self._release(attempt)
        if not self.cut_off:
            self._beat()
            self._look_idle()
            self._decide()
        self._clock.after(HEARTBEAT_S, self._keep_lease)

    def _read_limits(self) -> None:
        self._caps = {
            name: self.world.settings[name].cap(self.threads, self.name, int(self.began * 1000))
            for name in self.queues
        }
        if self.world.limited and not self.gone:
            self._clock.after(READ_EVERY_S, self._read_limits)

    # Leaving.

    def _look_idle(self) -> None:
        if self.mode is None and self.world.leaves(self):
            self.drain(0, lambda: self.world.leave(self))

    def drain(self, limit_s: float, on_empty: Callable[[], None]) -> None:
        """Take no more jobs; interrupt those that still run in `limit_s`; then `on_empty`."""
        if self.mode is not None or self.gone:
            return
        self.mode = "draining"
        self._on_empty = on_empty
        self._beat()
        self._clock.after(limit_s, self.interrupt_all)
        self._maybe_empty()

    def reopen(self) -> None:
        """Take jobs again: the group keeps this instance."""
        self.mode, self.idle_since, self._on_empty = None, self._clock.now, None
        self._beat()
        self._decide()

    def _maybe_empty(self) -> None:
        """Say that nothing is left here, neither a job nor an open poll."""
        if self._on_empty is None or self.attempts or self._open_since or +self._taken:
            return
        done, self._on_empty = self._on_empty, None
        done()

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
        for attempt in list(self.attempts.values()):
            self._stop(attempt)
            attempt.job.interrupted += 1
            self._abandon(attempt)

    def _abandon(self, attempt: Attempt) -> None:
        """Nobody extends its message any more."""
        periods = (self._clock.now - self.began) // EXTEND_EVERY_S
        extended = max(attempt.received, self.began + periods * EXTEND_EVERY_S)
        self.world.lanes[attempt.lane].abandon(attempt.message, attempt.receipt, extended)
