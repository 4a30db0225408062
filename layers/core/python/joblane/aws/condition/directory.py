"""Adapter for the directory in the `conditions` table: the conditions of each tenant.

A row (`TENANT#<tenant>`, condition) says that jobs of a tenant have joined a condition since it
was opened. The first to join puts it, and the execution that finds the list empty deletes it.
Both compare `since`, the time of the opening: a row of another opening is ignored
(docs/decisions/0304).
"""

from dataclasses import dataclass

from joblane.aws.condition.items import OWN, row_key, tenant_start, to_state
from joblane.aws.table import Row, Store
from joblane.condition.state import ConditionState, Phase

COUNTED = 100
"""Most jobs of a tenant that are counted for a condition."""


def directory_key(tenant: str, condition: str) -> Row:
    """Key of a tenant's row for a condition. No kind of condition begins with a capital."""
    return row_key(f"TENANT#{tenant}", condition)


@dataclass(frozen=True, slots=True)
class Listed:
    """A condition for which jobs of a tenant wait."""

    row: ConditionState
    waiting: int
    """How many of the tenant's jobs wait, at most `COUNTED`."""
    more: bool
    """Whether more wait."""
    first_ms: int
    """When the one of these that waits longest blocked."""


class Directory(Store):
    """Reads which conditions block a tenant's jobs."""

    def page(
        self, tenant: str, *, limit: int, after: str | None
    ) -> tuple[list[Listed], str | None]:
        """Read up to `limit` conditions by name, from the name `after` on.

        One query, one batch of their rows, and one query each to count waiting jobs, however long
        their lists are. Returns the name to continue from, or None at the end.
        """
        condition, values = "#condition = :tenant", {"tenant": f"TENANT#{tenant}"}
        if after is not None:
            condition, values = f"{condition} AND sk > :after", {**values, "after": after}
        entries, following = self._table.query(condition, values, Limit=limit)
        keys = [row_key(entry["sk"], OWN) for entry in entries]
        rows = {row["condition"]: to_state(row) for row in self._table.get_many(keys)}
        found = [
            self._list(tenant, row, entry["joined_at"])
            for entry in entries
            if (row := rows.get(entry["sk"])) is not None
            and row.phase is not Phase.CLOSED
            and row.since_ms == entry["since"]
        ]
        return (
            [listed for listed in found if listed.waiting],
            None if following is None else following["sk"],
        )

    def _list(self, tenant: str, row: ConditionState, joined_ms: int) -> Listed:
        entries, following = self._table.query(
            "#condition = :condition AND begins_with(sk, :job)",
            {"condition": row.condition, "job": tenant_start(tenant)},
            ProjectionExpression="first_at",
            Limit=COUNTED,
        )
        firsts = [entry["first_at"] for entry in entries]
        return Listed(
            row=row,
            waiting=len(firsts),
            more=following is not None,
            first_ms=min(firsts, default=joined_ms),
        )


OUTAGES = 100
"""Most declarations of a tenant that are listed."""


@dataclass(frozen=True, slots=True)
class DownDeclaration:
    """An operator's declaration that an application is down."""

    app: str
    """The application, without its tenant."""
    why: str
    until_s: int
    """Unix seconds."""


class AppStore(Store):
    """Declarations of operators about `app` conditions, in the same table.

    A row (`DOWN#<tenant>`, application) is one; those of the role platform have no tenant. So one
    query lists them, also if no job waits.
    """

    def down(self, app: str, now_s: int) -> DownDeclaration | None:
        """Read the declaration that an application is down; None if none is valid now."""
        row = self._table.get(_app_key(app))
        return None if row is None else _declaration(row, now_s)

    def outages(self, tenant: str, now_s: int) -> list[DownDeclaration]:
        """Read what is declared down by the operators of a tenant, by name, at most `OUTAGES`.

        For the tenant "" those of the role platform.
        """
        values = {"owner": _app_key(f"{tenant}/")["condition"]}
        rows, _ = self._table.query("#condition = :owner", values, Limit=OUTAGES)
        return [found for row in rows if (found := _declaration(row, now_s)) is not None]

    def declare_down(self, app: str, why: str, until_s: int) -> None:
        """Hold back all jobs that wait for an application, until Unix time `until_s` at most."""
        self._table.put({**_app_key(app), "why": why, "expires_at": until_s})

    def declare_up(self, app: str) -> None:
        """End the declaration: the next test may release the jobs that wait for the application."""
        self._table.delete(_app_key(app))


def _declaration(row: Row, now_s: int) -> DownDeclaration | None:
    if row["expires_at"] <= now_s:  # TTL deletes late
        return None
    return DownDeclaration(row["sk"], row["why"], row["expires_at"])


def _app_key(app: str) -> Row:
    """Key of an application, with its tenant. No kind of condition begins with a capital."""
    tenant, _, name = app.rpartition("/")
    return row_key(f"DOWN#{tenant}", name)
