"""What is known of a job and of what it waits for: the input of `joblane.why.explain`.

What a state needs is read for it; the rest is None: not read, which is not the same as absent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from joblane.condition.state import ConditionState
from joblane.deployment.names import Lane
from joblane.fleet.record import FleetRecord
from joblane.job.head import Head
from joblane.key.state import KeyState
from joblane.queue.maxima import Maxima
from joblane.queue.settings import UNSET, QueueSettings
from joblane.queue.tenant_shares import TenantShares
from joblane.state.lease import Heartbeat
from joblane.state.lifecycle import State


@dataclass(frozen=True, slots=True)
class Queue:
    """The queue of the job."""

    settings: QueueSettings = UNSET
    """Without names that the caller may not see."""
    threads: int = 1
    """What joblane.toml declares."""
    maxima: tuple[Maxima, ...] = ()
    """Those of its fleets."""
    declared: bool = True
    """Whether joblane.toml still has it for the job's tenant."""
    gone: bool = False
    """Whether joblane.toml has it no more: it has no lanes."""
    moves_to: str | None = None
    """The queue that its waiting jobs move to, as it is retired; None: they stay."""
    misfit: str | None = None
    """Why that one does not take this job; None: it does."""
    next_move_ms: int | None = None
    """When its jobs are looked at next, in Unix milliseconds; None: it goes on, or begins soon."""
    may_change: bool = False
    """Whether operators of the caller's tenant may change it; else only the role platform."""


@dataclass(frozen=True, slots=True)
class Agents:
    """Agents of all queues, as of their last heartbeats."""

    rows: tuple[Heartbeat, ...] = ()
    more: bool = False
    """Whether there are more than were read."""
    counted: Mapping[str, "Counted"] | None = None
    """The jobs of agents by name, of those that a limit may stop before their slots are taken; not
    of all of these if they have very many jobs."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The jobs of one agent, as of its last heartbeat."""

    of_queue: int
    of_tenant: int


@dataclass(frozen=True, slots=True)
class Messages:
    """Estimated numbers of messages in a lane, of all tenants."""

    visible: int
    in_flight: int
    delayed: int


@dataclass(frozen=True, slots=True)
class TenantLimit:
    """The limit of running jobs of the job's tenant."""

    jobs_running: int
    shares: TenantShares = field(default_factory=TenantShares)


@dataclass(frozen=True, slots=True)
class Fleet:
    """A fleet as joblane.toml declares it, and what the scaler last decided for it."""

    name: str
    group: str
    """Name of its Auto Scaling group."""
    max_size: int
    """Largest number of instances."""
    instance_types: tuple[str, ...]
    record: FleetRecord | None
    """None if the scaler has never written one, or it cannot be read."""
    unread: bool = False
    """Whether the record cannot be read."""


@dataclass(frozen=True, slots=True)
class Key:
    """The key of the job."""

    state: KeyState
    shown: str
    """Its segments for a sentence."""
    command: str
    """The command that shows it; empty if it cannot be written in one line."""
    holders: tuple[Head, ...] = ()
    """Some of the jobs that have its slots, the first one first."""


@dataclass(frozen=True, slots=True)
class Members:
    """Some of the open members of a group."""

    looked_at: int
    """How many rows were read."""
    states: Mapping[State, int]
    """How many of them are in each state that is not an end."""
    first: Head | None
    """The first of these."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A job, and what was read of what it waits for."""

    head: Head
    now_ms: int
    queue: Queue | None = None
    others: tuple[str, ...] = ()
    """Other queues that take the job and are not paused, in the order of joblane.toml; none if they
    were not read."""
    agents: Agents | None = None
    lanes: Mapping[Lane, Messages] | None = None
    """The job's lane and those that are served before it."""
    limits: TenantLimit | None = None
    fleets: tuple[Fleet, ...] | None = None
    """Those that serve the job's queue, in the order of joblane.toml; None: not read."""
    agent: Heartbeat | None = None
    """The agent that runs it, or the only one that may: None if it has no row."""
    key: Key | None = None
    condition: ConditionState | None = None
    """None if the condition has no row, or if it was not read."""
    most_s: int | None = None
    """How long a job may wait for its condition."""
    members: Members | None = None
    waiting: "Situation | None" = None
    """Of a group: the first of its members that waits, and what was read of what it waits for."""
    parent: Head | None = None
    """Of a member that failed, its group; None if it was not read."""
