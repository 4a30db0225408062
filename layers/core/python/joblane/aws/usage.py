"""Adapter for the `counters` table: what limits of a tenant bound, by tenant and minute.

The items of a tenant lie beside those of its queues (`joblane.aws.counters`), in a series of its
name. Its account has the minute 0.
"""

from joblane.aws.table import ConditionFailed, Row, Store
from joblane.queue.usage import USE_TTL_S, Account, Figures, Use

ACCOUNT_TTL_S = 400 * 86_400
"""An account expires after this time without a change: longer than a job waits."""


class Recounted(Exception):
    """Another call has stored the account since it was read."""


class UsageStore(Store):
    """Reads and writes the counts of tenants."""

    def put(self, tenant: str, minute: int, sequence: int, use: Use) -> None:
        """Store the counts of one batch, as `joblane.aws.counters.CounterStore.put` does."""
        self._table.update(
            _key(tenant, minute),
            f"SET #b{sequence:x} = :use, #expires_at = :expires",
            use=use.encode(),
            expires=minute * 60 + USE_TTL_S,
        )

    def minutes(self, tenant: str, since: int) -> dict[int, Use]:
        """Read the counts from the minute `since` on, strongly consistent, by minute."""
        condition = "#series = :series AND #at_minute >= :since"
        values = {"series": tenant, "since": max(1, since)}
        found: dict[int, Use] = {}
        for row in self._table.query_all(condition, values, ConsistentRead=True):
            total = found.setdefault(row["at_minute"], Use())
            for name, value in row.items():
                if name.startswith("b"):
                    total.add(Use.decode(value))
        return found

    def account(self, tenant: str) -> tuple[Account | None, int]:
        """Read the account and its version; (None, 0) if there is none."""
        row = self._table.get(_key(tenant, 0))
        return (None, 0) if row is None else (_account(row), row["version"])

    def store(self, tenant: str, account: Account, over: int) -> None:
        """Store an account over the version `over`, which is 0 if there is none.

            projector A                  counters                   projector B
            put 12:01, b7  ----------->
            reads account 3, 12:01
                                                           <------  put 12:01, b9
                                                           <------  reads account 3, 12:01
                                         account 4         <------  store over 3
            store over 3  ------------>  refused: would not have b9

        Raises Recounted.
        """
        closed, present = account.closed, account.present
        values: Row = {
            "closed": [account.closed_minute, closed.waiting, closed.day, closed.output_bytes],
            "present": [account.at_minute, present.waiting, present.day, present.output_bytes],
            "next": over + 1,
            "expires": account.at_minute * 60 + ACCOUNT_TTL_S,
        }
        holds = "attribute_not_exists(#version)"
        if over:
            holds, values["over"] = "#version = :over", over
        try:
            self._table.update(
                _key(tenant, 0),
                "SET #closed = :closed, #present = :present, #version = :next,"
                " #expires_at = :expires",
                holds,
                **values,
            )
        except ConditionFailed as failure:
            raise Recounted from failure


def _key(tenant: str, minute: int) -> Row:
    return {"series": tenant, "at_minute": minute}


def _account(row: Row) -> Account:
    closed_minute, *closed = row["closed"]
    at_minute, *present = row["present"]
    return Account(closed_minute, Figures(*closed), Figures(*present), at_minute)
