"""Adapter for the `jobs` and `keys` tables: a job and its key's row, written together.

A key's row lists its jobs, and a job names its key. One transaction writes both, on condition that
the row is as it was read, so neither is ever without the other:

    two submissions at once

    submission A                 keys, jobs                submission B
    reads version 3                                        reads version 3
    transaction  ------------->  version 4, job A
                                 refused           <-----  transaction
                                                           reads version 4, decides anew

    killed between the message and the transaction

    submission                   lane               keys, jobs
    send  -------------------->  message
    (killed here)                                   no job, key unchanged
                                 an agent finds no job, and discards it after a minute

    changed between the message and the transaction

    submission                   lane               keys, jobs             sequel
    reads version 4, free
    send  -------------------->  message
    transaction  -------------------------------->  refused: version 5
    reads version 5, taken
    transaction  -------------------------------->  version 6, job waiting
                                 an agent finds it waiting, and deletes it
                                 message   <-----------------------------  grants the slot

    a holder has ended, and nothing has brought its end (docs/decisions/1304)

    submission                   keys, jobs                sequel
    reads version 4: A holds the slot, B waits
    reads A: ended
    transaction  ------------->  version 5: B holds the slot; this job waits
    grants B as sequel would (`joblane.service.key.release`)
                                 unchanged         <-----  the end of A, if it comes at all
    had A been retried meanwhile, the key would be at version 5, and this one refused

    a restart under another key, while the end of the job's earlier attempt is late or lost

    restart                      keys, jobs                sequel
                                 K1: A holds slot 7; A dead, names K1
    reads K1, K2
    transaction  ------------->  K1: A is out, B holds slot 8; K2: A holds slot 3; A names K2
    grants B as sequel would
                                 K1 unchanged      <-----  the end of A under K1, if it comes at all
    K1 is a part of the transaction only if it lists A when it is read. A job that has ended is
    listed by nobody but its own restart, and that changes its row: then this one is refused

    released while a submission decides

    submission                   keys, jobs                sequel
    reads version 4, full
                                 version 5         <-----  frees a slot
    409: that was so when it was read; one that had decided to wait is refused by
    version 5, and gets the slot
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from joblane.aws.job.items import key, key_of
from joblane.aws.job.jobs import JobStore, Refused
from joblane.aws.key.keys import KeyStore, StoredKey
from joblane.aws.table import Item, Row, TransactionRefused
from joblane.errors import Changed
from joblane.job.head import Head
from joblane.key.decide import SeenJob
from joblane.key.segments import KeyName
from joblane.key.state import KeyState
from joblane.state.lifecycle import State
from joblane.state.timeline import Step

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient


@dataclass(frozen=True, slots=True)
class KeyWrite:
    """The next state of a key."""

    seen: StoredKey
    """The key as it was read."""
    state: KeyState
    now_ms: int


@dataclass(frozen=True, slots=True)
class Skip:
    """A job that a newer one of its key replaces, unless it has started."""

    job_id: str
    step: Step
    expires_at: int


class KeyedJobs(JobStore):
    """Reads and writes jobs, those with a key together with its row."""

    def __init__(self, client: "DynamoDBClient", table: str, keys: KeyStore) -> None:
        super().__init__(client, table)
        self.keys = keys

    def put_keyed(
        self, head: Head, write: KeyWrite, skip: Skip | None = None, seen: Head | None = None
    ) -> Head:
        """Store a new job with its key: four write units, and one for the index.

        If it resubmits a job, it is named on that one as well; `seen` is that one as it was read,
        of a bulk operation (`put_resubmitted`). Returns the job as it is in the table: one that is
        there was written by an earlier request with the same Idempotency-Key, or by this one, if
        its answer was lost.

        Raises Changed: decide anew, because the key has changed since, or the job to skip has
        started. Raises Refused if the job that it resubmits is deleted, or not as it was seen.
        """
        writes = [self._key(write), self.as_put_new(head), *self._skip(skip)]
        if head.resubmit_of is not None:
            writes.append(self.as_resubmitted(head, seen))
        try:
            self._table.transact(writes)
        except TransactionRefused as refusal:
            if found := refusal.row(1):
                return self._complete(found)
            if head.resubmit_of is not None and refusal.has_failed(len(writes) - 1):
                raise self.original_changed(refusal, len(writes) - 1) from refusal
            raise _changed() from refusal
        return head

    def move_keyed(
        self, head: Head, after: Head, *writes: KeyWrite, skip: Skip | None = None
    ) -> None:
        """Make `after` of a stored job together with its key, or the two that it leaves and gets.

        Raises Changed as `put_keyed`, and Refused with the job as it is if it has changed.
        """
        try:
            beside = self.as_submission(head, after, after.timeline[-1].at_ms)
            changes = [self.as_change(head, after), *beside]
            self._table.transact([*changes, *map(self._key, writes), *self._skip(skip)])
        except TransactionRefused as refusal:
            if not refusal.has_failed(0):
                raise _changed() from refusal
            row = refusal.row(0)
            if row and row["timeline"][-1] == after.timeline[-1].encode():
                return  # written before, and the answer was lost
            raise Refused(self._complete(row) if row else None) from refusal

    def read_seen(self, name: KeyName, job_ids: Collection[str]) -> dict[str, SeenJob]:
        """Read jobs of a key, those whose row names it: one request for each hundred.

        A job that was started again under another key is not of this one, whatever its row lists.
        """
        rows = self._table.get_many([key(job_id) for job_id in job_ids], consistent=True)
        return {
            row["job_id"]: SeenJob(State(row["state"]), row.get("slot"), not _not_started(row))
            for row in rows
            if key_of(row) == name
        }

    def _key(self, write: KeyWrite) -> Item:
        return self.keys.as_write(write.seen, write.state, write.now_ms)

    def _skip(self, skip: Skip | None) -> Sequence[Item]:
        if skip is None:
            return ()
        return (self.as_skip(skip.job_id, skip.step, skip.expires_at),)


def _not_started(row: Row) -> bool:
    """Whether a job is as `JobMoves.as_skip` requires it."""
    state = State(row["state"])
    return state is State.WAITING or (state is State.PENDING and int(row["epoch"]) == 0)


def _changed() -> Changed:
    return Changed("the key, or a job that it holds, has changed since it was read")
