"""What follows the end of a job with a key: its slot goes to the job that waits first.

The ends of one key in a batch of the stream are handled in one write of the key's row. The row is
written first, then each job that got a slot is moved to pending, then its message is sent. What is
done is decided on the rows, so an event that comes again changes nothing, and lets those go that a
crash has left behind:

    sequel                       keys                       jobs                   lane
    reads: A active, B queued
    write if unchanged  ------>  B active, slot 8
    (killed here)                                           B waiting
    again: A is not listed
    grant B if waiting  ----------------------------------> B pending, slot 8
    (killed here)
    again: A is not listed
    B pending since its grant  --------------------------------------------------> message

An end that is lost nevertheless leaves its slot taken; `joblane.service.key_clear` frees it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from joblane.aws.job_ends import read_end
from joblane.aws.jobs import JobStore, Refused
from joblane.aws.keys import KeyChanged, KeyStore
from joblane.aws.lanes import Lanes
from joblane.job.head import SAME_ATTEMPT, Head, Step
from joblane.job.lifecycle import State
from joblane.key.decide import End, release
from joblane.key.segments import KeyName
from joblane.key.state import Grant
from joblane.service.log import Log
from joblane.service.wake_up import send_wake_up

TRIES = 10
"""Attempts to write a key whose row other calls write at the same time."""

AT_ONCE = 8
"""Keys that are handled at the same time; each waits for AWS most of the time."""

GRANTED = "its key has a free slot; waits in its lane for an agent with a free slot"
"""Reason of a job that got a slot."""

Keyed = tuple[str, KeyName]
"""A tenant and the name of one of its keys."""


@dataclass(frozen=True)
class Sequel:
    """Handles batches of the stream."""

    keys: KeyStore
    jobs: JobStore
    lanes: Lanes
    _: KW_ONLY
    put_aside: Callable[[Mapping[str, Any]], None]
    """Sends the description of what cannot be handled to an operator."""
    log: Log
    clock: Callable[[], float]
    """Returns Unix seconds."""
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    def handle(self, records: Iterable[Mapping[str, Any]]) -> int:
        """Handle a batch of stream records; returns how many jobs got a slot.

        A record or a key that cannot be handled is put aside, so that it does not block the stream.
        Raises ClientError, BotoCoreError and KeyChanged, after all other keys of the batch, when a
        table or a lane cannot be reached; Lambda then delivers the batch again.
        """
        with self.pool(AT_ONCE) as pool:
            results = list(pool.map(self._one, self._ends(records).items()))
        for result in results:
            if isinstance(result, Exception):
                raise result
        return sum(result for result in results if isinstance(result, int))

    def release(self, tenant: str, key: KeyName, ends: Sequence[End]) -> int:
        """Take ended jobs out of a key and let the next ones go; returns how many got a slot.

        Safe to repeat. Raises KeyChanged if the row changed on every try, and the AWS errors.
        """
        for left in reversed(range(TRIES)):
            now_ms = int(self.clock() * 1000)
            seen = self.keys.get(tenant, key, now_ms)
            released = release(seen.state, ends)
            if released.state is not None:
                try:
                    self.keys.write(seen, released.state, now_ms)
                except KeyChanged:
                    if not left:
                        raise
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
        raise AssertionError("the last try returns or raises")

    def _ends(self, records: Iterable[Mapping[str, Any]]) -> dict[Keyed, list[End]]:
        found: defaultdict[Keyed, list[End]] = defaultdict(list)
        for record in records:
            try:
                ended = read_end(record)
            except Exception as error:
                # One record must never block the stream.
                self.log.exception("stream record put aside")
                stream = record.get("dynamodb") or {}
                self._put_aside(
                    f"a stream record cannot be read: {type(error).__name__}",
                    keys=stream.get("Keys"),
                    sequence=stream.get("SequenceNumber"),
                )
                continue
            if ended is not None:
                found[ended.tenant, ended.key].append(ended.end)
        return found

    def _one(self, ended: tuple[Keyed, list[End]]) -> int | Exception:
        """Handle the ends of one key. Returns how many jobs got a slot, or why to come again."""
        (tenant, key), ends = ended
        names = {"key": f"{tenant}#{key.encode()}", "jobs": [end.job_id for end in ends]}
        try:
            return self.release(tenant, key, ends)
        except (BotoCoreError, ClientError, KeyChanged) as error:
            self.log.exception("jobs of a key ended, which will be handled again", **names)
            return error
        except Exception as error:
            # One key must never block those of others.
            self.log.exception("ends of jobs put aside", **names)
            self._put_aside(f"a key cannot be handled: {type(error).__name__}", **names)
            return 0

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

    def _put_aside(self, problem: str, **details: object) -> None:
        """Describe to an operator what cannot be handled, without the content of jobs."""
        try:
            self.put_aside({"source": "sequel", "problem": problem, **details})
        except (BotoCoreError, ClientError):
            self.log.exception("could not be put aside; it is in this log only")


def _unclaimed(head: Head, grant: Grant) -> bool:
    """Whether a job has only been let go since it got its slot: its message may be missing.

    A second one does no harm: who receives it finds the job claimed or ended.
    """
    waited = len(head.timeline) > 1 and head.timeline[-2].state is State.WAITING
    return waited and head.state is State.PENDING and head.slot == grant.slot
