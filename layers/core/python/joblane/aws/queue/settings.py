"""Adapter for the `settings` table: settings of queues, shares of limits, the summary of agents.

One item for each queue, written by operators and read by every agent, one with the shares of
tenants' limits, and one with what the agents of each queue can give, read by submissions.
"""

from collections.abc import Iterable

from joblane.aws.table import ConditionFailed, Row, Store, decode, encode
from joblane.deployment.names import AGENTS_SUMMARY, TENANT_SHARES
from joblane.errors import Changed
from joblane.fleet.serving import Capabilities, Serving
from joblane.queue.settings import UNSET, QueueSettings
from joblane.queue.shares import Shares
from joblane.queue.tenant_shares import TenantShare, TenantShares


class SettingsStore(Store):
    """Reads and writes the settings of queues."""

    def get(self, queue: str) -> QueueSettings:
        """Read one queue's settings, strongly consistent: to be changed next."""
        row = self._table.get({"queue": queue})
        return UNSET if row is None else _settings(row)

    def get_all(self, queues: Iterable[str]) -> dict[str, QueueSettings]:
        """Read many queues' settings: half a read unit each, one request for each hundred."""
        names = list(queues)
        rows = self._table.get_many([{"queue": name} for name in names])
        found = {row["queue"]: _settings(row) for row in rows}
        return {name: found.get(name, UNSET) for name in names}

    def get_for_agent(self, queues: Iterable[str]) -> tuple[dict[str, QueueSettings], TenantShares]:
        """Read the settings of an agent's queues, and the shares of tenants' limits, together."""
        names = list(queues)
        keys = [{"queue": name} for name in (*names, TENANT_SHARES)]
        found = {row["queue"]: row for row in self._table.get_many(keys)}
        shares = found.pop(TENANT_SHARES, None)
        settings = {name: _settings(found[name]) if name in found else UNSET for name in names}
        return settings, TenantShares() if shares is None else _tenant_shares(shares)

    def tenant_shares(self) -> TenantShares | None:
        """Read the shares of tenants' limits; None if they were never shared out."""
        rows = self._table.get_many([{"queue": TENANT_SHARES}])
        return _tenant_shares(rows[0]) if rows else None

    def put_tenant_shares(self, shares: TenantShares) -> bool:
        """Store the shares of tenants' limits. False if later ones are stored already.

            requeue                      table                      requeue, a minute later
            reads the agents
                                         shares of later   <------  reads the agents, stores
            store if later  -------->    refused

        The order is that of `settled_ms`, which requeue derives from its clock.
        """
        try:
            self._table.update(
                {"queue": TENANT_SHARES},
                "SET #settled = :settled, #members = :members, #tenants = :tenants",
                "attribute_not_exists(#settled) OR #settled < :settled",
                settled=shares.settled_ms,
                members=shares.members,
                tenants={
                    name: {"limit": share.limit, **_shares_row(share.shares)}
                    for name, share in shares.tenants.items()
                },
            )
        except ConditionFailed:
            return False
        return True

    def serving(self) -> Serving | None:
        """Read what the agents of each queue can give; None if it was never written.

        Half a read unit for 4 KB: some hundred queues.
        """
        rows = self._table.get_many([{"queue": AGENTS_SUMMARY}])
        return _serving(rows[0]) if rows else None

    def put_serving(self, serving: Serving, now_ms: int) -> bool:
        """Store what the agents of each queue can give. False if a later one is stored already.

        requeue                      table                      requeue, a minute later
        reads the agents
                                     summary of later  <------  reads the agents, stores
        store if later  -------->    refused
        """
        try:
            self._table.update(
                {"queue": AGENTS_SUMMARY},
                "SET #settled = :settled, #queues = :queues",
                "attribute_not_exists(#settled) OR #settled < :settled",
                settled=now_ms,
                queues={
                    name: sorted(able.encode() for able in agents)
                    for name, agents in serving.queues.items()
                },
            )
        except ConditionFailed:
            return False
        return True

    def put(self, queue: str, settings: QueueSettings, *, over: int) -> None:
        """Store an operator's settings over the version `over`, which is 0 if there are none.

            operator A                   table                      operator B
            reads version 3
                                         version 4         <------  put over 3
            put over 3  ------------->   refused: reads again

        A refusal that shows these very settings means that the SDK repeated the call after a lost
        answer: a success. Raises Changed.
        """
        row = {"queue": queue, **_row(settings)}
        try:
            if over:
                self._table.put(row, "version = :over", over=over)
            else:
                self._table.put(row, "attribute_not_exists(version)")
        except ConditionFailed as failure:
            if failure.row != decode(encode(row)):
                raise _changed() from failure

    def put_shares(self, queue: str, shares: Shares, version: int) -> None:
        """Store the current shares of `cluster_threads`; the version stays.

            requeue                      table                      operator
            reads version 3, 10 threads
                                         version 4: 4      <------  put: 4 threads
            shares of 10 if 3  ------>   refused

        Raises Changed.
        """
        try:
            self._table.update(
                {"queue": queue},
                "SET shares = :shares",
                "version = :version",
                shares=_shares_row(shares),
                version=version,
            )
        except ConditionFailed as failure:
            raise _changed() from failure


def _changed() -> Changed:
    return Changed("the settings have changed since they were read")


def _row(settings: QueueSettings) -> Row:
    return {
        "run_jobs": settings.run_jobs,
        "version": settings.version,
        "changed": settings.changed_ms or 0,
        "changed_by": settings.changed_by or "",
        "tenant": settings.tenant or "",
        "threads": settings.threads,
        "cluster_threads": settings.cluster_threads,
        "shares": None if settings.shares is None else _shares_row(settings.shares),
    }


def _shares_row(shares: Shares) -> Row:
    return {
        "each": shares.each,
        "first": shares.first,
        "last": shares.last,
        "settled": shares.settled_ms,
        "members": shares.members,
    }


def _settings(row: Row) -> QueueSettings:
    shares = row.get("shares")
    return QueueSettings(
        run_jobs=row["run_jobs"],
        threads=row.get("threads"),
        cluster_threads=row.get("cluster_threads"),
        version=row["version"],
        changed_ms=row["changed"],
        changed_by=row["changed_by"],
        tenant=row["tenant"],
        shares=None if shares is None else _shares(shares),
    )


def _shares(row: Row) -> Shares:
    return Shares(
        each=row["each"],
        first=row.get("first"),
        last=row.get("last"),
        settled_ms=row["settled"],
        members=row["members"],
    )


def _serving(row: Row) -> Serving:
    return Serving(
        {
            name: frozenset(map(Capabilities.decode, agents))
            for name, agents in row["queues"].items()
        }
    )


def _tenant_shares(row: Row) -> TenantShares:
    return TenantShares(
        settled_ms=row["settled"],
        members=row["members"],
        tenants={
            name: TenantShare(share["limit"], _shares(share))
            for name, share in row["tenants"].items()
        },
    )
