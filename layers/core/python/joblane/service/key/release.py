"""Takes ended jobs out of a key, and lets the jobs go that get their slots.

The key's row is written first, then each job that got a slot is moved to pending, then its message
is sent. What is done is decided on the rows, so the same end again changes nothing, and lets those
go that a crash has left behind:

    this service                 keys                       jobs                   lane
    reads: A active, B queued
    write if unchanged  ------>  B active, slot 8
    (killed here)                                           B waiting
    again: A is not listed
    grant B if waiting  ----------------------------------> B pending, slot 8
    (killed here)
    again: A is not listed
    B pending since its grant  --------------------------------------------------> message
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from joblane.aws.job.jobs import JobStore, Refused
from joblane.aws.key.keys import KeyStore
from joblane.aws.queue.lanes import Lanes
from joblane.job.head import Head
from joblane.key.decide import End, release
from joblane.key.segments import KeyName
from joblane.key.state import Grant
from joblane.service.decide_again import decide_again
from joblane.service.job.wake_up import send_wake_up
from joblane.service.log import Log
from joblane.state.lifecycle import State
from joblane.state.timeline import SAME_ATTEMPT, Step

GRANTED = "its key has a free slot; waits in its lane for an agent with a free slot"
"""Reason of a job that got a slot."""


class Handover(NamedTuple):
    """A job that got the slot of one that had ended."""

    queue: str
    """The queue of the job that got it."""
    ended_ms: int
    """Unix time of the end in milliseconds; of the first one, if several came at once."""
    took_ms: int
    """Milliseconds from the end, by the clock of who wrote it, to the job's message; at least 0."""


class PassedOn(NamedTuple):
    """What `KeyRelease.release` has done."""

    granted: int
    """How many jobs got a slot."""
    handovers: Sequence[Handover]
    """Those that this call has moved to pending, which no other call will do again."""


@dataclass(frozen=True)
class KeyRelease:
    """Releases slots of keys."""

    keys: KeyStore
    jobs: JobStore
    lanes: Lanes
    log: Log
    clock: Callable[[], float]
    """Returns Unix seconds."""

    def release(
        self, tenant: str, key: KeyName, ends: Sequence[End], *, again_since_ms: int | None = None
    ) -> PassedOn:
        """Take ended jobs out of a key and let the next ones go.

        With `again_since_ms`, also those that have a slot and wait all the same, and those that
        became pending since and have not started: what a crash has left behind, without an end
        that comes again.

        Safe to repeat. Raises TryAgain if the row changed on every try, and Unavailable.
        """
        again = again_since_ms is not None

        def once() -> PassedOn:
            now_ms = int(self.clock() * 1000)
            seen = self.keys.get(tenant, key, now_ms)
            released = release(seen.state, ends, again=again)
            if released.state is not None:
                self.keys.write(seen, released.state, now_ms)
            fresh = [grant for grant in released.granted if grant.job_id not in seen.state.active]
            gone = [self.let_go(key, grant, now_ms) for grant in fresh]
            before = set(released.granted).difference(fresh)
            gone += self._let_go_again(key, before, again_since_ms or 0, now_ms)
            if ends:
                self.log.info(
                    "jobs of a key ended",
                    tenant=tenant,
                    key=key.encode(),
                    ended=[end.job_id for end in ends],
                    granted=[grant.job_id for grant in fresh],
                )
            return PassedOn(len(fresh), _handovers(ends, gone))

        return decide_again(once)

    def let_go(self, key: KeyName, grant: Grant, now_ms: int) -> tuple[Head, int] | None:
        """Move a job that got a slot to pending, and send its message.

        Returns the job and the Unix time in milliseconds, or None if it was moved before.
        """
        moved = True
        step = Step(State.PENDING, now_ms, SAME_ATTEMPT, GRANTED)
        try:
            head = self.jobs.grant(grant.job_id, key, grant.slot, step)
        except Refused as refusal:
            # It has ended, so that its own end frees the slot; or this was done before.
            if refusal.head is None or not _is_unclaimed(refusal.head, key, grant):
                return None
            head, moved = refusal.head, False
        send_wake_up(self.lanes, head)
        self.log.info(
            "job got a slot of its key",
            job_id=head.job_id,
            trace_id=head.trace_id,
            key=key.encode(),
            slot=grant.slot,
        )
        return (head, int(self.clock() * 1000)) if moved else None

    def _let_go_again(
        self, key: KeyName, grants: Iterable[Grant], since_ms: int, now_ms: int
    ) -> "list[tuple[Head, int] | None]":
        """Let jobs go that had a slot before, unless they have gone. Returns as `let_go`."""
        by_job = {grant.job_id: grant for grant in grants}
        if not by_job:
            return []
        gone = []
        for head in self.jobs.heads(sorted(by_job), consistent=True):
            grant = by_job[head.job_id]
            recent = head.timeline[-1].at_ms >= since_ms
            waits = head.key == key and head.state is State.WAITING
            if waits or (recent and _is_unclaimed(head, key, grant)):
                gone.append(self.let_go(key, grant, now_ms))
        return gone


def _handovers(ends: Iterable[End], gone: Iterable[tuple[Head, int] | None]) -> list[Handover]:
    """Return how long the jobs that have gone waited for their slots; none if no end has a time."""
    ended_ms = min((end.at_ms for end in ends if end.at_ms is not None), default=None)
    if ended_ms is None:
        return []
    return [
        Handover(head.queue, ended_ms, max(0, at_ms - ended_ms))
        for head, at_ms in filter(None, gone)
    ]


def _is_unclaimed(head: Head, key: KeyName, grant: Grant) -> bool:
    """Whether a job has only been let go since it got its slot: its message may be missing.

    Not one that was started again under another key. A second one does no harm: who receives it
    finds the job claimed or ended.
    """
    waited = len(head.timeline) > 1 and head.timeline[-2].state is State.WAITING
    is_there = head.state is State.PENDING and head.slot == grant.slot
    return waited and is_there and head.key == key
