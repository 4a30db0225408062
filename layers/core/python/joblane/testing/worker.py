"""An agent in this process: claims, runs and settles jobs by the rules that instances follow.

What is decided is decided where the agent decides it: the claim and the settlement by
`joblane.aws.job.claims`, what becomes of a message by `joblane.service.job.disposal`, an outcome
and its reason by `joblane.job.judge`, what follows it by `joblane.state.lifecycle`. A handler runs
to its end at once. A command does not run: a test says how it ends, or its time passes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import joblane
from joblane.aws.job.jobs import Refused
from joblane.aws.queue.lanes import MAX_VISIBILITY_S, LaneQueue, Received, read_body
from joblane.condition.names import scope_name
from joblane.deployment.names import LANES, inbox_name
from joblane.handler.job_type import JobType
from joblane.job.head import Head
from joblane.job.judge import (
    AttemptResult,
    StopReason,
    judge,
    judge_blocked_before_start,
    judge_cancelled,
)
from joblane.job.message import Command, Message
from joblane.job.outcome import OutcomeTransition, transition_of
from joblane.queue.settings import QueueSettings
from joblane.service.job.disposal import (
    Action,
    dispose_missing,
    dispose_outdated,
    dispose_refused,
)
from joblane.state.lease import Heartbeat
from joblane.state.lifecycle import Outcome
from joblane.state.result import INLINE_RESULT_BYTES
from joblane.testing.attempts import AttemptEnding, End, ending_of, run_typed, stopped
from joblane.testing.environment import THREADS
from joblane.testing.memory.schemas import NAME
from joblane.testing.memory.sqs import PREFIX
from joblane.testing.output import Output
from joblane.testing.stores import Stores

BATCH = 10
"""Messages that one request receives."""

Decide = Callable[[Head], End | None]
"""Says how an attempt ends; None: its handler does, or nobody says it yet."""


@dataclass(eq=False)
class Attempt:
    """A running attempt of a command, or of a type without a handler here."""

    head: Head
    """As it was claimed, with its params whole."""
    queue: LaneQueue
    received: Received
    started_at: float

    @property
    def ends_at(self) -> float:
        """When it ends if nobody says how: at its time limit or its deadline, in Unix seconds."""
        limit = self.started_at + self.head.spec.timeout_s
        deadline_ms = self.head.deadline_ms
        return limit if deadline_ms is None else min(limit, deadline_ms / 1000)


@dataclass(eq=False)
class Worker:
    """One agent."""

    name: str
    queues: tuple[str, ...]
    stores: Stores
    handlers: Mapping[str, JobType[Any, Any]]
    """By the name of their type."""
    decide: Decide
    clock: Callable[[], float]
    running: dict[str, Attempt] = field(default_factory=dict)
    """By job."""

    def __post_init__(self) -> None:
        self.since_ms = self._last_ms = self.now_ms()
        self.inbox = LaneQueue(self.stores.sqs, PREFIX + inbox_name(NAME, self.name))
        self.stores.sqs.create_queue(QueueName=inbox_name(NAME, self.name))
        self.beat()

    def now_ms(self) -> int:
        """Unix milliseconds."""
        return int(self.clock() * 1000)

    def beat(self) -> None:
        """Renew the lease, and show what runs."""
        taken: dict[str, int] = {}
        for attempt in self.running.values():
            taken[attempt.head.queue] = taken.get(attempt.head.queue, 0) + 1
        self.stores.agents.beat(
            Heartbeat(
                name=self.name,
                since_ms=self.since_ms,
                beat_ms=self.now_ms(),
                threads=THREADS,
                running=len(self.running),
                queues=self.queues,
                isolation="none",
                version=joblane.__version__,
                jobs=tuple(self.running),
                tenants=tuple(attempt.head.tenant for attempt in self.running.values()),
                left=THREADS - len(self.running),
                taken=taken,
            )
        )

    def work(self) -> bool:
        """Do what is to be done now; returns whether there was anything."""
        self.beat()
        did = self._end_overdue()
        for received in self.inbox.receive(BATCH, 0):
            did = True
            self._take_from_inbox(received)
        settings, _ = self.stores.settings.get_for_agent(self.queues)
        for queue in self.queues:
            for lane in LANES:
                did |= self._poll(self.stores.lanes.lane(queue, lane), queue, settings[queue])
        return did

    def _poll(self, lane: LaneQueue, queue: str, settings: QueueSettings) -> bool:
        """Take what a lane has and the queue's limit lets run."""
        did = False
        while True:
            running = sum(each.head.queue == queue for each in self.running.values())
            free = settings.cap(THREADS, self.name, self.since_ms) - running
            found = lane.receive(min(BATCH, free), 0) if free > 0 else []
            if not found:
                return did
            did = True
            for received in found:
                self._take(lane, received, read_body(received.body))

    def _take_from_inbox(self, received: Received) -> None:
        message = received.message
        if message is not None:
            self._take(self.inbox, received, message)
            return
        command = Command.decode(received.body)
        self.inbox.delete(received.receipt)
        if command.command == "cancel" and command.job_id in self.running:
            self.stop(command.job_id, StopReason.COMMAND)

    def _take(self, queue: LaneQueue, received: Received, message: Message) -> None:
        """Claim the job of a message, or dispose of that."""
        try:
            head = self.stores.jobs.claim(message, self.name, self._own_ms())
        except Refused as refusal:
            self._dispose(queue, received, message, refusal.head)
            return
        queue.hide(received.receipt, MAX_VISIBILITY_S)
        whole = self.stores.payloads.read_whole(head)
        self.running[head.job_id] = Attempt(whole, queue, received, self.clock())
        self._start(whole)

    def _dispose(
        self, queue: LaneQueue, received: Received, message: Message, head: Head | None
    ) -> None:
        now_ms = self.now_ms()
        if head is None:
            disposal = dispose_missing(received.sent_ms, now_ms)
        elif message.is_outdated(head):
            disposal = dispose_outdated(head)
        else:
            holder = None if head.agent is None else self.stores.agents.get(head.agent)
            disposal = dispose_refused(head, holder, now_ms, self.name)
        match disposal.action:
            case Action.DELETE:
                queue.delete(received.receipt)
            case Action.GIVE_BACK:
                queue.hide(received.receipt, disposal.hide_s)
            case Action.JOIN if head is not None and head.condition is not None:
                self.stores.conditions.join(head.condition, head, now_ms)
                queue.delete(received.receipt)
            case _:  # agents here settle what they lose, so nothing is taken over
                raise AssertionError(f"nobody runs job {message.job_id}: {disposal.why}")

    def _start(self, head: Head) -> None:
        """Start an attempt: what is known to end at once ends now."""
        requires = [scope_name(name, head.tenant) for name in head.spec.requires]
        blocking = self.stores.find_blocking(requires) if requires else None
        if blocking is not None:
            self._settle(head.job_id, judge_blocked_before_start(blocking, self.now_ms()))
        elif (end := self.decide(head)) is not None:
            self.end(head.job_id, end)
        elif (handler := self.handlers.get(head.spec.type or "")) is not None:
            output = Output(self.clock)
            ending = run_typed(handler, head, output)
            output.write(self.stores.output, head)
            self._judge(head.job_id, ending, None)

    def end(self, job_id: str, end: End) -> None:
        """End a running attempt."""
        if end.lost:
            self._lose(job_id)
            return
        output = Output(self.clock)
        ending = ending_of(end, self._wall_s(job_id), output)
        output.write(self.stores.output, self.running[job_id].head)
        self._judge(job_id, ending, None)

    def stop(self, job_id: str, reason: StopReason) -> None:
        """Stop a running attempt."""
        self._judge(job_id, stopped(self._wall_s(job_id)), reason)

    def _lose(self, job_id: str) -> None:
        """End an attempt as that of an agent that died is ended by whoever notices it."""
        head, now_ms = self.running[job_id].head, self.now_ms()
        result = AttemptResult(Outcome.LOST, f"agent {self.name} was lost", now_ms, started=True)
        self._settle(head.job_id, result)

    def _end_overdue(self) -> bool:
        """End attempts whose time is up."""
        now = self.clock()
        overdue = [job_id for job_id, each in self.running.items() if each.ends_at <= now]
        for job_id in overdue:
            deadline_ms = self.running[job_id].head.deadline_ms
            if deadline_ms is not None and deadline_ms <= self.now_ms():
                self.stop(job_id, StopReason.DEADLINE)
            else:
                self.end(job_id, End(timed_out=True))
        return bool(overdue)

    def _wall_s(self, job_id: str) -> float:
        return self.clock() - self.running[job_id].started_at

    def _judge(self, job_id: str, ending: AttemptEnding, stop: StopReason | None) -> None:
        head = self.running[job_id].head
        result = judge(head, ending, stop, self.now_ms())
        text = ending.result
        if text is not None and len(text.encode()) > INLINE_RESULT_BYTES:
            stored = self.stores.results.put(head, text.encode())
            result = replace(result, ending=replace(ending, result=None), result_object=stored)
        self._settle(job_id, result)

    def _settle(self, job_id: str, result: AttemptResult) -> None:
        """Write the end of an attempt, then dispose of its message, as `outcomes/report.py`."""
        attempt = self.running.pop(job_id)
        for transition in self._transitions(attempt.head, result):
            try:
                self._write(attempt.head, transition)
            except Refused as refusal:
                found = refusal.head
                if found is None or found.cancel_requested is None:
                    raise  # only this worker writes the ends of its attempts
                continue
            if transition.hide_s is None:
                attempt.queue.delete(attempt.received.receipt)
            else:
                attempt.queue.hide(attempt.received.receipt, transition.hide_s)
            return

    def _transitions(self, head: Head, result: AttemptResult) -> Iterator[OutcomeTransition]:
        """What is written; and what instead, if the job was asked to end meanwhile."""
        retention, rng = self.stores.retention, self.stores.rng
        yield transition_of(head, result, retention, rng)
        outcome, reason = judge_cancelled(head, result.at_ms, result.reason)
        cancelled = replace(result, outcome=outcome, reason=reason, condition=None)
        yield transition_of(head, cancelled, retention, rng)

    def _write(self, head: Head, transition: OutcomeTransition) -> None:
        jobs, step, condition = self.stores.jobs, transition.step, transition.condition
        if condition is None:
            jobs.settle(head, step, transition.facts)
            return
        blocked = jobs.block(head, step, condition, transition.facts)
        why = self.stores.conditions.join(condition, blocked, step.at_ms)
        if why is not None:
            jobs.note_untested(blocked, why)

    def _own_ms(self) -> int:
        """Unix milliseconds, different for each claim (`ec2_agent/lanes/claiming.py`)."""
        self._last_ms = max(self.now_ms(), self._last_ms + 1)
        return self._last_ms
