"""What to do with a message whose job could not be claimed. Pure."""

from dataclasses import dataclass
from enum import Enum, auto

from joblane.aws.queue.lanes import MAX_VISIBILITY_S
from joblane.job.head import Head
from joblane.state.lease import Heartbeat
from joblane.state.lifecycle import State

UNKNOWN_JOB_S = 60
"""Seconds after which a message without a job is deleted: its submission failed."""

HELD_ELSEWHERE_S = 60
"""How long a message is hidden while another agent runs its job."""


class Action(Enum):
    """What to do with a message."""

    DELETE = auto()
    GIVE_BACK = auto()
    TAKE_OVER = auto()
    JOIN = auto()
    """The job is blocked, and may be missing from its condition's list."""


@dataclass(frozen=True, slots=True)
class Disposal:
    """What to do with a message: `hide_s` for GIVE_BACK, the others for TAKE_OVER."""

    action: Action
    hide_s: int = 0
    why: str = ""
    lost: bool = False
    """Whether the lease of the job's agent is over; else it lives, and never began the job."""


def dispose_outdated(head: Head) -> Disposal:
    """Dispose of a message from before its job's latest edit, whatever the job's state.

    The job has a newer one, which was sent after the edit, or is when its row is due. A blocked job
    has none: its condition's list is to have it, and this message may be all that knows of it:

        agent 1                      jobs                       API            agent 2
        block  ------------------->  blocked
        (killed before it joins)
                                     blocked, edit 1   <------  edit
                                     message of edit 0  -------------------->  joins, deletes it
    """
    return Disposal(Action.JOIN if head.state is State.BLOCKED else Action.DELETE)


def dispose_missing(sent_ms: int, now_ms: int) -> Disposal:
    """Dispose of a message whose job is not in the table: not written yet, or never."""
    if now_ms - sent_ms > UNKNOWN_JOB_S * 1000:
        return Disposal(Action.DELETE)
    return Disposal(Action.GIVE_BACK, 1)


def dispose_refused(head: Head, holder: Heartbeat | None, now_ms: int, agent: str) -> Disposal:
    """Dispose of a message whose job is not free for `agent`; `holder` last claimed it.

    The message of a job that is assigned to another agent is deleted, whatever its state: only that
    one may take it over, and has a message of its own in its inbox. So is that of a job whose agent
    was to claim it earlier, which counts as failed by now.
    """
    if head.assigned not in {None, agent}:
        return Disposal(Action.DELETE)
    return _dispose(head, holder, now_ms)


def _dispose(head: Head, holder: Heartbeat | None, now_ms: int) -> Disposal:
    """Dispose of a message of a job that this agent may run.

    The message of a job that waits for a slot of its key is deleted, because the job gets one with
    its slot. It was sent before a slot that another submission got:

        submission of J              lane                  keys                  agent
        reads: a slot is free
        send  ------------------>    message
                                                           full, by another one
        J is to wait  ----------------------------------->  J queued
                                     message  --------------------------------->  J is waiting:
                                     deleted  <---------------------------------  deletes it
        (later) sequel sends ---->   message  --------------------------------->  claims J
    """
    if head.state is State.SCHEDULED:
        # Its message was delayed until run_at, and this host's clock is a little behind.
        return Disposal(Action.GIVE_BACK, max(1, _seconds_to_next(head, now_ms)))
    overdue = head.deadline_ms is not None and head.deadline_ms <= now_ms
    if head.state is State.RETRY and not overdue:
        # Its backoff was not over at the claim; it may be by now, if the answer took long.
        return Disposal(Action.GIVE_BACK, max(1, _seconds_to_next(head, now_ms)))
    if head.state is State.BLOCKED:
        return Disposal(Action.JOIN)
    if head.state is not State.ACTIVE:
        # Ended: nothing to do. Past its deadline: the requeue function expires it. Waiting: above.
        return Disposal(Action.DELETE)
    claimed_ms = head.timeline[-1].at_ms
    if holder is not None and holder.holds(head.job_id, claimed_ms, now_ms):
        return Disposal(Action.GIVE_BACK, HELD_ELSEWHERE_S)
    alive = holder is not None and holder.alive(now_ms) and claimed_ms >= holder.since_ms
    what = "does not run it: the answer to its claim was lost" if alive else "was lost"
    return Disposal(Action.TAKE_OVER, why=f"agent {head.agent} {what}", lost=not alive)


def _seconds_to_next(head: Head, now_ms: int) -> int:
    early_ms = (head.next_at_ms or now_ms) - now_ms
    return min(early_ms // 1000 + 1, MAX_VISIBILITY_S)
