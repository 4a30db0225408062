"""Why a job that runs has not ended: where it runs, and what would stop it."""

from collections.abc import Iterator

from joblane.formats.text import span
from joblane.formats.times import rfc3339
from joblane.job.assigned import last_seen
from joblane.job.fields import GRACE_S
from joblane.state.lifecycle import State
from joblane.why.agents import is_silent
from joblane.why.deadline import explain_expiry
from joblane.why.reason import Reason
from joblane.why.situation import Situation
from joblane.why.words import at


def explain_active(s: Situation) -> Iterator[Reason]:
    """Reasons of a job that an agent runs."""
    yield from _explain_stopping(s)
    yield from _explain_lost(s)
    yield _explain_running(s)
    yield from explain_expiry(s)


def _claimed_ms(s: Situation) -> int:
    return next(
        (step.at_ms for step in reversed(s.head.timeline) if step.state is State.ACTIVE),
        s.head.timeline[-1].at_ms,
    )


def _explain_stopping(s: Situation) -> Iterator[Reason]:
    if s.head.cancel_requested is not None:
        yield Reason(
            "cancel_requested",
            f"it was asked to stop: {s.head.cancel_requested}; its agent sends SIGTERM, and "
            "SIGKILL 10 s later",
            {"requested": s.head.cancel_requested, "agent": s.head.agent},
        )


def _explain_lost(s: Situation) -> Iterator[Reason]:
    head, row = s.head, s.agent
    if row is None or not row.alive(s.now_ms):
        text = f"agent {head.agent} that runs it is gone: {last_seen(row)};"
    elif not row.holds(head.job_id, _claimed_ms(s), s.now_ms):
        text = f"agent {head.agent} does not list the job: it was started anew, or lost its claim;"
    elif is_silent(row, s.now_ms):
        ends_ms = row.beat_ms + row.lease_s * 1000
        text = (
            f"agent {head.agent} that runs it has sent no heartbeat since "
            f"{at(row.beat_ms, s.now_ms)}; if none comes, its lease ends at "
            f"{at(ends_ms, s.now_ms)}, and then"
        )
    else:
        return
    if not head.spec.restartable or head.assigned is not None:
        then = "the job ends failed"
    else:
        then = f"a live agent of queue {head.queue} takes it over, within minutes if there is one"
    yield Reason(
        "agent_lost",
        f"{text} {then}",
        {
            "agent": head.agent,
            "last_seen_at": None if row is None or not row.beat_ms else rfc3339(row.beat_ms),
            "lease_ends_at": None if row is None else rfc3339(row.beat_ms + row.lease_s * 1000),
            "restartable": head.spec.restartable,
        },
        (f"joblane get {head.job_id}",),
    )


def _explain_running(s: Situation) -> Reason:
    head, row = s.head, s.agent
    since_ms, most = _claimed_ms(s), head.spec.retry.max_attempts
    stops_ms = since_ms + round(head.spec.timeout_s * 1000)
    text = (
        f"attempt {head.attempt} of {most} runs on agent {head.agent} since "
        f"{at(since_ms, s.now_ms)}"
    )
    said = None if row is None else row.progress_of(head.job_id, head.epoch)
    if said is not None:
        text += f"; it reported {said.text} at {at(said.at_ms, s.now_ms)}"
    text += (
        f"; it is stopped at about {at(stops_ms, s.now_ms)} (timeout_s, "
        f"{span(head.spec.timeout_s)} from its start), and killed {GRACE_S} s later"
    )
    return Reason(
        "running",
        text,
        {
            "agent": head.agent,
            "since_at": rfc3339(since_ms),
            "ran_s": (s.now_ms - since_ms) / 1000,
            "attempt": head.attempt,
            "max_attempts": most,
            "percent": None if said is None else said.percent,
            "message": None if said is None else said.message,
            "reported_at": None if said is None else rfc3339(said.at_ms),
            "stops_at": rfc3339(stops_ms),
        },
        (f"joblane logs -f {head.job_id}",),
    )
