"""What an agent is told at its start, read once and handed down."""

from dataclasses import dataclass
from pathlib import Path

from ec2_agent.sandbox import Isolation
from ec2_agent.state.settings import StateSettings
from joblane.config import Descriptor


@dataclass(frozen=True, slots=True)
class Settings:
    """One agent process."""

    name: str
    """Unique in the deployment: the instance's id, or the host's name."""
    since_ms: int
    """When this process started."""
    descriptor: Descriptor
    threads: int
    """Jobs at once, over all queues."""
    isolation: Isolation
    allow_host_network: bool
    drain_s: float
    """How long running jobs may go on after SIGTERM before they are interrupted."""
    fleet: str | None
    """The fleet of joblane.toml whose Auto Scaling group this instance belongs to."""
    version: str
    directory: Path
    """Where this agent, and no other, keeps its files."""
    state: StateSettings
