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

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from joblane.aws.jobs import JobStore, Refused
from joblane.aws.keys import KeyChanged, KeyStore
from joblane.aws.lanes import Lanes
from joblane.job.head import Head
from joblane.job.lifecycle import State
from joblane.job.timeline import SAME_ATTEMPT, Step
from joblane.key.decide import End, release
from joblane.key.segments import KeyName
from joblane.key.state import Grant
from joblane.service.log import Log
from joblane.service.wake_up import send_wake_up

TRIES = 10
"""Attempts to write a key whose row other calls write at the same time."""

PAUSE_S = 0.05
"""Most seconds before such an attempt, times its number."""

GRANTED = "its key has a free slot; waits in its lane for an agent with a free slot"
"""Reason of a job that got a slot."""


@dataclass(frozen=True)
class KeyRelease:
    """Releases slots of keys."""

    keys: KeyStore
    jobs: JobStore
    lanes: Lanes
    log: Log
    clock: Callable[[], float]
    """Returns Unix seconds."""

    def release(self, tenant: str, key: KeyName, ends: Sequence[End]) -> int:
        """Take ended jobs out of a key and let the next ones go; returns how many got a slot.

        Safe to repeat. Raises KeyChanged if the row changed on every try, and ClientError and
        BotoCoreError.
        """
        for attempt in range(TRIES):
            time.sleep(random.uniform(0, PAUSE_S * attempt))  # noqa: S311 - no secret
            now_ms = int(self.clock() * 1000)
            seen = self.keys.get(tenant, key, now_ms)
            released = release(seen.state, ends)
            if released.state is not None:
                try:
                    self.keys.write(seen, released.state, now_ms)
                except KeyChanged:
                    continue
            fresh = [grant for grant in released.granted if grant.job_id not in seen.state.active]
            for grant in fresh:
                self._let_go(key, grant, now_ms)
            self._let_go_again(key, set(released.granted).difference(fresh), now_ms)
            self.log.info(
                "jobs of a key ended",
                tenant=tenant,
                key=key.encode(),
                ended=[end.job_id for end in ends],
                granted=[grant.job_id for grant in fresh],
            )
            return len(fresh)
        raise KeyChanged

    def _let_go(self, key: KeyName, grant: Grant, now_ms: int) -> None:
        """Move a job that got a slot to pending, and send its message."""
        step = Step(State.PENDING, now_ms, SAME_ATTEMPT, GRANTED)
        try:
            head = self.jobs.grant(grant.job_id, key, grant.slot, step)
        except Refused as refusal:
            # It has ended, so that its own end frees the slot; or this was done before.
            if refusal.head is None or not _unclaimed(refusal.head, grant):
                return
            head = refusal.head
        send_wake_up(self.lanes, head)
        self.log.info(
            "job got a slot of its key",
            job_id=head.job_id,
            trace_id=head.trace_id,
            key=key.encode(),
            slot=grant.slot,
        )

    def _let_go_again(self, key: KeyName, grants: Iterable[Grant], now_ms: int) -> None:
        """Let jobs go that had a slot before, unless they have gone."""
        by_job = {grant.job_id: grant for grant in grants}
        if not by_job:
            return
        for head in self.jobs.heads(sorted(by_job), consistent=True):
            grant = by_job[head.job_id]
            if head.state is State.WAITING or _unclaimed(head, grant):
                self._let_go(key, grant, now_ms)


def _unclaimed(head: Head, grant: Grant) -> bool:
    """Whether a job has only been let go since it got its slot: its message may be missing.

    A second one does no harm: who receives it finds the job claimed or ended.
    """
    waited = len(head.timeline) > 1 and head.timeline[-2].state is State.WAITING
    return waited and head.state is State.PENDING and head.slot == grant.slot
