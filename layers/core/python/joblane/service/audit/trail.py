"""The audit trail: each action is recorded before it is done."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from joblane.audit.records import AuditRecord, Refusal, submission_record
from joblane.aws.audit import AuditStore, TrailQuery
from joblane.formats.ids import new_id
from joblane.state.timeline import short_reason

if TYPE_CHECKING:  # many requests concern no job
    from joblane.job.head import Head


@dataclass(frozen=True)
class Trail:
    """Writes and reads the audit trail of a deployment; `days` is how long it is kept."""

    store: AuditStore
    days: int
    clock: Callable[[], float]

    def new_id(self) -> str:
        """Make the id of a record, which holds the time."""
        return new_id(int(self.clock() * 1000), secrets.randbits(80))

    def begin(self, record: AuditRecord) -> None:
        """Record an action. If this raises Unavailable, do not do the action."""
        self.store.add(record, self._expires_at())

    def refuse(self, record: AuditRecord, status: int, detail: str) -> None:
        """Record that an action was refused."""
        refusal = Refusal(status, short_reason(detail))
        self.store.add_refusal(record, refusal, self._expires_at())

    def keep_submission(self, head: "Head") -> None:
        """Record who submitted a job that is about to be deleted with its head. Safe to repeat.

        Raises Unavailable; then do not delete the job.
        """
        self.begin(submission_record(head, head.tenant, head.submitted_by, head.request_id))

    def of_tenant(self, tenant: str, wanted: TrailQuery) -> tuple[list[AuditRecord], str | None]:
        """Read a page of a tenant's trail, newest first, and where to continue."""
        return self.store.of_tenant(tenant, wanted)

    def of_job(
        self, tenant: str, job_id: str, wanted: TrailQuery, submitted: AuditRecord | None
    ) -> tuple[list[AuditRecord], str | None]:
        """Read a page of a job's trail; `submitted` is the record of its submission, if known."""
        found, following = self.store.of_job(tenant, job_id, wanted)
        if following is not None or submitted is None:
            return found, following
        if found and found[-1].record_id == submitted.record_id:
            return found, None  # kept for a deletion that was then refused
        if wanted.before is not None and submitted.record_id >= wanted.before:
            return found, None
        if len(found) == wanted.limit:
            return found, found[-1].record_id
        return [*found, submitted], None

    def _expires_at(self) -> int:
        return int(self.clock()) + self.days * 86_400
