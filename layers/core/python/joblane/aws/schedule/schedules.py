"""Adapter for the schedules in the `jobs` table: each write is made on the row as it was read."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from joblane.aws.schedule.items import (
    KEPT,
    RESULT_BYTES,
    ROW,
    SHARDS,
    TEMPLATE,
    decode_results,
    encode_results,
    from_row,
    from_template,
    key,
    page_sk,
    shard,
    tenant_value,
    to_page,
    to_row,
    to_template,
)
from joblane.aws.table import ConditionFailed, Row, Store, TransactionRefused
from joblane.errors import Changed
from joblane.schedule.fields import Template
from joblane.schedule.record import Schedule
from joblane.schedule.results import Result

__all__ = ["SHARDS", "ScheduleExists", "ScheduleStore"]

UNCHANGED: Final = "step = :seen AND created = :created"
"""Condition of a write: the row is as it was read, and of the same schedule."""


class ScheduleExists(Changed):
    """The tenant has a schedule of this name."""


class ScheduleChanged(Changed):
    """The row was written, or deleted, since it was read."""

    def __init__(self) -> None:
        super().__init__("the schedule is being changed by other requests; try again")


class ScheduleStore(Store):
    """Reads and writes schedules."""

    def get(self, tenant: str, name: str) -> Schedule | None:
        """Read one schedule, strongly consistent."""
        row = self._table.get(key(tenant, name))
        return None if row is None else from_row(row)

    def template(self, tenant: str, name: str) -> Template | None:
        """Read what a schedule starts, strongly consistent."""
        row = self._table.get(key(tenant, name, TEMPLATE))
        return None if row is None else from_template(row)

    def page(
        self, tenant: str, *, limit: int, after: str | None
    ) -> tuple[list[Schedule], str | None]:
        """Read a tenant's schedules by name, at most `limit`, after a name.

        Two requests, as a page of jobs. Also returns the name to continue after; None at the end.
        """
        start = None if after is None else {**key(tenant, after), "tenant": tenant_value(tenant)}
        rows, following = self._table.query(
            "tenant = :tenant",
            {"tenant": tenant_value(tenant)},
            start=start,
            IndexName="by_tenant",
            Limit=limit,
        )
        found = self._read([row["job_id"] for row in rows])
        last = None if following is None else str(following["job_id"]).partition("/")[2]
        return sorted(found, key=lambda each: each.name), last

    def due_page(
        self, number: int, now_ms: int, *, limit: int, after: Row | None
    ) -> tuple[list[Schedule], Row | None]:
        """Read schedules of one shard whose `wake_at` has passed, the earliest first.

        As `JobTable.due_page`; the rows are read eventually consistently: what is sent for one that
        has moved on is discarded, and what is overlooked is found a minute later.
        """
        rows, following = self._table.query(
            "wake = :shard AND wake_at <= :now",
            {"shard": shard(number), "now": now_ms},
            start=after,
            IndexName="wake",
            Limit=limit,
        )
        return self._read([row["job_id"] for row in rows]), following

    def _read(self, ids: Sequence[str]) -> list[Schedule]:
        rows = self._table.get_many([{"job_id": each, "sk": ROW} for each in ids])
        return [from_row(row) for row in rows]

    def put_new(self, schedule: Schedule, template: Template, now_ms: int) -> None:
        """Store a new schedule with what it starts. Raises ScheduleExists."""
        new = "attribute_not_exists(job_id)"
        writes = [
            self._table.as_put(to_row(schedule, now_ms), new),
            self._table.as_put(to_template(schedule, template)),
        ]
        try:
            self._table.transact(writes)
        except TransactionRefused as refusal:
            if refusal.has_failed(0):
                raise ScheduleExists(f"there is a schedule {schedule.name}") from refusal
            raise ScheduleChanged from refusal

    def write(
        self, seen: Schedule, after: Schedule, now_ms: int, template: Template | None = None
    ) -> Schedule:
        """Write a schedule over the row as it was read, and what it starts if that changes.

        Older results move to an item first, which another function may write as well:

            one function             row: 20 results, page 7          another
            puts page 7  -------->   page 7
                                     page 7, again         <--------  puts page 7
            row: page 8  -------->   4 results, page 8
                                     refused               <--------  row: page 8

        Returns what was written. Raises ScheduleChanged if the row is another one by then.
        """
        after = self._move_results(after, now_ms)
        row = to_row(after, now_ms)
        same = {"seen": seen.step, "created": seen.created_ms}
        try:
            if template is None:
                self._table.put(row, UNCHANGED, **same)
            else:
                self._table.transact(
                    [
                        self._table.as_put(row, UNCHANGED, **same),
                        self._table.as_put(to_template(after, template)),
                    ]
                )
        except (ConditionFailed, TransactionRefused) as refusal:
            raise ScheduleChanged from refusal
        return after

    def _move_results(self, schedule: Schedule, now_ms: int) -> Schedule:
        results = schedule.results
        if len(results) <= KEPT or len(encode_results(results).encode()) <= RESULT_BYTES:
            return schedule
        self._table.put(to_page(schedule, results[:-KEPT], now_ms))
        return replace(schedule, results=results[-KEPT:], pages=schedule.pages + 1)

    def results_page(self, tenant: str, name: str, number: int) -> list[Result]:
        """Read an item with older results, the oldest first; none if it has expired."""
        row = self._table.get(key(tenant, name, page_sk(number)))
        return [] if row is None else decode_results(row["results"])

    def delete(self, schedule: Schedule) -> None:
        """Delete a schedule and what it starts, at once: the name may be used again meanwhile.

            one request           row, template                       another
            deletes both   -----> none
                                  another row and template    <-----  saves the name again
                                  refused: it is not created  <-----  deletes both, late
                                  when the one that it read was

        Items with older results expire; a schedule of the same name that comes later does not read
        them. Raises ScheduleChanged if the row is another one.
        """
        tenant, name = schedule.tenant, schedule.name
        same = {"seen": schedule.step, "created": schedule.created_ms}
        try:
            self._table.transact(
                [
                    self._table.as_delete(key(tenant, name), UNCHANGED, **same),
                    self._table.as_delete(key(tenant, name, TEMPLATE)),
                ]
            )
        except TransactionRefused as refusal:
            raise ScheduleChanged from refusal
