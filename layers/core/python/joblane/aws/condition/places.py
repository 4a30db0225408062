"""Adapter for the `conditions` table: which conditions of a tenant are tested, and which wait.

An item for each tenant (`TESTED#<tenant>`) has the number of its conditions that are tested, and an
attribute for each, so that one write compares with the limit and takes a place. A condition for
which there is no place has a row (`UNTESTED#<tenant>`, condition) until it gets one
(docs/decisions/0957).
"""

import hashlib
from contextlib import suppress
from dataclasses import dataclass

from joblane.aws.condition.items import row_key
from joblane.aws.table import ConditionFailed, Row, Store


@dataclass(frozen=True, slots=True)
class Untested:
    """A condition that waits for a place."""

    condition: str
    at_ms: int
    """When a job last asked for it."""


class ConditionPlaces(Store):
    """Gives each tenant's conditions places, up to a limit."""

    def take(self, tenant: str, condition: str, limit: int | None, now_ms: int) -> bool:
        """Take a place for a condition; False if all are taken. It keeps the one that it has.

        Without a limit (None) it always gets one.
        """
        mark = _mark(condition)
        free = "" if limit is None else " AND (attribute_not_exists(#tested) OR #tested < :limit)"
        values: Row = {} if limit is None else {"limit": limit}
        try:
            self._table.update(
                _places(tenant),
                f"SET #{mark} = :now ADD #tested :one",
                f"attribute_not_exists(#{mark}){free}",
                now=now_ms,
                one=1,
                **values,
            )
        except ConditionFailed as failure:
            return mark in failure.row
        return True

    def give_back(self, tenant: str, condition: str) -> None:
        """Give back the place of a condition. Safe to repeat."""
        mark = _mark(condition)
        with suppress(ConditionFailed):
            self._table.update(
                _places(tenant),
                f"REMOVE #{mark} ADD #tested :one",
                f"attribute_exists(#{mark})",
                one=-1,
            )

    def enqueue(self, tenant: str, condition: str, now_ms: int) -> None:
        """Let a condition wait for a place."""
        self._table.update(_waits(tenant, condition), "SET #asked = :now", now=now_ms)

    def next_untested(self, tenant: str, after: str) -> Untested | None:
        """Read the next condition that waits, by name behind `after`, and then from the start."""
        for sign in (">", "<="):
            rows, _ = self._table.query(
                f"#condition = :tenant AND sk {sign} :after",
                {"tenant": _waits(tenant, after)["condition"], "after": after},
                ConsistentRead=True,
                Limit=1,
            )
            for row in rows:
                return Untested(row["sk"], row["asked"])
        return None

    def dequeue(self, tenant: str, seen: Untested) -> None:
        """Delete a condition's row, unless a job has asked again since it was read."""
        with suppress(ConditionFailed):
            key = _waits(tenant, seen.condition)
            self._table.delete(key, "#asked = :seen", seen=seen.at_ms)


def _places(tenant: str) -> Row:
    """Key of a tenant's places. No kind of condition begins with a capital."""
    return row_key(f"TESTED#{tenant}", "PLACES")


def _waits(tenant: str, condition: str) -> Row:
    return row_key(f"UNTESTED#{tenant}", condition)


def _mark(condition: str) -> str:
    """The attribute of a condition: short, since a tenant may have thousands in one item."""
    return "c" + hashlib.sha256(condition.encode()).hexdigest()[:24]
