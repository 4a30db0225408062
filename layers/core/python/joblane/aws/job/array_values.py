"""Adapter for the `jobs` table: the values of arrays, a hundred in an item.

They lie below the id of the group's job, and are written before it:

    submission                   table                      agent
    values  ---------------->    VALUES#0000 ...
    put the group  --------->    processing
    put 100 members  ------->    100 x pending
                                 7 is active       <------  claim
                                 VALUES#0000       ------>  its value

Two requests with one Idempotency-Key have the same values, and write the same items. Those of a
request that dies in between expire.
"""

import json
from typing import Any

from joblane.aws.job.items import key
from joblane.aws.table import Row, Store
from joblane.group.record import PAGE
from joblane.job.head import Head


def values_key(group_id: str, page: int) -> Row:
    """Primary key of the item with the values of a page of members."""
    return key(group_id, f"VALUES#{page:04d}")


def all_values_keys(job: Head) -> list[Row]:
    """Primary keys of all items with the values of an array, scheduled or begun; none without."""
    if job.spec.array is None or not job.has_values:
        return []
    pages = -(-job.spec.array.jobs // PAGE)
    return [values_key(job.job_id, page) for page in range(pages)]


class ArrayValues(Store):
    """Reads and writes the values of arrays."""

    def put(self, group_id: str, values: tuple[Any, ...], expires_at: int) -> None:
        """Write the values of an array that is to be put; they expire in Unix seconds.

        A request for each 2,500 of them: four at most.
        """
        texts = [_json(values[start : start + PAGE]) for start in range(0, len(values), PAGE)]
        self._table.put_many(
            [
                {**values_key(group_id, page), "values": text, "expires_at": expires_at}
                for page, text in enumerate(texts)
            ]
        )

    def all_of(self, group: Head) -> tuple[Any, ...] | None:
        """Read all values of an array; None if they have expired. One request."""
        keys = all_values_keys(group)
        rows = self._table.get_many(keys)
        found = {row["sk"]: json.loads(row["values"]) for row in rows}
        if len(found) < len(keys):
            return None
        return tuple(value for sk in sorted(found) for value in found[sk])

    def of_member(self, member: Head) -> str | None:
        """Read the value of a member as JSON; None if it has expired. One read."""
        if member.member_of is None:
            raise ValueError(f"job {member.job_id} is no member of an array")
        where = values_key(member.member_of.group_id, member.member_of.page)
        row = self._table.get(where)
        if row is None:
            return None
        return _json(json.loads(row["values"])[member.member_of.index % PAGE])

    def delete(self, array: Head) -> None:
        """Delete all values of an array."""
        self._table.delete_many(all_values_keys(array))


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
