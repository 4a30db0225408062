"""Cancels the jobs that wait for a slot of a key, and frees slots whose jobs are gone.

Sequel takes them out of the key as well, when the stream brings their ends; whoever comes second
finds nothing to do:

    this service                 jobs                       keys                   sequel
    cancel B, C if waiting ----> cancelled
    write: B, C ended  ----------------------------------->  nobody queued
                                                             unchanged  <------    B, C ended

The end of a job may have been lost (`joblane.service.key.watch`). So the same write frees the slots
of jobs that have ended or are deleted.
"""

from dataclasses import dataclass
from typing import NamedTuple

from joblane.aws.job.jobs import Refused
from joblane.aws.key.keyed_jobs import KeyedJobs
from joblane.job.head import Head
from joblane.job.moves import NotAllowed
from joblane.key.decide import End, ends_of
from joblane.key.segments import KeyName
from joblane.service.job.operations import Gone, Operations
from joblane.service.key.release import KeyRelease
from joblane.state.lifecycle import Event, State

PAGE = 50
"""Jobs that one call cancels, at most: each is a write, and a request has 29 s."""


class ClearResult(NamedTuple):
    """What a call has done."""

    cancelled: tuple[str, ...]
    """Ids of the jobs that it cancelled."""
    left: int
    """Jobs that waited behind them: call again to cancel these too."""


@dataclass(frozen=True)
class KeyClear:
    """Clears queues of keys. Every method may be called again after a crash at any point."""

    jobs: KeyedJobs
    operations: Operations
    releases: KeyRelease

    def clear(self, tenant: str, key: KeyName, why: str, now_ms: int) -> ClearResult:
        """Cancel a page of the jobs that wait for a slot of a key, the first ones first.

        A job that gets its slot meanwhile is not cancelled. Raises as `KeyRelease.release`.
        """
        state = self.jobs.keys.get(tenant, key, now_ms).state
        page = state.queued[:PAGE]
        slots = dict.fromkeys(page) | dict(state.active)
        # Read after the key: a job that is in it and has no row was deleted.
        ends = ends_of(slots, self.jobs.read_seen(key, slots))
        found = self.jobs.heads(page, consistent=True)
        cancelled = tuple(h.job_id for h in found if h.key == key and self._cancel(h, why, now_ms))
        ends += [End(job_id, None) for job_id in cancelled]
        if ends:
            self.releases.release(tenant, key, ends)
        return ClearResult(cancelled, len(state.queued) - len(page))

    def _cancel(self, head: Head, why: str, now_ms: int) -> bool:
        """Cancel a job if it waits, also if it is edited. Returns whether this has cancelled it."""
        if head.state is not State.WAITING:
            return False
        try:
            self.operations.decide(head, Event.CANCEL, why, now_ms, exact=True)
        except Refused as refusal:  # it has a slot now, has ended, or was edited
            now = refusal.head
            return now is not None and now.key == head.key and self._cancel(now, why, now_ms)
        except (NotAllowed, Gone):
            return False
        return True
