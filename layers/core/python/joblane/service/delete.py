"""Delete a job that is not running, with its submission in S3 and its dead letter."""

from collections.abc import Callable
from dataclasses import dataclass

from joblane.aws.idempotency import IdempotencyStore
from joblane.aws.jobs import JobStore
from joblane.aws.payload_store import PayloadStore
from joblane.job.head import Head
from joblane.job.lifecycle import State
from joblane.service.operations import unless_gone


@dataclass(frozen=True)
class JobDeleter:
    """Deletes jobs."""

    jobs: JobStore
    payloads: PayloadStore
    keys: IdempotencyStore
    clock: Callable[[], float]

    def delete(self, head: Head, *, exact: bool) -> None:
        """Delete a job. Raises Refused if it is running, and Gone if it was deleted.

        `exact` deletes it only as `head` shows it.
        """
        if head.idempotency_row is not None and head.state is not State.ACTIVE:
            self.keys.note_deletion(head.idempotency_row, head.job_id, int(self.clock()))
        unless_gone(lambda: self.jobs.delete(head.job_id, head if exact else None))
        self.payloads.delete(head)
