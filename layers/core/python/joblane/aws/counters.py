"""Adapter for the `counters` table: what happened in queues, by tenant and minute."""

from joblane.aws.table import Store
from joblane.queue.activity import Series, Tally

TTL_S = 2 * 3600
"""Counters are read for an hour; DynamoDB deletes expired items late."""


class CounterStore(Store):
    """Reads and writes counters: one item for each minute of a tenant's jobs in a queue."""

    def put(self, series: Series, sequence: int, tally: Tally) -> None:
        """Store the counts of one batch under its first sequence number, beside other batches.

        A batch that is delivered again begins with the same change, but may be longer or split:
        it replaces its earlier counts, and the second part has counts of its own.

            stream                       counters
            1..100  ----------------->   b1: 100
            (function dies)
            1..50   ----------------->   b1: 50
            51..100 ----------------->   b1: 50, b51: 50
        """
        self._table.update(
            {"series": _name(series.tenant, series.queue), "at_minute": series.minute},
            f"SET #b{sequence:x} = :tally, #expires_at = :expires",
            tally=tally.encode(),
            expires=series.minute * 60 + TTL_S,
        )

    def read(self, tenant: str, queue: str, since: int) -> dict[int, Tally]:
        """Read a tenant's counters of one queue from the minute `since` on, by minute.

        One request for each megabyte: an hour of a million jobs is about a fifth of that.
        """
        condition = "#series = :series AND #at_minute >= :since"
        values = {"series": _name(tenant, queue), "since": since}
        found: dict[int, Tally] = {}
        for row in self._table.query_all(condition, values):
            total = found.setdefault(row["at_minute"], Tally())
            for name, value in row.items():
                if name.startswith("b"):
                    total.add(Tally.decode(value))
        return found


def _name(tenant: str, queue: str) -> str:
    return f"{tenant}#{queue}"
