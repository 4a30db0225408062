"""Adapter for the `jobs` table: writes that change the submission of a stored job.

A submission in the head changes with the head, in one UpdateItem. One that is in a DATA item is
never changed: each edit puts an item of its own, in one transaction with the head that names it.

    reader                       table                      API
    reads the head, edit 0
                                 head: edit 1      <------  edit: head, DATA#1, in one transaction
    reads DATA  ------------->   the submission of edit 0

The earlier item expires a day later, when nobody can have read its head so long ago: neither a
request nor the stream, which keeps what it has for a day.
"""

from collections.abc import Sequence

from joblane.aws.job.items import (
    change_whole,
    data_key,
    encode_spec,
    is_in_head,
    is_inline,
    to_data,
    to_row,
)
from joblane.aws.job.table import JobTable, Refused, unchanged
from joblane.aws.table import Item, TransactionRefused
from joblane.errors import Changed
from joblane.job.head import DATA_DAYS, Head

EARLIER_S = 86_400
"""Seconds for which the submission before an edit is kept: as long as the stream keeps a record
that names it."""


class JobEdits(JobTable):
    """Changes submissions of stored jobs."""

    def edit(self, head: Head, after: Head, now_ms: int) -> None:
        """Make `after` of a job: the next edit of it, decided on `head`.

        One write, or a transaction of the head and the items with its submission. Conditional on
        state, epoch, timeline and edit of `head`:

            API                          table                      agent, or another edit
            reads pending, edit 0
                                         active            <------  claim
            edit if pending, 0  ----->   refused: decide again on the refusal's head

        Raises Refused with the job as it is, and Changed if another request was writing it.
        """
        line = after.timeline[-1].encode()
        sets, removes = change_whole(head, after)
        sets["timeline"] = [step.encode() for step in after.timeline]
        if after.waits_for is None:  # an agent may have written it since
            removes = sorted({*removes, "waits_for"})
        condition, beside = unchanged(head), self.as_submission(head, after, now_ms)
        if not beside:
            self._update(
                head.job_id,
                condition,
                lambda row: bool(row["timeline"][-1] == line),
                sets=sets,
                removes=removes,
            )
            return
        update = self._as_update(head.job_id, condition, sets=sets, removes=removes)
        self._write_with_submission(after, update, beside)

    def _write_with_submission(self, after: Head, update: Item, beside: Sequence[Item]) -> None:
        """Make the write of a job that becomes `after`, with what `as_submission` gave.

        Raises Refused with the job as it is, and Changed if another request was writing it.
        """
        try:
            self._table.transact([update, *beside])
        except TransactionRefused as refusal:
            row = refusal.row(0)
            if row and row["timeline"][-1] == after.timeline[-1].encode():
                return  # written before, and the answer was lost
            if refusal.has_failed(0):
                raise Refused(self._complete(row) if row else None) from refusal
            raise Changed("the job is being changed by another request") from refusal

    def as_submission(self, head: Head, after: Head, now_ms: int) -> list[Item]:
        """What is written beside the head, as parts of a transaction: none if both are in it.

        Nothing for a job that was not edited, or that has the submission of its group. The earlier
        submission of a group stays, since members that have ended have it.
        """
        if after.edit == head.edit or after.spec_of is not None:
            return []
        writes = []
        if not is_inline(after):
            starts_ms = after.next_at_ms or after.timeline[0].at_ms
            expires_at = max(starts_ms, now_ms) // 1000 + DATA_DAYS * 86_400
            data = to_data(after, encode_spec(after.spec), expires_at)
            writes.append(self._table.as_put(data, "attribute_not_exists(job_id)"))
        if head.group is None and not is_in_head(head):
            writes.append(
                self._table.as_update(
                    data_key(to_row(head)),
                    "SET expires_at = :soon",
                    "attribute_exists(job_id)",
                    soon=now_ms // 1000 + EARLIER_S,
                )
            )
        return writes
