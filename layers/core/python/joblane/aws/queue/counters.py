"""Adapter for the `counters` table: what happened in queues, by tenant and minute, and by hour."""

from collections.abc import Iterable

from joblane.aws.table import Store
from joblane.queue.activity import Series, Tally
from joblane.queue.rollup import HOUR, KEPT_S

_LAST_MINUTE = 10**9  # of any counter


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
            expires=series.minute * 60 + KEPT_S,
        )

    def read(
        self, tenant: str, queue: str, since: int, until: int = _LAST_MINUTE
    ) -> dict[int, Tally]:
        """Read a tenant's counters of one queue from the minute `since` to `until`, by minute.

        One request for each megabyte: an hour of a million jobs is about a fifth of that.
        """
        condition = "#series = :series AND #at_minute BETWEEN :since AND :until"
        values = {"series": _name(tenant, queue), "since": since, "until": until}
        found: dict[int, Tally] = {}
        for row in self._table.query_all(condition, values):
            total = found.setdefault(row["at_minute"], Tally())
            for name, value in row.items():
                if name.startswith("b"):
                    total.add(Tally.decode(value))
        return found

    def put_hour(self, tenant: str, queue: str, hour: int, tallies: Iterable[Tally]) -> None:
        """Store the counts of an hour by five minutes, over the same ones or none.

        They are a series of their own, so that no reader of minutes meets them.
        """
        self._table.put(
            {
                "series": _name_of_hours(tenant, queue),
                "at_minute": hour * HOUR,
                "tallies": [tally.encode() for tally in tallies],
                "expires_at": hour * HOUR * 60 + KEPT_S,
            }
        )

    def hours(self, tenant: str, queue: str, since: int) -> dict[int, list[Tally]]:
        """Read the stored hours of one queue from the hour `since` on."""
        condition = "#series = :series AND #at_minute >= :since"
        values = {"series": _name_of_hours(tenant, queue), "since": since * HOUR}
        rows = self._table.query_all(condition, values)
        return {row["at_minute"] // HOUR: list(map(Tally.decode, row["tallies"])) for row in rows}


def _name_of_hours(tenant: str, queue: str) -> str:
    return f"{_name(tenant, queue)}#hours"


def _name(tenant: str, queue: str) -> str:
    return f"{tenant}#{queue}"
