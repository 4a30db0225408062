"""An agent's settings: read once at its start, and handed down."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ec2_agent.sandbox.model import Isolation
from ec2_agent.state.settings import StateSettings
from joblane.deployment.descriptor import Descriptor
from joblane.fleet.idle import LeavingPolicy
from joblane.state.lease import HEARTBEAT_S, LEASE_S
from joblane.target.fact_command import FactCommand

MARGIN_S = 60.0
"""Jobs are killed this long before the lease ends: a failing heartbeat is noticed only after its
three tries have timed out (21 s, `clients.QUICK`) after a pause of 10 s, the clocks of two hosts
may differ by some seconds, and a kill takes a moment."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Times of heartbeats and lease, in seconds. Not configurable: only tests use others."""

    heartbeat_s: float = HEARTBEAT_S
    lease_s: int = LEASE_S
    margin_s: float = MARGIN_S

    @property
    def holds_s(self) -> float:
        """How long jobs may run after the last successful heartbeat was sent."""
        return self.lease_s - self.margin_s


PACE = LeaseTimes()


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """One agent process."""

    name: str
    """Unique in the deployment: the instance's id, or the host's name."""
    since_ms: int
    """When this process started."""
    descriptor: Descriptor
    threads: int
    """Jobs at once, over all queues."""
    isolation: Isolation
    drain_s: float
    """How long running jobs may go on after SIGTERM before they are interrupted."""
    fleet: str | None
    """The fleet of joblane.toml whose Auto Scaling group this instance belongs to."""
    directory: Path
    """The agent's own directory for its files."""
    state: StateSettings
    pace: LeaseTimes = PACE
    max_memory_mb: int | None = None
    """The most that one job may ask for, in MiB; None: all that jobs may have together."""
    facts: Mapping[str, FactCommand] = field(default_factory=dict)
    """Commands that give facts, by name."""
    etc: tuple[str, ...] = ()
    """Names below /etc that jobs may read beside those that every job has."""
    work_dir: Path | None = None
    """Directory for the disks of jobs; None: `directory`."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """By which targets select this agent (`joblane.target.match`)."""
    leaving: LeavingPolicy = LeavingPolicy()  # noqa: RUF009 - frozen
    """When it ends its instance; outside of a fleet it never does."""
