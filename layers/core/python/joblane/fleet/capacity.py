"""What fleets have, from their groups and from the heartbeats of their agents; pure.

An instance's agent has the instance's id as its name.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from joblane.fleet.absence import BootFailure, last_boot_failure
from joblane.fleet.wanted import FleetState, QueueLoad
from joblane.queue.settings import QueueSettings
from joblane.state.lease import NO_EGRESS, Heartbeat

SILENT_MS = 60_000
"""An agent without a heartbeat for this long is no capacity."""

EXPECTED_MS = 600_000
"""The agent of an instance is expected for this long after the instance was seen without one; until
then the instance counts as capacity that comes. The first call that sees it writes down when."""


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """A fleet of joblane.toml, as far as its size depends on it."""

    name: str
    queues: tuple[str, ...]
    slots: int
    """Jobs that one instance runs at once."""
    idle_s: int | None
    """Seconds without a job after which an instance ends; None: the fleet does not shrink."""


@dataclass(frozen=True, slots=True)
class GroupState:
    """An Auto Scaling group as it is."""

    least: int
    most: int
    desired: int
    instances: Mapping[str, str] = field(default_factory=dict)
    """Ids of its instances, each with its lifecycle state, such as `InService`."""
    suspended: tuple[str, ...] = ()
    """Processes that somebody has suspended, sorted."""

    @property
    def in_service(self) -> int:
        """Instances in service, healthy or not."""
        return sum(state == "InService" for state in self.instances.values())


@dataclass(frozen=True, slots=True)
class ServingAgent:
    """An agent of a fleet that takes jobs."""

    name: str
    beat_ms: int
    running: int
    free: int
    """How many more jobs it would take now."""


@dataclass(frozen=True, slots=True)
class FleetLoad:
    """What a fleet has."""

    state: FleetState
    serving: tuple[ServingAgent, ...]
    in_trouble: int
    """Agents that report trouble, and instances without an agent past the boot deadline."""
    rowless: tuple[str, ...] = ()
    """Instances in service of whose agents nothing is known, not even since when."""
    boot_failure: BootFailure | None = None
    """Of its instances without an agent, the last one that has said why."""
    started_ms: int = 0
    """When the last one of its serving agents started; 0: there is none."""

    @property
    def slots(self) -> int:
        """Jobs that its serving agents have, and would take."""
        return sum(agent.running + agent.free for agent in self.serving)


def fleet_load(
    plan: FleetPlan,
    group: GroupState,
    rows: Mapping[str, Heartbeat],
    threads: Mapping[str, int],
    now_ms: int,
    *,
    short: bool = False,
    stuck: bool = False,
) -> FleetLoad:
    """Count what a fleet has.

    `rows` are heartbeats by the agent's name, of any agents. `threads` is how many jobs of each
    queue an agent may run. `short` and `stuck` are those of `FleetState`.
    """
    members = leaving = busy = booting = broken = running = in_trouble = 0
    serving, rowless = [], []
    free_of = dict.fromkeys(plan.queues, 0)
    for name, lifecycle in group.instances.items():
        if not lifecycle.startswith("Pending") and lifecycle != "InService":
            continue  # it ends, or an operator has put it in standby
        members += 1
        row = rows.get(name)
        if row is None and lifecycle == "InService":
            rowless.append(name)
        if row is None or row.lease_s == 0:
            expected = row is None or now_ms - row.beat_ms < EXPECTED_MS
            booting += expected
            broken += not expected
            in_trouble += not expected
            continue
        busy += row.running > 0
        in_trouble += row.trouble is not None
        if leaves(row):
            leaving += 1
            continue
        running += row.running
        if serves(row, now_ms):
            free = row.left
            serving.append(ServingAgent(name, row.beat_ms, row.running, free))
            for queue in plan.queues:
                free_of[queue] += free_slots(row, queue, threads[queue])
        else:
            broken += row.mode is None
    state = FleetState(
        name=plan.name,
        queues=plan.queues,
        slots=plan.slots,
        least=group.least,
        most=group.most,
        desired=group.desired,
        members=members,
        leaving=leaving,
        in_service=group.in_service,
        alive=len(serving),
        busy=busy,
        booting=booting,
        broken=broken,
        running=running,
        free=sum(agent.free for agent in serving),
        free_of=free_of,
        short=short,
        stuck=stuck,
    )
    known = [rows[name] for name in group.instances if name in rows]
    started = [rows[agent.name].since_ms for agent in serving]
    return FleetLoad(
        state,
        tuple(serving),
        in_trouble,
        tuple(rowless),
        last_boot_failure(known),
        max(started, default=0),
    )


def queue_load(
    queue: str,
    settings: QueueSettings,
    visible: int,
    *,
    rows: Iterable[Heartbeat],
    threads: int,
    in_groups: frozenset[str],
    now_ms: int,
) -> QueueLoad:
    """Count what waits in a queue and what limits it.

    `threads` is how many of its jobs an agent may run, `rows` are all agents, and `in_groups` are
    the names of those whose instances belong to a group.
    """
    running = elsewhere = 0
    for row in rows:
        if queue not in row.queues or not row.alive(now_ms):
            continue
        running += row.taken.get(queue, 0)
        if row.name not in in_groups and serves(row, now_ms) and not leaves(row):
            elsewhere += free_slots(row, queue, threads)
    return QueueLoad(
        visible=visible,
        threads=threads,
        paused=not settings.run_jobs,
        cluster_threads=settings.cluster_threads,
        running=running,
        free_elsewhere=elsewhere,
    )


def leaves(row: Heartbeat) -> bool:
    """Whether an agent will end: it drains, or the scaler has named it surplus."""
    return row.mode not in {None, "cordoned"} or row.surplus_ms is not None


def serves(row: Heartbeat, now_ms: int) -> bool:
    """Whether an agent takes jobs."""
    able = row.trouble is None or row.trouble.startswith(NO_EGRESS)
    return row.mode is None and able and now_ms - row.beat_ms < SILENT_MS


def free_slots(row: Heartbeat, queue: str, threads: int) -> int:
    """How many more jobs of a queue a serving agent would take, without shares of limits."""
    if queue not in row.queues:
        return 0
    return max(0, min(row.left, threads - row.taken.get(queue, 0)))
