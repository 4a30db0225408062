"""Adapter for the `settings` table: the settings of each queue.

One item for each queue, written by operators and read by every agent.
"""

from collections.abc import Iterable

from joblane.aws.table import ConditionFailed, Row, Store, decoded, encoded
from joblane.queue.settings import UNSET, QueueSettings
from joblane.queue.shares import Shares


class SettingsChanged(Exception):
    """The settings were changed since they were read."""


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

    def put(self, queue: str, settings: QueueSettings, *, over: int) -> None:
        """Store an operator's settings over the version `over`, which is 0 if there are none.

            operator A                   table                      operator B
            reads version 3
                                         version 4         <------  put over 3
            put over 3  ------------->   refused: reads again

        A refusal that shows these very settings means that the SDK repeated the call after a lost
        answer: a success. Raises SettingsChanged.
        """
        row = {"queue": queue, **_row(settings)}
        try:
            if over:
                self._table.put(row, "version = :over", over=over)
            else:
                self._table.put(row, "attribute_not_exists(version)")
        except ConditionFailed as failure:
            if failure.row != decoded(encoded(row)):
                raise SettingsChanged from failure

    def put_shares(self, queue: str, shares: Shares, version: int) -> None:
        """Store the current shares of `cluster_threads`; the version stays.

            requeue                      table                      operator
            reads version 3, 10 threads
                                         version 4: 4      <------  put: 4 threads
            shares of 10 if 3  ------>   refused

        Raises SettingsChanged.
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
            raise SettingsChanged from failure


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
