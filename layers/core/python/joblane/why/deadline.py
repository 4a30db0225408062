"""The deadline of a job, before and after it has passed, and requeue that is late."""

from collections.abc import Iterator

from joblane.formats.times import rfc3339
from joblane.why.edits import without_deadline
from joblane.why.reason import Fact, Reason
from joblane.why.situation import Situation
from joblane.why.words import at

LATE_MS = 120_000
"""The requeue function runs every minute and needs some seconds: after this it is late."""


def explain_passed_deadline(s: Situation) -> Iterator[Reason]:
    """The deadline of a job that has not started, if it has passed: nothing else matters then."""
    due_ms = s.head.deadline_ms
    if due_ms is None or due_ms > s.now_ms:
        return
    if due_ms + LATE_MS <= s.now_ms:
        yield requeue_late(s, due_ms, "its deadline passed")
    else:
        yield Reason(
            "deadline",
            f"its deadline passed at {at(due_ms, s.now_ms)}: it expires within a minute",
            _deadline(due_ms, s.now_ms),
            without_deadline(s),
        )


def explain_deadline(s: Situation) -> Iterator[Reason]:
    """The deadline that is still to come."""
    due_ms = s.head.deadline_ms
    if due_ms is not None and due_ms > s.now_ms:
        yield Reason(
            "deadline",
            f"it expires if it has not started by its deadline, {at(due_ms, s.now_ms)}",
            _deadline(due_ms, s.now_ms),
            without_deadline(s),
        )


def explain_expiry(s: Situation) -> Iterator[Reason]:
    """The deadline of a job that runs."""
    due_ms = s.head.deadline_ms
    if due_ms is not None:
        yield Reason(
            "deadline",
            f"it is stopped at its deadline, {at(due_ms, s.now_ms)}",
            _deadline(due_ms, s.now_ms),
        )


def _deadline(due_ms: int, now_ms: int) -> dict[str, Fact]:
    return {"deadline": rfc3339(due_ms), "left_s": (due_ms - now_ms) / 1000}


def requeue_late(s: Situation, due_ms: int, what: str) -> Reason:
    """The requeue function should have done something by now."""
    return Reason(
        "requeue_late",
        f"{what} at {at(due_ms, s.now_ms)}, and the requeue function, which runs every minute, has "
        "not moved the job: see the function's alarm and log",
        {"due_at": rfc3339(due_ms), "late_s": (s.now_ms - due_ms) / 1000},
    )
