"""How many instances each fleet should have: the decision of the scaler.

Pure arithmetic over a few numbers a fleet and a queue: it may be called thousands of times a
second. `joblane.fleet.capacity` makes the numbers of a fleet from its group and its heartbeats.

The decision only raises the desired capacity. Messages that are visible in the lanes are given, in
this order, to

1. free slots of agents that take jobs, in any fleet and outside of fleets;
2. slots of instances that boot or were requested, so that one backlog launches instances once;
3. new instances, of the first fleet of the file up to its maximum, then of the next.

Only what step 3 needs is added. For a fleet whose instances all work that is
`ceil((running + visible) / slots)`; unlike it, this stays right while instances drain, are
cordoned, have no agent, or have memory for fewer jobs than slots.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

STEP = 10
"""A call raises the desired capacity to at most twice its value plus this."""

Limit = Literal["max", "step", "short", "broken"]
"""Why a fleet is not raised by all that its messages need: its maximum size; the largest step of a
call; Auto Scaling cannot get the instances that were asked for before; or most of its instances
have no working agent, so that only one more is tried at a time."""


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """What waits in a queue, and what limits it."""

    visible: int
    """Messages that agents can receive now, in all lanes. Delayed messages and messages in flight
    do not count: the first are for later, the second are with agents or wait for a retry."""
    threads: int
    """Most jobs of the queue that one agent runs at once; 0: none."""
    paused: bool = False
    """Whether its jobs may not start."""
    cluster_threads: int | None = None
    """Most jobs of the queue that all agents run at once; None: no limit."""
    running: int = 0
    """Jobs of the queue that agents have, in all fleets and outside."""
    free_elsewhere: int = 0
    """Jobs of the queue that agents outside of fleets could take now."""

    @property
    def waiting(self) -> int:
        """Messages that may start: none of a paused queue, else as many as its limit leaves."""
        if self.paused or self.threads <= 0:
            return 0
        if self.cluster_threads is None:
            return self.visible
        return max(0, min(self.visible, self.cluster_threads - self.running))


@dataclass(frozen=True, slots=True)
class FleetState:
    """What a fleet may have and has. Instances that terminate, or are in standby, are left out."""

    name: str
    queues: tuple[str, ...]
    """Queues that its agents serve."""
    slots: int
    """Jobs that one instance runs at once; at least 1."""
    least: int
    """Smallest size of the group."""
    most: int
    """Largest size of the group."""
    desired: int
    """Desired capacity of the group."""
    members: int = 0
    """Instances of the group that its desired capacity counts: they boot or are in service."""
    leaving: int = 0
    """Members whose agent drains: they will end, most of them with the desired capacity."""
    in_service: int = 0
    """Instances that Auto Scaling counts as in service, with or without an agent."""
    alive: int = 0
    """Agents that take jobs: capacity."""
    busy: int = 0
    """Instances whose agents have jobs, whether they take new ones or not."""
    booting: int = 0
    """Members that boot: their agent is expected."""
    broken: int = 0
    """Members that are no capacity although nobody asked for it: they have no agent ten minutes
    after their boot, their agent is silent, or it is in trouble. Not those cordoned."""
    running: int = 0
    """Jobs that its agents have, without those of agents that drain."""
    free: int = 0
    """Jobs that its agents could take now, of any queue."""
    free_of: Mapping[str, int] = field(default_factory=dict)
    """Jobs of each queue that its agents could take now; each at most `free`."""
    short: bool = False
    """Whether Auto Scaling cannot get the instances that were asked for."""
    stuck: bool = False
    """Whether it has been `crowded` for so long that it will stay so by itself."""

    @property
    def crowded(self) -> bool:
        """Whether it has more instances than its group counts, which its smallest size keeps.

        After somebody has lowered the desired capacity: protection keeps the instances, and the
        group refuses what their agents ask for, which is to end one and lower the capacity by one.
        Those that leave count: an idle agent leaves, is refused, and serves again.
        """
        return self.desired <= self.least and self.members > self.desired

    @property
    def base(self) -> int:
        """Instances that are there or asked for. More than desired if scale-in is prevented.

        Not those that leave, though Auto Scaling launches nothing for them before they have ended.
        While a group has such ones above its desired capacity, as in a rebalance, a request for
        new instances is hidden behind them, and the next call asks for as many again: at most as
        many too many as leave, and idle agents leave. Counting them would ask for too many always.
        """
        return max(self.desired, self.members - self.leaving)


@dataclass(frozen=True, slots=True)
class Decision:
    """What is decided for one fleet."""

    desired: int
    """Desired capacity from now on; the group's own value if nothing is to be changed."""
    backlog: int
    """Messages that this fleet is to run: those that no fleet can run count for the first fleet of
    their queue."""
    wanted: int
    """Slots wanted: jobs that run, and the backlog."""
    limit: Limit | None = None
    """Why the fleet is not raised by all that it needs; None: it is, or needs nothing."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The decisions of one call."""

    fleets: Mapping[str, Decision]
    waiting: frozenset[str]
    """Queues with more visible messages than all agents have free slots for them."""


