"""Adapter for the `jobs` table: every write of a job is conditional, and most are one UpdateItem.

Submitted jobs are put here; `joblane.aws.job.claims` has the writes of agents, and
`joblane.aws.job.moves` those of operators, the clock and recovery.
"""

from dataclasses import replace

from joblane.aws.job.claims import JobClaims
from joblane.aws.job.items import encode_spec, is_inline, key, to_data, to_row
from joblane.aws.job.moves import JobMoves
from joblane.aws.job.table import Refused, WriteCondition, unchanged
from joblane.aws.table import ConditionFailed, Item, Row, TransactionRefused
from joblane.errors import Changed
from joblane.job.head import DATA_DAYS, Head

__all__ = ["JobStore", "Refused"]


class JobStore(JobClaims, JobMoves):
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

    def put_resubmitted(self, head: Head, seen: Head | None = None) -> Head:
        """Store a resubmitted job and name it on the original job: both or neither.

        `seen` is the original as it was read, of a bulk operation, which resubmits a job once and
        as it was read:

            one operator                 table                      another, or the same again
            reads failed                                            reads failed
            transaction  ------------->  job 2; job 1: as job 2
            (killed here)
                                         refused            <-----  transaction: job 3
                                         job 1: as job 2    <-----  reads, and leaves it out

        A transaction costs twice the write units of its parts; resubmitting is rare. Returns the
        job as it is in the table. Raises Refused if the original is deleted or not as it was seen,
        and Changed while another transaction writes it.
        """
        if head.resubmit_of is None:
            raise ValueError(f"job {head.job_id} has no job that it resubmits")
        try:
            self._table.transact([self.as_put_new(head), self.as_resubmitted(head, seen)])
        except TransactionRefused as refusal:
            if found := refusal.row(0):
                return self._complete(found)
            if refusal.has_failed(1):
                raise self.original_changed(refusal, 1) from refusal
            raise Changed("the job is being changed by other requests; try again") from refusal
        return head

    def as_put_new(self, head: Head) -> Item:
        """`put_new` as a part of a transaction; a long submission is stored now."""
        return self._table.as_put(self._new_row(head), "attribute_not_exists(job_id)")

    def as_resubmitted(self, head: Head, seen: Head | None = None) -> Item:
        """The write that names a job on the one that it resubmits, as a part of a transaction.

        With `seen` as in `put_resubmitted`.
        """
        where = WriteCondition("attribute_exists(job_id)")
        if seen is not None:
            same = unchanged(seen)
            where = replace(same, text=f"{same.text} AND attribute_not_exists(resubmitted_as)")
        return self._table.as_update(
            key(head.resubmit_of or ""),
            "SET resubmitted_as = :new",
            where.text,
            new=head.job_id,
            **where.values,
        )

    def original_changed(self, refusal: TransactionRefused, number: int) -> Refused:
        """The error of a transaction whose part `number`, from `as_resubmitted`, was refused."""
        row = refusal.row(number)
        return Refused(self._complete(row) if row else None)

    def _new_row(self, head: Head) -> Row:
        """The head's row; writes a long submission to DATA first."""
        spec, inline = encode_spec(head.spec), is_inline(head)
        if not inline:
            starts_ms = head.next_at_ms or head.timeline[0].at_ms
            self._table.put(to_data(head, spec, starts_ms // 1000 + DATA_DAYS * 86_400))
        return to_row(head, spec if inline else None)
