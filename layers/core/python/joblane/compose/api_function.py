"""A function of the API whose routes change something: its application, and what only it uses."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from pydantic import Json

from joblane.aws.audit import AuditStore
from joblane.compose.function_parts import FunctionParts, PartsSettings
from joblane.contract.principal import AnyAccess
from joblane.http.application import Application
from joblane.http.request_jobs import RequestJobs
from joblane.service.audit.trail import Trail

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from joblane.job.head import Head
    from joblane.service.job.read import JobReader


class ApiSettings(PartsSettings):
    """What the environment of each of these functions has."""

    audit_table: str
    access: Json[AnyAccess]


Settings = TypeVar("Settings", bound=ApiSettings)


@dataclass
class ApiFunction(FunctionParts[Settings]):
    """What the parts of these functions have in common."""

    @cached_property
    def app(self) -> Application:
        """The application; whoever makes the function adds its parts."""
        found = RequestJobs(self.find_job, self.logger)
        return Application(
            self.settings.access, self.clock, found, self.logger, self.trail, self.find_affected
        )

    def find_job(self, tenant: str, job_id: str) -> "Head | None":
        """Read a job of a tenant; None if it has no such job."""
        return self.reader.find(tenant, job_id)

    def find_affected(self, action: str, target: "Mapping[str, str]") -> "Collection[str]":  # noqa: ARG002 - one function's routes affect other tenants
        """Return the tenants that an action of the role platform affects."""
        return ()

    @cached_property
    def trail(self) -> Trail:
        """The audit trail."""
        store = AuditStore(self.dynamodb, self.settings.audit_table)
        return Trail(store, self.settings.retention.audit_days, self.clock)

    @cached_property
    def reader(self) -> "JobReader":
        """Reads jobs."""
        from joblane.service.job.read import JobReader

        return JobReader(self.jobs, self.clock)
