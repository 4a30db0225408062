"""Adapter for idempotency keys: rows of the `jobs` table that remember requests.

A row `once#<digest of tenant and key>` stands for a key. It is written before anything else and
holds the ids that the request's jobs get, and a digest of the request. A request that is sent
again, at the same time or a day later, finds these ids, so both write the same rows under the
same conditions, and the second does what a crash left undone:

    function A                   table                        function B (same key)
    claim: ids from 7  ------->  row: ids from 7
                                 refused, the row is returned <------  claim: ids from 9
    (killed here)                job 7 is not there           <------  get
                                 job 7                        <------  put, as A would have
    put job 7, if not there -->  refused: the job is there

Neither waits for the other, and there is no lock that has to expire. docs/decisions/0522 says
what it costs and why Powertools' utility is not used.
"""

from contextlib import suppress

from joblane.aws.job.items import key
from joblane.aws.table import ConditionFailed, Row, Store
from joblane.job.idempotency import WINDOW_S, Claim, IdempotencyKey

_SORT_KEY = "ONCE"


class IdempotencyStore(Store):
    """Reads and writes the rows of keys."""

    def claim(self, used: IdempotencyKey, first_id: str, now_s: int) -> Claim:
        """Give a request its ids, or return those that it was given: one write unit."""
        row = {
            **_key(used.row),
            "digest": used.digest,
            "first_id": first_id,
            "expires_at": now_s + WINDOW_S,
        }
        # TTL deletes late: an expired row counts as absent.
        absent = "attribute_not_exists(job_id) OR expires_at <= :now"
        try:
            self._table.put(row, absent, now=now_s)
        except ConditionFailed as failure:
            # The SDK repeats a call whose answer was lost, and finds its own row.
            if failure.row["first_id"] != first_id:
                return _claim(failure.row, used)
        return Claim(first_id, same=True, repeated=False)

    def is_known(self, used: IdempotencyKey, now_s: int) -> bool:
        """Whether a request with this key was accepted before."""
        row = self._table.get(_key(used.row))
        return row is not None and bool(row["expires_at"] > now_s)

    def read_deleted(self, used: IdempotencyKey) -> frozenset[str]:
        """Return the jobs of a request that were deleted by now.

        Call it after a job was not found: `note_deletion` precedes the deletion.
        """
        return _claim(self._table.get(_key(used.row)) or {}, used).deleted

    def note_coalesced(self, used: IdempotencyKey, job_id: str, other_id: str, now_s: int) -> None:
        """Note that another job stands for one of the request's: a write unit.

        So a repeated request is answered with the same job, even if that has ended by then.
        """
        with suppress(ConditionFailed):  # expired by now: the key is free again
            self._table.update(
                _key(used.row),
                "ADD #coalesced :pairs",
                "attribute_exists(job_id) AND expires_at > :now",
                pairs=frozenset({f"{job_id} {other_id}"}),
                now=now_s,
            )

    def note_deletion(self, row: str, job_id: str, now_s: int) -> None:
        """Note that a job is being deleted, so that its request does not create it again."""
        with suppress(ConditionFailed):  # expired by now: the key is free again
            self._table.update(
                _key(row),
                "ADD #deleted :ids",
                "attribute_exists(job_id) AND expires_at > :now",
                ids=frozenset({job_id}),
                now=now_s,
            )


def _key(row: str) -> Row:
    return key(f"once#{row}", _SORT_KEY)


def _claim(row: Row, used: IdempotencyKey) -> Claim:
    return Claim(
        first_id=row.get("first_id", ""),
        same=row.get("digest") == used.digest,
        repeated=True,
        deleted=row.get("deleted", frozenset()),
        coalesced=dict(pair.split() for pair in row.get("coalesced", ())),
    )
