"""Why a job does not start: those that a lane or an inbox holds, and those that wait for a time."""

from collections.abc import Iterator

from joblane.formats.times import rfc3339
from joblane.state.lifecycle import State
from joblane.why.deadline import LATE_MS, explain_deadline, explain_passed_deadline, requeue_late
from joblane.why.queue import explain_gone, explain_queue_hold, explain_retired, is_gone
from joblane.why.reason import Reason
from joblane.why.situation import Situation
from joblane.why.start import explain_start
from joblane.why.words import at, clock


def explain_pending(s: Situation) -> Iterator[Reason]:
    """Reasons of a job whose message is in its lane, or in the inbox of its agent."""
    yield from explain_passed_deadline(s)
    if is_gone(s):
        yield from explain_gone(s)
    else:
        yield from explain_queue_hold(s)
        yield from explain_start(s)
        yield from explain_retired(s)
    yield from last_attempt(s)
    yield from explain_deadline(s)


def explain_retry(s: Situation) -> Iterator[Reason]:
    """Reasons of a job between two attempts."""
    head = s.head
    if head.next_at_ms is None or head.next_at_ms <= s.now_ms:
        yield from explain_pending(s)
        return
    yield from explain_passed_deadline(s)
    most = head.spec.retry.max_attempts
    yield Reason(
        "backoff",
        f"attempt {head.attempt} of {most} failed, and the next one starts at "
        f"{at(head.next_at_ms, s.now_ms)}",
        {
            "next_at": rfc3339(head.next_at_ms),
            "wait_s": (head.next_at_ms - s.now_ms) / 1000,
            "attempt": head.attempt,
            "max_attempts": most,
        },
    )
    yield from last_attempt(s)
    yield from explain_gone(s)
    yield from explain_queue_hold(s)
    yield from explain_retired(s)
    yield from explain_deadline(s)


def explain_scheduled(s: Situation) -> Iterator[Reason]:
    """Reasons of a job whose `run_at` has not come."""
    yield from explain_passed_deadline(s)
    due_ms = s.head.next_at_ms
    if due_ms is not None:
        if due_ms + LATE_MS <= s.now_ms:
            yield requeue_late(s, due_ms, "its run_at came")
        else:
            then = "enters its lane" if s.head.spec.target is None else "is sent to its agents"
            if s.head.spec.array is not None:
                then = "begins"
            yield Reason(
                "run_at",
                f"its run_at is {at(due_ms, s.now_ms)}; it {then} within a minute after that",
                {"run_at": rfc3339(due_ms), "wait_s": max(0, (due_ms - s.now_ms) / 1000)},
            )
    yield from explain_gone(s)
    yield from explain_queue_hold(s)
    yield from explain_retired(s)
    yield from explain_deadline(s)


def last_attempt(s: Situation) -> Iterator[Reason]:
    """How the attempt before ended, of a job that was started before."""
    head = s.head
    ends = [
        step
        for before, step in zip(head.timeline, head.timeline[1:], strict=False)
        if before.state is State.ACTIVE and step.state is not State.ACTIVE
    ]
    if not ends:
        return
    step, most = ends[-1], head.spec.retry.max_attempts
    yield Reason(
        "last_attempt",
        f"the attempt before ended at {clock(step.at_ms)}: {step.full_reason}",
        {
            "attempt": step.attempt,
            "max_attempts": most,
            "outcome": head.outcome,
            "exit_code": head.exit_code,
        },
        (f"joblane logs {head.job_id}",),
    )
