"""Adapter for the `conditions` table: conditions, and the jobs that wait for each.

A condition's partition holds its own row (`CONDITION`) and a row for each waiting job
(`JOB#<tenant>#...`, of each tenant those first that blocked first). Joining writes a row of its own
and only reads the condition's, so a thousand jobs that block at once do not contend for one item.
"""

from contextlib import suppress
from itertools import chain, islice, zip_longest

from joblane.aws.condition.directory import directory_key
from joblane.aws.condition.items import (
    AFTER_JOBS,
    JOB,
    OWN,
    after_tenant,
    row_key,
    sort_key,
    state_values,
    tenant_start,
    to_state,
    to_waiting,
    waiting_row,
)
from joblane.aws.table import ConditionFailed, Row, Store
from joblane.condition.state import ConditionState, Phase
from joblane.job.blocked import WaitingJob


class ConditionStore(Store):
    """Reads and writes conditions and their lists."""

    def put(self, condition: str, entry: WaitingJob) -> None:
        """Put a job into a condition's list."""
        self._table.put(waiting_row(condition, entry))

    def drop(self, condition: str, entry: WaitingJob) -> None:
        """Remove an entry. Safe to repeat; a job that has blocked again since has another one."""
        self._table.delete(row_key(condition, sort_key(entry)))

    def get(self, condition: str) -> ConditionState | None:
        """Read a condition's state, strongly consistent."""
        row = self._table.get(row_key(condition, OWN))
        return None if row is None else to_state(row)

    def waiting(self, condition: str, limit: int) -> list[WaitingJob]:
        """Read up to `limit` of the jobs that wait, strongly consistent."""
        return [to_waiting(row) for row in self._between(condition, JOB, AFTER_JOBS, limit)]

    def in_turn(self, condition: str, limit: int, last: str) -> list[WaitingJob]:
        """Read up to `limit` of the jobs that wait, one of each tenant after another.

        Begins with the tenant that follows `last`, so that tenants go in turn however many jobs
        each has. One query a tenant, at most `limit`; strongly consistent.
        """
        here = after_tenant(tenant_start(last))
        lists: list[list[WaitingJob]] = []
        for start, end in ((here, AFTER_JOBS), (JOB, here)):
            after = start
            while len(lists) < limit and (rows := self._between(condition, after, end, limit)):
                after = after_tenant(rows[0]["sk"])
                lists.append([to_waiting(row) for row in rows if row["sk"] < after])
        rounds = chain.from_iterable(zip_longest(*lists))
        return [entry for entry in rounds if entry is not None][:limit]

    def overdue(self, condition: str, before_ms: int, limit: int) -> list[WaitingJob]:
        """Read up to `limit` of the jobs that blocked first at `before_ms` or earlier.

        Examines the whole list for them: some twenty rows for each unit of read capacity.
        """
        rows = self._table.query_all(
            "#condition = :condition AND begins_with(sk, :job)",
            {"condition": condition, "job": JOB, "before": before_ms},
            FilterExpression="first_at <= :before",
            ConsistentRead=True,
        )
        return [to_waiting(row) for row in islice(rows, limit)]

    def _between(self, condition: str, start: str, end: str, limit: int) -> list[Row]:
        """Read up to `limit` rows between two sort keys that no row has."""
        rows, _ = self._table.query(
            "#condition = :condition AND sk BETWEEN :start AND :end",
            {"condition": condition, "start": start, "end": end},
            ConsistentRead=True,
            Limit=limit,
        )
        return rows

    def write(
        self, old: ConditionState | None, new: ConditionState, tenant: str | None = None
    ) -> ConditionState | None:
        """Replace a condition's state, if generation and phase are still those of `old`.

        Returns the state as stored, None when the write was refused. `tenant` becomes the first
        of an opening, or one more of a condition that is open. When the SDK repeats a call whose
        answer was lost, the refusal shows the same state: a success.
        """
        attributes = state_values(new)
        is_open = old is not None and old.phase is not Phase.CLOSED
        values = {name: value for name, value in attributes.items() if value is not None}
        update = "SET " + ", ".join(f"#{name} = :{name}" for name in values)
        condition = "attribute_not_exists(sk)"
        if old is not None:
            condition = "#generation = :was AND #phase = :stood"
            values |= {"was": old.generation, "stood": old.phase}
        if tenant is not None:
            values["tenants"] = frozenset({tenant})
            update += "" if is_open else ", #tenants = :tenants"
        if absent := [f"#{name}" for name, value in attributes.items() if value is None]:
            update += " REMOVE " + ", ".join(absent)
        if tenant is not None and is_open:
            update += " ADD #tenants :tenants"
        try:
            row = self._table.update(row_key(new.condition, OWN), update, condition, **values)
        except ConditionFailed as failure:
            found = to_state(failure.row) if failure.row else None
            return found if found == new else None
        return to_state(row)

    def add_tenant(self, state: ConditionState, tenant: str) -> bool:
        """Note that a tenant is in the directory of an opening; False if that was closed."""
        try:
            self._table.update(
                row_key(state.condition, OWN),
                "ADD #tenants :tenants",
                "#since = :since AND #phase <> :closed",
                tenants=frozenset({tenant}),
                since=state.since_ms,
                closed=Phase.CLOSED,
            )
        except ConditionFailed:
            return False
        return True

    def enter_directory(self, tenant: str, state: ConditionState, now_ms: int) -> None:
        """List a condition in a tenant's directory, for this opening."""
        self._table.update(
            directory_key(tenant, state.condition),
            "SET #since = :since, joined_at = :joined",
            since=state.since_ms,
            joined=now_ms,
        )

    def leave_directory(self, closed: ConditionState) -> None:
        """Remove a closed condition from its tenants' directories, unless it was opened again.

        recovery                 condition            directory            agent
        close  -------------->   closed
        read: list empty                                                   puts its job's row
                                                      since 2   <--------  enters it
                                 opening, since 2     <------------------  opens it
        delete if since 1  ------------------------>  refused
        """
        for tenant in sorted(closed.tenants):
            key = directory_key(tenant, closed.condition)
            with suppress(ConditionFailed):
                self._table.delete(key, "#since = :since", since=closed.since_ms)
