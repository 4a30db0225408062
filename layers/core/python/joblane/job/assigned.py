"""What has become of a job that only one agent may run. Pure.

A job of a lane goes to another agent when its agent is lost. One that is assigned to an agent has
nowhere to go, so it ends, with what is known of that agent as the reason.
"""

from dataclasses import dataclass
from enum import Enum, auto

from joblane.formats.times import rfc3339
from joblane.job.head import Head
from joblane.state.lease import HEARTBEAT_S, LEASE_S, Heartbeat
from joblane.state.lifecycle import State


class Fate(Enum):
    """What to do with a job."""

    WAIT = auto()
    """Nothing: it has ended, or its agent may still run it."""
    NO_REPLY = auto()
    """Fail it: its agent has not claimed it in time, or has left before another attempt."""
    LOST = auto()
    """Fail it: its agent was lost while it ran the job."""
    EXPIRE = auto()
    """Its deadline has passed before it ran."""
    STOP = auto()
    """Its deadline has passed: ask its agent to stop it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do with a job, and the reason for its timeline."""

    fate: Fate
    reason: str = ""


_WAIT = Verdict(Fate.WAIT)
_BEFORE_A_START = frozenset({State.PENDING, State.RETRY, State.BLOCKED})


def judge(head: Head, agent: Heartbeat | None, now_ms: int) -> Verdict:
    """Decide what to do with an assigned job; `agent` is the row of its agent, if there is one."""
    if head.state is State.ACTIVE:
        return _while_it_runs(head, agent, now_ms)
    if head.ended:
        return _WAIT
    if _late(head, now_ms):
        return Verdict(Fate.EXPIRE, f"its deadline {head.spec.deadline} passed before it started")
    return _before_a_start(head, agent, now_ms) if head.state in _BEFORE_A_START else _WAIT


def overdue(head: Head, now_ms: int) -> str | None:
    """What a reader is told of a job that its agent has not claimed in time; None of any other.

    A claim is refused by now, so the job is certain to fail; requeue writes it.
    """
    if head.state is not State.PENDING or head.reply_by_ms is None or head.reply_by_ms > now_ms:
        return None
    seconds = head.reply_timeout_ms / 1000
    who = f"agent {head.assigned} did not respond within {seconds:g} s"
    return f"{who}; the job fails within a minute"


def _while_it_runs(head: Head, agent: Heartbeat | None, now_ms: int) -> Verdict:
    if agent is None or not agent.alive(now_ms):
        who = f"agent {head.assigned} was lost while it ran the job"
        return Verdict(Fate.LOST, f"{who}, and only it may run it; {last_seen(agent)}")
    if _late(head, now_ms) and head.cancel_requested is None:
        return Verdict(Fate.STOP, f"its deadline {head.spec.deadline} passed")
    return _WAIT


def _before_a_start(head: Head, agent: Heartbeat | None, now_ms: int) -> Verdict:
    if head.reply_by_ms is not None:
        if head.reply_by_ms > now_ms:
            return _WAIT
        seconds = head.reply_timeout_ms / 1000
        who = f"agent {head.assigned} did not respond within {seconds:g} s"
        why = why_silent(agent, now_ms)
        if agent is not None and agent.since_ms > head.timeline[-1].at_ms:
            why = f"it started again at {rfc3339(agent.since_ms)}; {why}"
        return Verdict(Fate.NO_REPLY, f"{who}: {why}")
    # It ran here before, and its agent has had the time of a lease to come back.
    gone = agent is None or not agent.alive(now_ms)
    if gone and head.timeline[-1].at_ms + LEASE_S * 1000 <= now_ms:
        who = f"agent {head.assigned} left before the job's next attempt"
        return Verdict(Fate.NO_REPLY, f"{who}, and only it may run it; {last_seen(agent)}")
    return _WAIT


def _late(head: Head, now_ms: int) -> bool:
    return head.deadline_ms is not None and head.deadline_ms <= now_ms


SILENT_MS = 3 * HEARTBEAT_S * 1000
"""After so long without a heartbeat the agent is silent, although its lease may not be over."""


def why_silent(agent: Heartbeat | None, now_ms: int) -> str:
    """What is known of an agent that has not claimed its job."""
    if agent is None or now_ms - agent.beat_ms >= SILENT_MS:
        return last_seen(agent)
    if agent.mode is not None:
        return f"it is {agent.mode}"
    if agent.trouble is not None:
        return f"it takes no jobs: {agent.trouble}"
    if agent.running >= agent.threads:
        return f"all of its {agent.threads} slots are taken; a longer reply_timeout_s waits for one"
    return "it is alive, and has not claimed the job"


def last_seen(agent: Heartbeat | None) -> str:
    """When an agent was there last."""
    if agent is None:
        return "it has left, or was never there"
    if not agent.beat_ms:
        return "its instance has ended"
    return f"its last heartbeat was at {rfc3339(agent.beat_ms)}"
