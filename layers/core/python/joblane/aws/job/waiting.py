"""Adapter for the `jobs` table: a tenant's jobs by the time of their submission, and which wait."""

from joblane.aws.job.items import key, queue_of, submitted_field
from joblane.aws.table import Row, Store
from joblane.job.fields import COMMAND
from joblane.queue.backlog import DUE
from joblane.queue.oldest import PAGE, Page, WaitingJob
from joblane.state.lifecycle import State


class WaitingJobs(Store):
    """Reads which jobs wait, and of those the queue and the type."""

    def page(self, tenant: str, first: str, last: str) -> Page:
        """Read the lowest ids from `first` to `last`, and their heads: two requests.

        A long submission is not read: the head of its job has its type.
        """
        rows, following = self._table.query(
            "tenant = :tenant AND job_id BETWEEN :first AND :last",
            {"tenant": tenant, "first": first, "last": last},
            IndexName="by_tenant",
            Limit=PAGE,
        )
        ids = [row["job_id"] for row in rows]
        heads = self._table.get_many([key(job_id) for job_id in ids]) if ids else []
        waiting = sorted(_waiting(row) for row in heads if State(row["state"]) in DUE)
        return Page(waiting, len(ids), None if following is None or not ids else ids[-1])


def _waiting(row: Row) -> WaitingJob:
    return WaitingJob(row["job_id"], queue_of(row), submitted_field(row, "type", COMMAND))
