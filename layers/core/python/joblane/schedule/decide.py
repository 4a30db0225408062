"""What happens to a schedule when its message comes. Pure: the row, the time and the jobs go in.

`decide` answers one step: a write of the row, a start, a cancel, or a wait. Its caller carries it
out, reads again and asks again, until nothing is to be done. Each step may be repeated after a
crash, and two callers may make it at once:

    one function                 table                        another, or the same again
    reads: due 02:00                                          reads: due 02:00
    puts the job of 02:00  --->  job
                                 (is there)            <---   puts the job of 02:00
    row: 02:00 started     --->  due 03:00
                                 refused               <---   row: 02:00 started
                                                              reads: due 03:00, waits

A job that is there for a due time was started for it, so that its result is `started`, whatever
would be decided now: what ran before may have ended meanwhile, or begun again.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from joblane.formats.text import span
from joblane.group.states import FAILURES
from joblane.schedule.record import Pause, Schedule
from joblane.schedule.results import Result
from joblane.schedule.times import next_due, passed
from joblane.state.lifecycle import ENDED, State

GRACE_MS: Final = 120_000
"""What is not later than this counts as on time, even without `catch_up_s`: messages may be lost
and are sent again after a minute."""

ON_TIME_MS: Final = 2_000
"""Up to which delay a start is said to be on its second."""

LOOK_AGAIN_MS: Final = 15_000
"""How often it is looked whether what runs has ended, while a due time waits for that."""


FAILED: Final = frozenset({*FAILURES, State.PARTIAL_FAILURE})
"""States in which what was started has failed, for `pause_on_failure`."""


@dataclass(frozen=True, slots=True)
class Write:
    """Write the row."""

    schedule: Schedule


@dataclass(frozen=True, slots=True)
class Start:
    """Start what the schedule starts for a due time, then write that it is started."""

    due_ms: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel what runs, then write the row."""

    running: str
    schedule: Schedule


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again at a time, in Unix milliseconds; the row stays as it is."""

    until_ms: int


@dataclass(frozen=True, slots=True)
class Nothing:
    """There is nothing to do before its next message."""


Decision = Write | Start | Cancel | Wait | Nothing


@dataclass(frozen=True, slots=True)
class Seen:
    """What was read beside the row."""

    jobs: Collection[str]
    """Those of the ids of `wanted` that are there."""
    running: State | None
    """State of what the schedule started last; None if there is none, or its row is gone."""

    @property
    def is_open(self) -> bool:
        """Whether that has not ended."""
        return self.running is not None and self.running not in ENDED

    def lets_start(self, schedule: Schedule) -> bool:
        """Whether what runs leaves room for another start."""
        return not self.is_open or schedule.fields.overlap == "allow"


def wanted(schedule: Schedule, now_ms: int) -> list[str]:
    """Ids of the jobs that `decide` has to know of: those of due times that have come."""
    times = [schedule.queued_ms]
    if schedule.starts_ms is not None and schedule.starts_ms <= now_ms:
        times.append(schedule.due_ms)
    return [schedule.job_of(each) for each in times if each is not None]


def decide(schedule: Schedule, seen: Seen, now_ms: int) -> Decision:
    """Return the next step."""
    if (queued_ms := schedule.queued_ms) is not None:
        if schedule.job_of(queued_ms) in seen.jobs:
            return Write(started(schedule, queued_ms, now_ms))
        if seen.lets_start(schedule):
            return _start_queued(schedule, queued_ms, seen, now_ms)
    due_ms, starts_ms = schedule.due_ms, schedule.starts_ms
    if due_ms is None or starts_ms is None or starts_ms > now_ms:
        return _wait(schedule, now_ms)
    if schedule.job_of(due_ms) in seen.jobs:
        return Write(started(schedule, due_ms, now_ms))
    if schedule.paused is not None:
        return Nothing()
    return _decide_due(schedule, due_ms, seen, now_ms)


def _start_queued(schedule: Schedule, queued_ms: int, seen: Seen, now_ms: int) -> Decision:
    """Decide over a due time that has waited for the end of what ran."""
    pause = _pause_after_failure(schedule, seen, now_ms)
    if pause is None or schedule.fields.overlap == "replace":  # what it cancels has not failed
        return Start(queued_ms)
    result = Result(queued_ms, "paused", now_ms, pause.why)
    return Write(schedule.with_result(result, queued_ms=None, paused=pause))


def _pause_after_failure(schedule: Schedule, seen: Seen, now_ms: int) -> Pause | None:
    """Why it pauses by `pause_on_failure`; None if it does not, or goes on after a resume."""
    is_excused = schedule.running == schedule.excused
    if not schedule.fields.pause_on_failure or seen.running not in FAILED or is_excused:
        return None
    why = f"{schedule.running}, which it started before, is {seen.running} (pause_on_failure)"
    return Pause(now_ms, why, schedule.running)


def _wait(schedule: Schedule, now_ms: int) -> Decision:
    """What is done while no due time has come."""
    if schedule.paused is not None:
        return Nothing()
    times = [] if schedule.starts_ms is None else [schedule.starts_ms]
    if schedule.queued_ms is not None:
        times.append(now_ms + LOOK_AGAIN_MS)
    return Wait(min(times)) if times else Nothing()


def _decide_due(schedule: Schedule, due_ms: int, seen: Seen, now_ms: int) -> Decision:
    """Decide over a due time that has come, and for which nothing was started."""
    came = passed(schedule.fields, due_ms, now_ms - schedule.jitter_ms)
    if came.before_ms is not None:
        missed = Result(
            due_ms,
            "missed",
            now_ms,
            "a later due time had come by then",
            to_ms=None if came.before_ms == due_ms else came.before_ms,
            times=came.earlier,
        )
        # Its own write, before anything is started: repeated after a crash, even later times may
        # have come, and the row says for which one there may be a job.
        return Write(schedule.with_result(missed, due_ms=came.latest_ms))
    late_ms = now_ms - due_ms - schedule.jitter_ms
    if late_ms > max(schedule.fields.catch_up_s * 1000, GRACE_MS):
        text = f"{span(late_ms / 1000)} late; catch_up_s is {schedule.fields.catch_up_s}"
        return Write(_pass(schedule, due_ms, Result(due_ms, "missed", now_ms, text)))
    if (pause := _pause_after_failure(schedule, seen, now_ms)) is not None:
        result = Result(due_ms, "paused", now_ms, pause.why)
        return Write(_pass(schedule, due_ms, result, pause))
    if schedule.queued_ms is None and seen.lets_start(schedule):
        return Start(due_ms)
    return _overlap(schedule, due_ms, now_ms)


def _overlap(schedule: Schedule, due_ms: int, now_ms: int) -> Decision:
    """Decide over a due time while what was started before has not ended."""
    running, queued_ms = schedule.running or "?", schedule.queued_ms
    match schedule.fields.overlap:
        case "queue" if queued_ms is None:
            return Write(_queue(schedule, due_ms))
        case "queue":
            text = f"{running} has not ended, and another due time waits for it (overlap queue)"
        case "replace":
            if queued_ms is None:
                return Cancel(running, _queue(schedule, due_ms))
            text = f"a later due time took its place while {running} ended (overlap replace)"
            replaced = Result(queued_ms, "skipped", now_ms, text)
            return Cancel(running, _queue(schedule, due_ms, replaced))
        case _:
            text = f"{running} has not ended (overlap skip)"
    return Write(_pass(schedule, due_ms, Result(due_ms, "skipped", now_ms, text)))


def _queue(schedule: Schedule, due_ms: int, *results: Result) -> Schedule:
    following = next_due(schedule.fields, due_ms)
    return schedule.with_result(*results, queued_ms=due_ms, due_ms=following)


def _pass(schedule: Schedule, due_ms: int, result: Result, pause: Pause | None = None) -> Schedule:
    """The schedule with the result of its due time, due at the next one."""
    changes = {} if pause is None else {"paused": pause}
    return schedule.with_result(result, due_ms=next_due(schedule.fields, due_ms), **changes)


def started(schedule: Schedule, due_ms: int, now_ms: int, text: str = "") -> Schedule:
    """The schedule once something was started for a due time.

    Another function may have decided otherwise meanwhile, by what it saw: what runs counts, and
    that result is replaced.

        one function                    row, jobs                  another
        reads: the last one runs                                   reads: it has ended
        row: 02:00 skipped      --->    due 03:00
                                        job of 02:00      <---     puts the job of 02:00
                                        refused           <---     row: 02:00 started
                                        02:00 started     <---     reads again, row: 02:00 started
    """
    result = Result(due_ms, "started", now_ms, text)
    # Ids are in the order of due times: of two the later one is what runs.
    running = max(schedule.running or "", schedule.job_of(due_ms))
    if schedule.queued_ms == due_ms:
        return schedule.with_result(result, queued_ms=None, running=running)
    if schedule.due_ms == due_ms:
        following = next_due(schedule.fields, due_ms)
        return schedule.with_result(result, due_ms=following, running=running)
    known = schedule.result_of(due_ms)
    if known is None:
        return schedule.with_result(result, running=running)
    if known.outcome == "started":
        return schedule
    instead = [result, *_rest(schedule, known)]
    results: list[Result] = []
    for each in schedule.results:
        results += instead if each is known else [each]
    return schedule.next(results=tuple(results), running=running)


def _rest(schedule: Schedule, known: Result) -> list[Result]:
    """The result of several due times without the first of them; none if it has no other."""
    second_ms = next_due(schedule.fields, known.due_ms)
    if known.to_ms is None or second_ms is None:
        return []
    to_ms = None if second_ms == known.to_ms else known.to_ms
    times = None if known.times is None else known.times - 1
    return [replace(known, due_ms=second_ms, to_ms=to_ms, times=times)]


def refused(schedule: Schedule, due_ms: int, now_ms: int, why: str) -> Schedule:
    """The schedule once its submission was not accepted for a due time."""
    result = Result(due_ms, "refused", now_ms, why)
    if schedule.queued_ms == due_ms:
        return schedule.with_result(result, queued_ms=None)
    if schedule.due_ms == due_ms:
        return _pass(schedule, due_ms, result)
    return schedule  # decided by another function
