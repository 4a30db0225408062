"""The job of a group after a change of its progress: what its state becomes."""

from dataclasses import replace

from joblane.group.record import Group
from joblane.group.states import SETTLES
from joblane.job.head import Head
from joblane.job.moves import apply, plan
from joblane.state.lifecycle import ENDED, Event, State
from joblane.state.retention import Retention


def with_time(before: Group | None, group: Group, now_ms: int) -> Group:
    """A group that may have begun further members, with the time of the first ones not placed.

    That is now if all before them are.
    """
    if before is None or group.placed >= before.begun:
        return group if before and group.begun == before.begun else replace(group, begun_ms=now_ms)
    return group


def advance(head: Head, group: Group, now_ms: int, retention: Retention, why: str = "") -> Head:
    """A group's job with its next progress, and the transition that follows from it.

    It ends with its last member, and is processing again when members are retried; `why` is the
    reason then. A group that ends needs no further look, so it leaves the index `wake`; one that
    is processing again is due at once, in case that its messages are never sent.
    """
    group = with_time(head.group, group, now_ms)
    after = replace(head, group=group)
    if head.state is State.PROCESSING and group.settled:
        # All pages are done, so all members have their rows.
        after = replace(after, group=replace(group, placed=group.begun))
        step = plan(after, SETTLES[group.state], now_ms, group.reason)
        expires_at = retention.expires_at(step.state, now_ms)
        return apply(after, SETTLES[group.state], step, expires_at)
    if head.state in ENDED and not group.settled:
        step = plan(after, Event.REOPEN, now_ms, f"{why}; {group.reason}")
        return apply(after, Event.REOPEN, step)
    return after
