"""A queue as operators see it and set it: bodies of the API, and what follows for an agent. Pure.

joblane.toml declares a queue and what it starts with; a setting overrides that, and null returns
to it. `cluster_threads` has no counterpart in the file: null is no limit.
"""

from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from joblane.audit import Reason
from joblane.job import Job
from joblane.lifecycle import State
from joblane.shares import Shares
from joblane.times import rfc3339

MAX_THREADS = 1000
"""As many as joblane.toml allows (`joblane.config.Queue`)."""

MAX_CLUSTER_THREADS = 1_000_000


class SettingsInput(BaseModel):
    """Body of `PUT /v1/queues/{queue}/settings`: all of it, so that nothing changes unsaid."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    run_jobs: bool
    """False pauses the queue: no agent starts a job of it; those that run go on."""
    threads: Annotated[int, Field(ge=0, le=MAX_THREADS)] | None
    """Most jobs of this queue that one agent runs at once; null for what joblane.toml says."""
    cluster_threads: Annotated[int, Field(ge=0, le=MAX_CLUSTER_THREADS)] | None
    """Most jobs of this queue that all agents together run at once; null for no limit."""
    reason: Reason | None = None
    """Why, for the audit trail."""


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The settings of one queue, as the table holds them."""

    run_jobs: bool = True
    threads: int | None = None
    cluster_threads: int | None = None
    version: int = 0
    """Counts changes by operators; 0 when there was none."""
    changed_ms: int | None = None
    changed_by: str | None = None
    """OAuth client that changed them last."""
    tenant: str | None = None
    """Its tenant."""
    shares: Shares | None = None
    """`cluster_threads` shared out; None without a limit."""

    def cap(self, declared: int, agent: str, since_ms: int) -> int:
        """Most jobs of the queue that an agent may run at once.

        `declared` is what joblane.toml says, `since_ms` when the agent started. An agent that
        runs more by now ends none of them.
        """
        if not self.run_jobs:
            return 0
        own = declared if self.threads is None else self.threads
        if self.cluster_threads is None:
            return own
        return min(own, 0 if self.shares is None else self.shares.of(agent, since_ms))


UNSET = QueueSettings()
"""A queue that nobody has set anything of."""


class SettingsView(BaseModel):
    """The settings of a queue as the API answers them."""

    model_config = ConfigDict(defer_build=True)

    run_jobs: bool
    threads: int | None
    threads_declared: int
    """What joblane.toml says; it holds while `threads` is null."""
    cluster_threads: int | None
    version: int
    """Counts changes, and is the ETag; 0 when there was none."""
    changed_at: str | None
    changed_by: str | None
    """OAuth client, if it is one of the caller's tenant."""


def settings_view(settings: QueueSettings, declared: int, tenant: str) -> SettingsView:
    """Show settings to a caller of `tenant`; who another tenant's operators are is not told."""
    return SettingsView(
        run_jobs=settings.run_jobs,
        threads=settings.threads,
        threads_declared=declared,
        cluster_threads=settings.cluster_threads,
        version=settings.version,
        changed_at=None if settings.changed_ms is None else rfc3339(settings.changed_ms),
        changed_by=settings.changed_by if settings.tenant == tenant else None,
    )


def explained(job: Job, settings: QueueSettings) -> Job:
    """Say of a job that waits in a paused queue that this is what it waits for."""
    if settings.run_jobs or job.state not in {State.PENDING, State.RETRY}:
        return job
    since = "" if settings.changed_ms is None else f" since {rfc3339(settings.changed_ms)}"
    paused = f"queue {job.queue} is paused{since}, and starts no job before it is resumed"
    reason = paused if job.state is State.PENDING else f"{job.reason}; {paused}"
    return job.model_copy(update={"reason": reason})
