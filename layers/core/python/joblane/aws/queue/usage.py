"""Adapter for the `counters` table: figures of a tenant and its jobs by state, by minute.

The items of a tenant lie beside those of its queues (`joblane.aws.queue.counters`), in a series of
its name. Its accounts have the minute 0. An item of a minute has attributes `b<sequence>` with the
figures of a batch, `c<sequence>` with its counts by state, and `d<sequence>` with its backlog.
"""

from dataclasses import astuple

from joblane.aws.table import ConditionFailed, Row, Store
from joblane.errors import Changed
from joblane.queue.backlog import Backlog
from joblane.queue.state_counts import StateCounts
from joblane.queue.usage import USE_TTL_S, Account, Accounts, Figures, Jobs, Settled, Use

ACCOUNT_TTL_S = 400 * 86_400
"""An account expires after this time without a change: longer than a job waits."""


class UsageStore(Store):
    """Reads and writes the counts of tenants."""

    def put(
        self,
        tenant: str,
        minute: int,
        use: tuple[int, Use] | None,
        states: tuple[int, StateCounts] | None,
        backlog: tuple[int, Backlog] | None,
    ) -> None:
        """Store the counts of one batch, as `joblane.aws.queue.counters.CounterStore.put` does.

        Each has a first sequence number of its own: a version that counts more changes must replace
        what another one has counted of the same batch.
        """
        parts, values = ["#expires_at = :expires"], Row(expires=minute * 60 + USE_TTL_S)
        if use is not None:
            parts.append(f"#b{use[0]:x} = :use")
            values["use"] = use[1].encode()
        if states is not None:
            parts.append(f"#c{states[0]:x} = :states")
            values["states"] = states[1].encode()
        if backlog is not None:
            parts.append(f"#d{backlog[0]:x} = :backlog")
            values["backlog"] = backlog[1].encode()
        self._table.update(_key(tenant, minute), f"SET {', '.join(parts)}", **values)

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
                elif name.startswith("c"):
                    total.add(Use(states=StateCounts.decode(value)))
                elif name.startswith("d"):
                    total.add(Use(backlog=Backlog.decode(value)))
        return found

    def accounts(self, tenant: str) -> tuple[Accounts | None, int]:
        """Read the accounts and their version; (None, 0) if there are none."""
        row = self._table.get(_key(tenant, 0))
        return (None, 0) if row is None else (_accounts(row), row["version"])

    def store(self, tenant: str, accounts: Accounts, over: int) -> None:
        """Store accounts over the version `over`, which is 0 if there are none.

            projector A                  counters                   projector B
            put 12:01, b7  ----------->
            reads accounts 3, 12:01
                                                           <------  put 12:01, b9
                                                           <------  reads accounts 3, 12:01
                                         accounts 4        <------  store over 3
            store over 3  ------------>  refused: would not have b9

        Raises Changed.
        """
        figures, jobs = accounts.figures, accounts.jobs
        closed, present = figures.closed, figures.present
        values: Row = {
            "closed": [figures.closed_minute, *astuple(closed)],
            "present": [figures.at_minute, *astuple(present)],
            "jobs": {
                "closed": [jobs.closed_minute, *_encode_jobs(jobs.closed)],
                "present": [jobs.at_minute, *_encode_jobs(jobs.present)],
                "counted": accounts.counted_ms,
                "settled": None if accounts.settled is None else _encode_settled(accounts.settled),
            },
            "next": over + 1,
            "expires": figures.at_minute * 60 + ACCOUNT_TTL_S,
        }
        holds = "attribute_not_exists(#version)"
        if over:
            holds, values["over"] = "#version = :over", over
        try:
            self._table.update(
                _key(tenant, 0),
                "SET #closed = :closed, #present = :present, #jobs = :jobs, #version = :next,"
                " #expires_at = :expires",
                holds,
                **values,
            )
        except ConditionFailed as failure:
            raise Changed("the accounts have changed since they were read") from failure


class UploadStore(Store):
    """Counts bytes whose upload was prepared, exactly: an item for each tenant and day.

    Its series is `uploads/TENANT`, which no queue or tenant is called, and its minute the day.
    """

    def add(self, tenant: str, day: int, size: int, most: int) -> tuple[bool, int]:
        """Count `size` bytes unless there would be more than `most` on a day (Unix time / 86,400).

        Returns whether they are counted, and how many there are: one request and one write unit.
        """
        fits = size <= most
        try:
            row = self._table.update(
                {"series": f"uploads/{tenant}", "at_minute": day},
                "SET #expires_at = :expires ADD #bytes :size",
                "attribute_not_exists(#bytes) OR #bytes <= :left",
                size=size if fits else 0,
                left=most - size if fits else most,
                expires=(day + 2) * 86_400,
            )
        except ConditionFailed as full:
            return False, int(full.row["bytes"])
        return fits, int(row["bytes"])

    def today(self, tenant: str, day: int) -> int:
        """Read how many bytes were counted on a day."""
        row = self._table.get({"series": f"uploads/{tenant}", "at_minute": day})
        return 0 if row is None else int(row["bytes"])


def _key(tenant: str, minute: int) -> Row:
    return {"series": tenant, "at_minute": minute}


def _accounts(row: Row) -> Accounts:
    closed_minute, *closed = row["closed"]
    at_minute, *present = row["present"]
    figures = Account(closed_minute, Figures(*closed), Figures(*present), at_minute)
    jobs = row["jobs"]
    settled = jobs.get("settled")
    return Accounts(
        figures,
        _jobs(jobs),
        jobs.get("counted"),
        None if settled is None else _decode_settled(settled),
    )


def _jobs(row: Row) -> Account[Jobs]:
    (closed_minute, *closed), (at_minute, *present) = row["closed"], row["present"]
    return Account(closed_minute, _decode(*closed), _decode(*present), at_minute)


def _encode_jobs(jobs: Jobs) -> list[str]:
    return [jobs.counts.encode(), jobs.backlog.encode()]


def _decode(counts: str, backlog: str) -> Jobs:
    return Jobs(StateCounts.decode(counts), Backlog.decode(backlog))


def _encode_settled(settled: Settled) -> Row:
    figures = settled.figures
    return {
        "minute": settled.minute,
        "figures": list(astuple(figures)),
        "jobs": _encode_jobs(settled.jobs),
    }


def _decode_settled(row: Row) -> Settled:
    return Settled(row["minute"], Figures(*row["figures"]), _decode(*row["jobs"]))
