"""Handle messages of the queue `due`: start what is due, and move its schedule on.

What happens is decided by `joblane.schedule.decide`, a step at a time, on the row as it is read.
The message for the next due time is sent before the row names it, so that none is missing after a
crash.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from joblane.aws.job.jobs import JobStore
from joblane.aws.metrics import Metrics
from joblane.aws.schedule.due_queue import DueMessage, DueQueue
from joblane.aws.schedule.schedules import ScheduleStore
from joblane.contract.problems import Problem, TryAgain
from joblane.deployment.metrics import REFUSED_SCHEDULES
from joblane.errors import Changed
from joblane.schedule.decide import (
    Cancel,
    Nothing,
    Seen,
    Start,
    Wait,
    Write,
    decide,
    refused,
    started,
    wanted,
)
from joblane.schedule.record import Schedule
from joblane.service.log import Log
from joblane.service.schedule.messages import send_next
from joblane.service.schedule.starts import Started, Starts

if TYPE_CHECKING:
    from joblane.service.schedule.cancels import Cancels

STEPS: Final = 40
"""Steps of one message. A firing takes two or three, and each change by others one more."""

SLEEP_MS: Final = 700
"""A message that comes so early is waited for; others are put off. Delays of SQS are whole seconds,
and rounded."""


@dataclass(frozen=True)
class Firing:
    """Handles schedules that are due."""

    schedules: ScheduleStore
    jobs: JobStore
    queue: DueQueue
    starts: Starts
    cancels: "Callable[[], Cancels]"
    """Returns what cancels jobs and groups (overlap replace)."""
    metrics: Metrics
    deployment: str
    now_ms: Callable[[], int]
    sleep: Callable[[float], None]
    log: Log

    def handle(
        self, message: DueMessage, left_s: Callable[[], float], *, again: bool = False
    ) -> int | None:
        """Do what is due for a schedule. Returns after how many ms the message is to come again.

        None if it is not needed any more: others are under way, or nothing is due. `again`: it was
        received before, by a function that may have died. Raises Unavailable, and TryAgain if the
        schedule changes on every try; the message comes again.
        """
        raced, schedule = again, None
        begun: list[int] = []
        for _ in range(STEPS):
            if schedule is None:
                schedule = self.schedules.get(message.tenant, message.name)
            if schedule is None:
                return None  # deleted
            now_ms = self.now_ms()
            try:
                if raced and (mended := self._mend(schedule, begun, now_ms)) is not None:
                    schedule = mended
                    continue
                decision = decide(schedule, self._look(schedule, now_ms), now_ms)
                match decision:
                    case Nothing():
                        return None
                    case Wait(until_ms) if 0 <= until_ms - now_ms <= SLEEP_MS:
                        self.sleep((until_ms - now_ms) / 1000)
                        schedule = None
                    case Wait(until_ms):
                        # For another due time, or the end of what runs, another one is under way.
                        own = message.due_ms in (schedule.due_ms, schedule.queued_ms)
                        return until_ms - now_ms if own else None
                    case _:
                        begun += [decision.due_ms] if isinstance(decision, Start) else []
                        schedule = self._do(schedule, decision, now_ms, left_s)
                raced = False
            except Changed:
                raced, schedule = True, None  # decided by another function, or changed by somebody
        raise TryAgain("the schedule is being changed by other requests; try again")

    def _look(self, schedule: Schedule, now_ms: int) -> Seen:
        """Read the jobs that a decision rests on: a read unit each."""
        ids = wanted(schedule, now_ms)
        if not ids and schedule.queued_ms is None:
            return Seen((), None)
        running = schedule.running
        names = ids if running is None else [*ids, running]
        states = self.jobs.states_of(names)
        return Seen(states.keys() & {*ids}, None if running is None else states.get(running))

    def _do(
        self,
        schedule: Schedule,
        decision: Write | Start | Cancel,
        now_ms: int,
        left_s: Callable[[], float],
    ) -> Schedule:
        """Carry a decision out. Returns the schedule as it is then."""
        match decision:
            case Write(after):
                return self._write(schedule, after)
            case Cancel(running, after):
                self.cancels().cancel(running, f"replaced by schedule {schedule.name}", now_ms)
                return self._write(schedule, after)
            case Start(due_ms):
                return self._start(schedule, due_ms, now_ms, left_s)

    def _start(
        self, schedule: Schedule, due_ms: int, now_ms: int, left_s: Callable[[], float]
    ) -> Schedule:
        job_id = schedule.job_of(due_ms)
        template = self.schedules.template(schedule.tenant, schedule.name)
        if template is None:
            raise Changed("the schedule was deleted")
        try:
            done = self.starts.start(schedule, template, job_id, due_ms, left_s)
        except TryAgain:
            raise
        except Problem as problem:
            return self._refuse(schedule, due_ms, problem, now_ms)
        self.log.info(
            "schedule started",
            tenant=schedule.tenant,
            schedule=schedule.name,
            job_id=done.job_id,
            late_ms=now_ms - due_ms - schedule.jitter_ms,
        )
        return self._write(schedule, self._as_started(schedule, due_ms, done))

    def _as_started(self, schedule: Schedule, due_ms: int, done: Started) -> Schedule:
        at_ms = self.now_ms()
        after = started(schedule, due_ms, at_ms, done.text)
        own = schedule.job_of(due_ms)
        if done.job_id == own:
            return after
        # A requeue starts no job, and for a coalesced submission another one stands.
        result = after.result_of(due_ms)
        results = tuple(
            replace(each, job_id=done.job_id or "") if each is result else each
            for each in after.results
        )
        return replace(after, results=results, running=done.job_id or schedule.running)

    def _refuse(self, schedule: Schedule, due_ms: int, problem: Problem, now_ms: int) -> Schedule:
        self.log.warning(
            "schedule refused",
            tenant=schedule.tenant,
            schedule=schedule.name,
            detail=problem.detail,
        )
        self.metrics.emit({"Deployment": self.deployment}, {REFUSED_SCHEDULES: 1})
        return self._write(schedule, refused(schedule, due_ms, now_ms, problem.detail))

    def _mend(self, schedule: Schedule, begun: list[int], now_ms: int) -> Schedule | None:
        """Correct the latest result whose job is there after all. Returns the row, None if all are.

        `joblane.schedule.decide.started` draws how that happens; a crash may come before its last
        line, and then the message comes again. `begun` are due times that this call has started:

            this function                   row, jobs               an edit, by a late clock
            reads: due 02:00                               <-----   reads: due 02:00, it is 01:59
            puts the job of 02:00   --->    due 05:00      <-----   row: due 05:00
            row: 02:00 started      --->    refused
            reads: no result of 02:00
            row: 02:00 started      --->    due 05:00
        """
        others = [
            each.due_ms
            for each in schedule.results
            if each.cause == "due" and each.outcome != "started"
        ]
        open_ = (schedule.due_ms, schedule.queued_ms)
        others += [
            due_ms for due_ms in begun if due_ms not in open_ and schedule.result_of(due_ms) is None
        ]
        ids = {schedule.job_of(due_ms): due_ms for due_ms in others}
        there = self.jobs.states_of([*ids]) if ids else {}
        for job_id in there:
            return self._write(schedule, started(schedule, ids[job_id], now_ms))
        return None

    def _write(self, seen: Schedule, after: Schedule) -> Schedule:
        """Send the message of the next due time, then write the row. Returns it."""
        if after == seen:
            raise Changed("the schedule was decided by another function")
        now_ms = self.now_ms()  # a start may have taken long, and the delay counts from here
        send_next(self.queue, seen, after, now_ms)
        return self.schedules.write(seen, after, now_ms)
