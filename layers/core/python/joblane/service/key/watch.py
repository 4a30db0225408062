"""Looks at keys that jobs have waited for long, in case the end of a job was lost.

Sequel passes slots on when the stream of the jobs table brings the end of a job. An end is lost if
nothing reads the stream while it is there (24 h), or if it was given up as too old. Then the key
keeps the slot of a job that is over, and those that wait for it would wait for ever:

    agent                    jobs                   keys                     this service
    completed  --------->    A completed            A active, B queued
                             (no record comes)
                                                    a quarter of an hour
                             A has ended   <---------------------------    reads key, then A
                                                    B active    <------    write if unchanged
                             B pending     <---------------------------    grants B

A job that was retried after it was read has another slot then, and keeps it (`release`).
"""

from collections.abc import Callable
from dataclasses import dataclass

from joblane.aws.key.keyed_jobs import KeyedJobs
from joblane.aws.key.keys import LOOK_MS, WAIT_SHARDS, StoredKey
from joblane.contract.problems import TryAgain
from joblane.errors import Unavailable
from joblane.key.decide import ends_of
from joblane.service.key.release import KeyRelease
from joblane.service.log import Log

KEYS = 25
"""Keys of a partition that one run looks at, at most: 100 in a minute."""

JOBS = 50
"""Jobs of a key that are looked at of those that wait, the first ones; all that have a slot are."""


@dataclass(frozen=True)
class KeyWatch:
    """Looks at keys that jobs have waited for long."""

    jobs: KeyedJobs
    releases: KeyRelease
    log: Log

    def look(self, now_ms: int, left_s: Callable[[], float]) -> int:
        """Look at a page of each partition while time is left. Returns how many slots were lost.

        A key that cannot be handled is looked at again in a minute. Raises Unavailable if
        the index cannot be read.
        """
        lost = 0
        for shard in range(WAIT_SHARDS):
            for seen in self.jobs.keys.waiting_page(str(shard), now_ms, limit=KEYS):
                if left_s() <= 0:
                    return lost
                try:
                    lost += self._one(seen, now_ms)
                except (Unavailable, TryAgain):
                    self.log.exception(
                        "a key could not be looked at", tenant=seen.tenant, key=seen.name.encode()
                    )
        return lost

    def _one(self, seen: StoredKey, now_ms: int) -> int:
        """Look at one key. Returns how many of its jobs had ended without leaving it."""
        slots = dict.fromkeys(seen.state.queued[:JOBS]) | dict(seen.state.active)
        ends = ends_of(slots, self.jobs.read_seen(seen.name, slots))
        lately_ms = now_ms - 2 * LOOK_MS
        self.releases.release(seen.tenant, seen.name, ends, again_since_ms=lately_ms)
        if ends:
            self.log.warning(
                "a key had jobs that were over",
                tenant=seen.tenant,
                key=seen.name.encode(),
                ended=[end.job_id for end in ends],
            )
            seen = self.jobs.keys.get(seen.tenant, seen.name, now_ms)
        self.jobs.keys.set_next_look(seen, now_ms + LOOK_MS if seen.state.queued else None)
        return len(ends)
