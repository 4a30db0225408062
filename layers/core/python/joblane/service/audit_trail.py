"""The audit trail: each action is recorded before it is done."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ulid import ULID

from joblane.audit.records import Action, Record, Refusal, Who, asked_json
from joblane.aws.audit import AuditStore, Wanted
from joblane.job.head import short_reason


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that the trail records."""

    action: Action
    tenant: str
    who: Who
    target: Mapping[str, str]
    """Parameters of the path."""
    reason: str | None
    beside: Mapping[str, Any]
    """Other fields of the request."""
    request_id: str


class Trail:
    """Writes and reads the audit trail of a deployment; `days` is how long it is kept."""

    def __init__(self, store: AuditStore, days: int, clock: Callable[[], float]) -> None:
        self._store = store
        self._days = days
        self._clock = clock

    def begin(self, asked: Asked) -> Record:
        """Record an action. If this raises ClientError or BotoCoreError, do not do the action."""
        record = Record(
            record_id=str(ULID.from_timestamp(self._clock())),
            tenant=asked.tenant,
            action=asked.action,
            who=asked.who,
            target=tuple(sorted(asked.target.items())),
            reason=asked.reason,
            asked_json=asked_json(dict(asked.beside)),
            request_id=asked.request_id,
        )
        self._store.add(record, self._expires_at())
        return record

    def refuse(self, record: Record, status: int, detail: str) -> None:
        """Record that an action was refused."""
        refusal = Refusal(status, short_reason(detail))
        self._store.add_refusal(record, refusal, self._expires_at())

    def of_tenant(self, tenant: str, wanted: Wanted) -> tuple[list[Record], str | None]:
        """Read a page of a tenant's trail, newest first, and where to continue."""
        return self._store.of_tenant(tenant, wanted)

    def of_job(
        self, tenant: str, job_id: str, wanted: Wanted, submitted: Record | None
    ) -> tuple[list[Record], str | None]:
        """Read a page of a job's trail; `submitted` is the record of its submission, if known."""
        found, following = self._store.of_job(tenant, job_id, wanted)
        if following is not None or submitted is None:
            return found, following
        if wanted.before is not None and submitted.record_id >= wanted.before:
            return found, None
        if len(found) == wanted.limit:
            return found, found[-1].record_id
        return [*found, submitted], None

    def _expires_at(self) -> int:
        return int(self._clock()) + self._days * 86_400
