"""Start what a schedule starts for past due times that have no job of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from joblane.aws.job.jobs import JobStore
from joblane.contract.principal import Principal
from joblane.contract.problems import Conflict, LimitReached, Problem, wrong
from joblane.contract.schedules import Backfilled, BackfillInput
from joblane.errors import Unavailable
from joblane.formats.times import rfc3339, unix_ms
from joblane.key.policy import Concurrency
from joblane.schedule.fields import MAX_BACKFILL, Template
from joblane.schedule.record import Schedule
from joblane.schedule.results import Result
from joblane.schedule.times import next_times
from joblane.service.schedule.schedules import Schedules
from joblane.service.schedule.starts import Starts

TAKES_S: Final = 20.0
"""Seconds after which a request starts no further job; API Gateway waits for 30."""

_REASONS: Final = 3
"""Reasons of refusals that the answer names."""


@dataclass
class _Counts:
    jobs: list[str] = field(default_factory=list)
    already: int = 0
    refused: list[str] = field(default_factory=list)
    left: int = 0


@dataclass(frozen=True)
class Backfill:
    """Backfills schedules. A request that is sent again starts what is left."""

    schedules: Schedules
    jobs: JobStore
    starts: Starts
    clock: Callable[[], float]
    """Returns Unix seconds."""

    def run(self, by: Principal, name: str, given: BackfillInput) -> Backfilled:
        """Start what is missing. Raises Invalid for the times, Conflict where there is no backfill.

        Each due time has the id that its firing had: what was started then is left as it is.
        """
        end_s = self.clock() + TAKES_S
        schedule, template = self.schedules.find(by.tenant, name)
        times = self._find_times(schedule, given)
        template = _in_turn(schedule, template)
        if given.check:
            return _answer(_Counts(left=len(times)))
        ids = {due_ms: schedule.job_of(due_ms) for due_ms in times}
        there = self.jobs.states_of([*ids.values()])
        counts = _Counts(already=len(there))
        missing = [due_ms for due_ms in times if ids[due_ms] not in there]
        for number, due_ms in enumerate(missing):
            if self.clock() > end_s:
                counts.left = len(missing) - number
                break
            try:
                done = self.starts.start(schedule, template, ids[due_ms], due_ms, lambda: 0.0, by)
            except LimitReached as problem:
                counts.refused.append(problem.detail)
                counts.left = len(missing) - number - 1
                break
            except (Problem, Unavailable) as problem:
                counts.refused.append(str(problem))
                continue
            counts.jobs.append(done.job_id or ids[due_ms])
        answer = _answer(counts)
        if times:
            self._note(by, schedule, times, answer)
        return answer

    def _find_times(self, schedule: Schedule, given: BackfillInput) -> list[int]:
        first_ms, last_ms = unix_ms(given.from_), unix_ms(given.to)
        now_ms = int(self.clock() * 1000)
        if last_ms > now_ms:
            raise wrong("to", f"must not be in the future; it is {rfc3339(now_ms)} now")
        if first_ms > last_ms:
            raise wrong("from", "must not be after to")
        found = next_times(schedule.fields, first_ms - 1, MAX_BACKFILL + 1)
        times = [due_ms for due_ms in found if due_ms <= last_ms]
        if len(times) > MAX_BACKFILL:
            until = rfc3339(times[MAX_BACKFILL - 1])
            raise wrong(
                "to", f"leaves more than {MAX_BACKFILL} due times; the last of them is {until}"
            )
        return times

    def _note(
        self, by: Principal, schedule: Schedule, times: list[int], answer: Backfilled
    ) -> None:
        result = Result(
            times[0],
            "started" if answer.started or not answer.refused else "refused",
            int(self.clock() * 1000),
            f"backfill by {by}: {answer.text}",
            cause="backfill",
            to_ms=times[-1] if len(times) > 1 else None,
            times=len(times),
        )
        self.schedules.note(schedule, result)


def _in_turn(schedule: Schedule, template: Template) -> Template:
    """The template whose jobs run one after the other, unless the schedule lets them overlap."""
    spec = template.submission
    if spec is None:
        raise Conflict("a schedule that requeues has nothing to backfill")
    if schedule.fields.overlap == "allow" or spec.concurrency is not None:
        return template
    if spec.makes_group:
        raise Conflict(
            "groups of a backfill would run at once; set overlap to allow if that is meant"
        )
    key = Concurrency(key=("schedule", schedule.name), max_active=1, max_queued=MAX_BACKFILL)
    return template.model_copy(update={"submission": spec.model_copy(update={"concurrency": key})})


def _answer(counts: _Counts) -> Backfilled:
    said = [f"{len(counts.jobs)} started"]
    said += [f"{counts.already} had started before"] if counts.already else []
    said += [f"{len(counts.refused)} refused"] if counts.refused else []
    said += [f"{counts.left} left"] if counts.left else []
    reasons = list(dict.fromkeys(counts.refused))[:_REASONS]
    return Backfilled(
        started=len(counts.jobs),
        already=counts.already,
        refused=len(counts.refused),
        left=counts.left,
        text="; ".join([", ".join(said), *reasons]),
        jobs=tuple(counts.jobs),
    )
