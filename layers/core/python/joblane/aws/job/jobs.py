"""Adapter for the `jobs` table: every write of a job is conditional, and most are one UpdateItem.

Submitted jobs are put here; `joblane.aws.job.claims` has the writes of agents, and
`joblane.aws.job.moves` those of operators, the clock and recovery.
"""

from joblane.aws.job.claims import JobClaims
from joblane.aws.job.edits import JobEdits
from joblane.aws.job.items import encode_spec, is_inline, key, to_data, to_row
from joblane.aws.job.moves import JobMoves
from joblane.aws.job.table import Refused
from joblane.aws.table import ConditionFailed, Item, Row, TransactionRefused
from joblane.job.head import DATA_DAYS, Head

__all__ = ["JobStore", "Refused"]


class JobStore(JobClaims, JobMoves, JobEdits):
    """Reads and writes jobs."""

    def put_new(self, head: Head) -> Head:
        """Store a job that was just submitted, and return it as it is in the table.

        A long submission (`INLINE_SPEC_BYTES`) is stored in the DATA item, which is written first:
        a head in the table always has its data. One that is too long for that is in S3 by now
        (`payload_store`).

            function                     table                      agent
            put (answer lost)  ------->  pending
                                         active, epoch 1   <------  claim
            put again (SDK's retry)  ->  refused by the condition

        Ids are random, so an existing job was written by the first try, or for the same
        Idempotency-Key (`joblane.aws.job.idempotency`).
        """
        try:
            self._table.put(self._new_row(head), "attribute_not_exists(job_id)")
        except ConditionFailed as failure:
            return self._complete(failure.row) if failure.row else head
        return head

    def put_resubmitted(self, head: Head) -> Head:
        """Store a resubmitted job and name it on the original job: both or neither.

        A transaction costs twice the write units of its parts; resubmitting is rare and done by
        hand. Returns the job as it is in the table; raises Refused if the original is deleted.
        """
        if head.resubmit_of is None:
            raise ValueError(f"job {head.job_id} has no job that it resubmits")
        try:
            self._table.transact([self.as_put_new(head), self.as_resubmitted(head)])
        except TransactionRefused as refusal:
            if found := refusal.row(0):
                return self._complete(found)
            if refusal.has_failed(1):
                raise Refused(None) from refusal
            raise
        return head

    def as_put_new(self, head: Head) -> Item:
        """`put_new` as a part of a transaction; a long submission is stored now."""
        return self._table.as_put(self._new_row(head), "attribute_not_exists(job_id)")

    def as_resubmitted(self, head: Head) -> Item:
        """The write that names a job on the one that it resubmits, as a part of a transaction."""
        return self._table.as_update(
            key(head.resubmit_of or ""),
            "SET resubmitted_as = :new",
            "attribute_exists(job_id)",
            new=head.job_id,
        )

    def _new_row(self, head: Head) -> Row:
        """The head's row; writes a long submission to DATA first."""
        spec, inline = encode_spec(head.spec), is_inline(head)
        if not inline:
            starts_ms = head.next_at_ms or head.timeline[0].at_ms
            self._table.put(to_data(head, spec, starts_ms // 1000 + DATA_DAYS * 86_400))
        return to_row(head, spec if inline else None)
