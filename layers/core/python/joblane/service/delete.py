"""Delete a job that is not running, with its submission in S3 and its dead letter."""

from collections.abc import Callable
from dataclasses import dataclass

from joblane.aws.idempotency import IdempotencyStore
from joblane.aws.jobs import JobStore
from joblane.aws.payload_store import PayloadStore
from joblane.job.head import Head
from joblane.job.lifecycle import State
from joblane.service.audit_trail import Trail
from joblane.service.operations import unless_gone


@dataclass(frozen=True)
class JobDeleter:
    """Deletes jobs."""

    jobs: JobStore
    payloads: PayloadStore
    keys: IdempotencyStore
    trail: Trail
    clock: Callable[[], float]

    def delete(self, head: Head, *, exact: bool) -> None:
        """Delete a job; its submitter stays in the audit trail.

        `exact` deletes it only as `head` shows it. Raises Refused if it is running, and Gone if
        it was deleted.
        """
        self.trail.keep_submission(head)
        if head.idempotency_row is not None and head.state is not State.ACTIVE:
            self.keys.note_deletion(head.idempotency_row, head.job_id, int(self.clock()))
        unless_gone(lambda: self.jobs.delete(head.job_id, head if exact else None))
        self.payloads.delete(head)
