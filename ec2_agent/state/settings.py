"""Section [state] of the agent's configuration file."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class StateSettings(BaseModel):
    """How the agent keeps what must survive it. Times are seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    backend: Literal["memory", "local", "dynamodb"] = "local"
    sync_interval: float = Field(default=0.0, ge=0, le=60)
    """Between syncs to the disk, for `local`; 0 syncs each commit (see local.py)."""
    region: str | None = None
    """For `dynamodb`; else the environment's, else what the instance's metadata says."""
    pool_size: int = Field(default=20, ge=1, le=60)
    read_timeout: float = Field(default=10.0, gt=0)
    dial_timeout: float = Field(default=5.0, gt=0)
    idle_after: float = Field(default=30.0, gt=0)
    """A connection that was idle for longer is tried before it is used."""
    idle_timeout: float = Field(default=0.5, gt=0)
    """How long that may take."""
    shutdown_timeout: float = Field(default=5.0, gt=0)
    retries: int = Field(default=3, ge=0, le=10)
    retry_min: float = Field(default=0.1, gt=0)
    retry_max: float = Field(default=2.0, gt=0)
    buffer: int = Field(default=10_000, ge=1)
    """Records whose later update waits to be sent."""
    start_tries: int = Field(default=30, ge=1)
    start_interval: float = Field(default=1.0, gt=0)
    reconnect: float = Field(default=5.0, gt=0)
    """Between looks at the service's health, and between tries to reach it again."""