def decide_wanted(fleets: Sequence[FleetState], queues: Mapping[str, QueueLoad]) -> Wanted:
    """Decide for all fleets of a deployment, in the order of joblane.toml.

    `queues` has every queue that a fleet serves. A fleet's desired capacity is never lowered, never
    above its maximum unless it was before, and raised by at most the step of a call.
    """
    left = {name: load.waiting for name, load in queues.items()}
    for name, load in queues.items():
        left[name] -= min(left[name], load.free_elsewhere)
    # First the queues with the fewest fleets: the others have a choice.
    serving = {name: [fleet for fleet in fleets if name in fleet.queues] for name in queues}
    order = sorted(queues, key=lambda name: (len(serving[name]), name))
    waiting = _waiting(order, serving, left)
    taken = dict.fromkeys((fleet.name for fleet in fleets), 0)
    there = {fleet.name: [_agents(fleet), _coming(fleet, queues)] for fleet in fleets}
    for pool in range(2):
        for name in order:
            for fleet in serving[name]:
                given = there[fleet.name][pool].give(name, left[name])
                left[name] -= given
                taken[fleet.name] += given
    raised: dict[str, tuple[int, Limit | None]] = {}
    for fleet in fleets:
        raised[fleet.name], given = _raise(fleet, queues, order, left)
        taken[fleet.name] += given
    for name in order:
        if left[name] and serving[name]:
            taken[serving[name][0].name] += left[name]
    return Wanted(
        {
            fleet.name: Decision(
                desired=raised[fleet.name][0],
                backlog=taken[fleet.name],
                wanted=fleet.running + taken[fleet.name],
                limit=raised[fleet.name][1],
            )
            for fleet in fleets
        },
        waiting,
    )


@dataclass(slots=True)
class _Pool:
    """Slots that are given out: in all, and of each queue."""

    free: int
    of: dict[str, int]

    def give(self, queue: str, most: int) -> int:
        """Take up to `most` slots for a queue. Returns how many there were."""
        given = max(0, min(most, self.free, self.of.get(queue, 0)))
        if given:
            self.free -= given
            self.of[queue] -= given
        return given


def _agents(fleet: FleetState) -> _Pool:
    """The free slots of a fleet's agents."""
    return _Pool(fleet.free, dict(fleet.free_of))


def _coming(fleet: FleetState, queues: Mapping[str, QueueLoad]) -> _Pool:
    """The slots of instances that boot or were requested, unless those do not come."""
    requested = 0 if fleet.short else max(0, fleet.desired - fleet.members)
    return _new(fleet, fleet.booting + requested, queues)


def _new(fleet: FleetState, instances: int, queues: Mapping[str, QueueLoad]) -> _Pool:
    """The slots of so many empty instances."""
    of = {name: instances * min(queues[name].threads, fleet.slots) for name in fleet.queues}
    return _Pool(instances * fleet.slots, of)


def _waiting(
    order: Sequence[str], serving: Mapping[str, Sequence[FleetState]], left: Mapping[str, int]
) -> frozenset[str]:
    """Queues with more messages than there are free slots, whether those take them or not."""
    pools = {fleet.name: _agents(fleet) for fleets in serving.values() for fleet in fleets}
    found = []
    for name in order:
        rest = left[name]
        for fleet in serving[name]:
            rest -= pools[fleet.name].give(name, rest)
        if rest:
            found.append(name)
    return frozenset(found)


def _raise(
    fleet: FleetState, queues: Mapping[str, QueueLoad], order: Sequence[str], left: dict[str, int]
) -> tuple[tuple[int, Limit | None], int]:
    """Decide the desired capacity of one fleet, and take from `left` what it is to run.

    A fleet that is raised in several steps takes at once what it will run in the end: the next
    fleet gets what is above the maximum of this one.
    """
    own = [n for n in order if n in fleet.queues and left[n] > 0]
    floor = max(fleet.desired, fleet.least, min(fleet.busy, fleet.most))
    if fleet.stuck:
        floor = max(floor, min(fleet.members, fleet.most))
    need = _instances(fleet, queues, {name: left[name] for name in own})
    if not need:
        return (floor, None), 0
    if fleet.short:
        return (floor, "short"), 0
    limit: Limit | None = None
    room = max(0, fleet.most - fleet.base)
    if fleet.broken > fleet.alive:
        # What is wrong with most instances is likely to be wrong with the next: one at a time.
        idle = not fleet.booting and fleet.desired <= fleet.members
        room, limit = min(room, 1 if idle else 0), "broken"
    if need <= room:
        limit = None
    elif limit is None:
        limit = "max"
    added = min(need, room)
    pool, given = _new(fleet, added, queues), 0
    for name in own:
        share = pool.give(name, left[name])
        left[name] -= share
        given += share
    if added > (step := fleet.base + STEP):
        added, limit = step, "step"
    return (max(floor, fleet.base + added if added else 0), limit), given


def _instances(fleet: FleetState, queues: Mapping[str, QueueLoad], left: Mapping[str, int]) -> int:
    """New instances that these messages need."""
    need = _ceil(sum(left.values()), fleet.slots)
    for name, count in left.items():
        need = max(need, _ceil(count, min(queues[name].threads, fleet.slots)))
    return need


def _ceil(count: int, by: int) -> int:
    return -(-count // by)
