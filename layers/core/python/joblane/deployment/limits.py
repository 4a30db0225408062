"""Limits by tenant: what one tenant may use of the deployment that all share."""

import json
from collections.abc import Mapping
from typing import Annotated, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from joblane.deployment.names import Name

Limit = Literal[
    "jobs_running",
    "jobs_waiting",
    "recovery_executions",
    "output_mb_per_job",
    "output_mb_per_day",
    "input_mb_per_job",
    "upload_mb_per_day",
    "output_files_mb_per_job",
    "output_files_mb_per_day",
    "output_files_per_job",
]

LIMITS: Final[tuple[Limit, ...]] = get_args(Limit)

ADMITTED: Final[tuple[Limit, ...]] = (
    "jobs_waiting",
    "output_mb_per_day",
    "output_files_mb_per_day",
)
"""Those that jobs are accepted by."""

Running = Annotated[int, Field(ge=0, le=100_000_000)]
Jobs = Annotated[int, Field(ge=1, le=100_000_000)]
Executions = Annotated[int, Field(ge=1, le=10_000)]
Files = Annotated[int, Field(ge=1, le=100_000)]
Megabytes = Annotated[int, Field(ge=1, le=100_000_000)]


class TenantLimits(BaseModel):
    """Limits of each tenant; `[tenants.NAME.limits]` overrides them for one."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    jobs_running: Jobs = 10_000
    """Jobs that run at once."""
    jobs_waiting: Jobs = 100_000
    """Jobs that wait: scheduled, pending, between two attempts, or blocked."""
    recovery_executions: Executions = 20
    """Conditions of the tenant's jobs that are tested at once."""
    output_mb_per_job: Megabytes = 200
    """Output of all attempts of a job, in MiB."""
    output_mb_per_day: Megabytes = 10_240
    """Output of all jobs of a day (UTC), in MiB."""
    input_mb_per_job: Megabytes = 10_240
    """Input files of a job, in MiB."""
    upload_mb_per_day: Megabytes = 102_400
    """Input files and bundles whose upload was prepared on a day (UTC), in MiB."""
    output_files_mb_per_job: Megabytes = 10_240
    """Output files of all attempts of a job, in MiB."""
    output_files_mb_per_day: Megabytes = 102_400
    """Output files of all jobs of a day (UTC), in MiB."""
    output_files_per_job: Files = 10_000
    """Number of output files of an attempt."""


class LimitOverrides(BaseModel):
    """Limits of this tenant; a key that is left out is as in `[limits]`."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    jobs_running: Running | None = None
    """As in `[limits]`, for this tenant; 0 pauses it: none of its jobs starts, in any queue
    (docs/how-to/pause-and-limit-queues.md#pause-a-tenant)."""
    jobs_waiting: Jobs | None = None
    """As in `[limits]`, for this tenant."""
    recovery_executions: Executions | None = None
    """As in `[limits]`, for this tenant."""
    output_mb_per_job: Megabytes | None = None
    """As in `[limits]`, for this tenant."""
    output_mb_per_day: Megabytes | None = None
    """As in `[limits]`, for this tenant."""
    input_mb_per_job: Megabytes | None = None
    """As in `[limits]`, for this tenant."""
    upload_mb_per_day: Megabytes | None = None
    """As in `[limits]`, for this tenant."""
    output_files_mb_per_job: Megabytes | None = None
    """As in `[limits]`, for this tenant."""
    output_files_mb_per_day: Megabytes | None = None
    """As in `[limits]`, for this tenant."""
    output_files_per_job: Files | None = None
    """As in `[limits]`, for this tenant."""


class Limits(BaseModel):
    """The limits of all tenants, as functions and agents read them."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    default: TenantLimits = TenantLimits.model_construct()
    tenants: Mapping[Name, LimitOverrides] = {}

    def of(self, tenant: str) -> TenantLimits:
        """Return the limits of a tenant; one that is not listed has the defaults."""
        if (own := self.tenants.get(tenant)) is None:
            return self.default
        return self.default.model_copy(update=own.model_dump(exclude_none=True))

    def only(self, *keys: Limit) -> "Limits":
        """Return these keys alone: a descriptor holds 8 KB."""
        kept: set[str] = {*keys}
        tenants = {
            name: own.model_dump(include=kept, exclude_none=True)
            for name, own in self.tenants.items()
        }
        default = self.default.model_dump(include=kept, exclude_defaults=True)
        listed = {name: own for name, own in tenants.items() if own}
        return Limits.model_validate({"default": default, "tenants": listed})

    def compact(self, *keys: Limit) -> str:
        """Return the JSON of these keys, without what is left out and what is as by default."""
        return json.dumps(self.only(*keys).model_dump(exclude_defaults=True), separators=(",", ":"))
