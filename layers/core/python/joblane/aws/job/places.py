"""Adapter for the `jobs` table: the tenants and queues of jobs that agents hold."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from joblane.aws.job.items import key, queue_of, tenant_of
from joblane.aws.table import Row, Store


class Place(NamedTuple):
    """Whose a job is, and in which queue."""

    tenant: str
    queue: str


class JobPlaces(Store):
    """Reads where jobs belong, and nothing else of them: they may be another tenant's."""

    def read(self, job_ids: Sequence[str]) -> Mapping[str, Place]:
        """Read the places of up to a hundred jobs in one request, without absent ones."""
        rows = self._table.get_many([key(job_id) for job_id in job_ids])
        return {row["job_id"]: _place(row) for row in rows}


def _place(row: Row) -> Place:
    return Place(tenant_of(row), queue_of(row))
