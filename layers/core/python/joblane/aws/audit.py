"""Adapter for the `audit` table: rows are added and never changed.

The row with a record's id describes the requested action. The row with the same id and `!`, if
any, describes its refusal; both sort next to each other. The index `by_job` lists the rows of one
job.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from joblane.audit.records import AuditRecord, Refusal
from joblane.audit.who import Who
from joblane.aws.table import ConditionFailed, Row, Store

BY_JOB = "by_job"

EXAMINED_MAX = 500
"""Rows that one request examines when it filters by action."""

_REFUSED = "!"  # sorts before every character of an id


@dataclass(frozen=True, slots=True)
class TrailQuery:
    """Which part of a trail to read; newest first."""

    limit: int
    before: str | None = None
    """Id of a record: only older ones."""
    since: str | None = None
    """Id: only this one and newer ones."""
    action: str | None = None


class AuditStore(Store):
    """Writes and reads the trail."""

    def add(self, record: AuditRecord, expires_at: int) -> None:
        """Record an action before it is done: 1 write unit, 2 for an action on a job."""
        row = {
            "action": record.action,
            "who": record.who and record.who.encode(),
            "reason": record.reason,
            "asked": record.asked_json,
            "request_id": record.request_id,
            "target": dict(record.target),
            "platform": record.by_platform or None,
            "trace_id": record.trace_id,
        }
        self._put(record, record.record_id, row, expires_at)

    def add_refusal(self, record: AuditRecord, refusal: Refusal, expires_at: int) -> None:
        """Record that an action was refused: another row, at the same cost."""
        row = {"status": refusal.status, "detail": refusal.detail}
        self._put(record, record.record_id + _REFUSED, row, expires_at)

    def of_tenant(self, tenant: str, wanted: TrailQuery) -> tuple[list[AuditRecord], str | None]:
        """Read a page of a tenant's trail, and the id to continue before; None at the end."""
        return self._page({}, "tenant", tenant, wanted)

    def of_job(
        self, tenant: str, job_id: str, wanted: TrailQuery
    ) -> tuple[list[AuditRecord], str | None]:
        """Read a page of what was done to one job, even if the job was deleted."""
        return self._page({"IndexName": BY_JOB}, "job", f"{tenant}/{job_id}", wanted)

    def _put(self, record: AuditRecord, row_id: str, row: Row, expires_at: int) -> None:
        job = None if record.job_id is None else f"{record.tenant}/{record.job_id}"
        keys = {"tenant": record.tenant, "id": row_id, "expires_at": expires_at, "job": job}
        # Ids are random: an existing row was written by an earlier try of this call.
        with suppress(ConditionFailed):
            self._table.put({**row, **keys}, "attribute_not_exists(#id)")

    def _page(
        self, index: Mapping[str, Any], name: str, value: str, wanted: TrailQuery
    ) -> tuple[list[AuditRecord], str | None]:
        found: list[AuditRecord] = []
        before, examined = wanted.before, 0
        while True:
            rows, ended = self._rows(index, name, value, before, 2 * wanted.limit)
            for record, is_last in _records(rows, ended=ended):
                if wanted.since is not None and record.record_id < wanted.since:
                    return found, None
                before = record.record_id
                if wanted.action in {None, record.action}:
                    found.append(record)
                    if len(found) == wanted.limit:
                        return found, None if is_last else before
            if ended:
                return found, None
            # A refusal at the end is read again, together with its record.
            last = rows[-2] if rows[-1]["id"].endswith(_REFUSED) else rows[-1]
            before = last["id"].removesuffix(_REFUSED)
            examined += len(rows)
            if examined >= EXAMINED_MAX:
                return found, before

    def _rows(
        self, index: Mapping[str, Any], name: str, value: str, before: str | None, limit: int
    ) -> tuple[list[Row], bool]:
        condition, values = f"#{name} = :partition", {"partition": value}
        if before is not None:
            condition, values = f"{condition} AND #id < :before", {**values, "before": before}
        rows, following = self._table.query(
            condition, values, **index, ScanIndexForward=False, Limit=limit
        )
        return rows, following is None


def _records(rows: Sequence[Row], *, ended: bool) -> Iterator[tuple[AuditRecord, bool]]:
    """Combine rows into records, newest first, each with whether it is the trail's last one.

    A refusal comes right before its record. If the last row is a refusal, its record is on the
    next page, where both are read again.
    """
    refusal: tuple[str, Refusal] | None = None
    for number, row in enumerate(rows, 1):
        row_id = row["id"]
        if row_id.endswith(_REFUSED):
            refused = Refusal(row["status"], row["detail"])
            refusal = row_id.removesuffix(_REFUSED), refused
            continue
        record = _record(row)
        if refusal is not None and refusal[0] == row_id:
            record = replace(record, refusal=refusal[1])
        yield record, ended and number == len(rows)


def _record(row: Row) -> AuditRecord:
    return AuditRecord(
        record_id=row["id"],
        tenant=row["tenant"],
        action=row["action"],
        who=Who.decode(row["who"]) if "who" in row else None,
        target=tuple(sorted(row["target"].items())),
        reason=row.get("reason"),
        asked_json=row.get("asked"),
        request_id=row.get("request_id"),
        by_platform="platform" in row,
        trace_id=row.get("trace_id"),
    )
