"""Section `[state]` of the agent's configuration file."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class StateSettings(BaseModel):
    """The state service, which stores records that must survive the agent."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    backend: Literal["memory", "local", "dynamodb"] = "local"
    """Where records are stored."""
    sync_interval: float = Field(default=0.0, ge=0, le=60)
    """Backend `local`: seconds between syncs to the disk; 0 syncs each commit."""
    region: str | None = None
    """Backend `dynamodb`: the region. Without it the environment's, or the instance's."""
    pool_size: int = Field(default=20, ge=1, le=60)
    """Connections to the service."""
    read_timeout: float = Field(default=10.0, gt=0)
    """Time limit for a response."""
    dial_timeout: float = Field(default=5.0, gt=0)
    """Time limit for a connection."""
    idle_after: float = Field(default=30.0, gt=0)
    """A connection that was idle for longer is tested before it is used."""
    idle_timeout: float = Field(default=0.5, gt=0)
    """Time limit for that test."""
    shutdown_timeout: float = Field(default=5.0, gt=0)
    """Time limit at shutdown for deferred updates to be stored, and for the service to end."""
    retries: int = Field(default=3, ge=0, le=10)
    """Retries after a lost response or a transient error."""
    retry_min: float = Field(default=0.1, gt=0)
    """Pause before the first retry; each further pause is four times longer."""
    retry_max: float = Field(default=2.0, gt=0)
    """Longest pause between retries."""
    buffer: int = Field(default=10_000, ge=1)
    """Maximum number of records with a deferred update; further ones are refused."""
    start_tries: int = Field(default=30, ge=1)
    """Health checks of a service that was just started, before the agent gives up."""
    start_interval: float = Field(default=1.0, gt=0)
    """Time between these health checks."""
    reconnect: float = Field(default=5.0, gt=0)
    """Time between health checks, and between attempts to reconnect."""

    @property
    def durable(self) -> bool:
        """Whether an acknowledged record survives a power failure of the host."""
        return self.backend == "dynamodb" or (self.backend == "local" and not self.sync_interval)
