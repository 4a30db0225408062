"""The jobs that a request concerns: each is read once, and the request's log entries name it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aws_lambda_powertools.logging import Logger

from joblane.contract.problems import NotFound

if TYPE_CHECKING:  # many requests concern no job
    from joblane.job.head import Head

_KEYS = ("job_id", "trace_id")

Find = Callable[[str, str], "Head | None"]
"""Reads a job by its tenant and id; None if the tenant has no such job."""


@dataclass
class RequestJobs:
    """Jobs of the current request."""

    read: Find
    logger: Logger
    _found: "dict[tuple[str, str], Head | None]" = field(default_factory=dict)

    def begin(self) -> None:
        """Forget those of the request before."""
        self._found.clear()
        self.logger.remove_keys(_KEYS)

    def find(self, tenant: str, job_id: str) -> "Head | None":
        """Read a job of a tenant; None if it has no such job."""
        if (tenant, job_id) not in self._found:
            self._found[tenant, job_id] = self.read(tenant, job_id)
        head = self._found[tenant, job_id]
        return None if head is None else self.name(head)

    def get(self, tenant: str, job_id: str) -> "Head":
        """As `find`; raises Problem 404 where it returns None."""
        head = self.find(tenant, job_id)
        if head is None:
            raise NotFound("there is no such job")
        return head

    def name(self, head: "Head") -> "Head":
        """Name a job in the log entries of this request."""
        self.logger.append_keys(job_id=head.job_id, trace_id=head.trace_id)
        return head
