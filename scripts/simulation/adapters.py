"""Stand-ins for the adapters of AWS that the product's scaler and shares read and write by.

Each does in simulated time what its adapter does with AWS, and counts what AWS bills.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from joblane.aws.errors import AwsRefused, AwsSilent
from joblane.aws.fleet.agents import SHARDS, AgentStore
from joblane.aws.fleet.auto_scaling import AutoScalingGroups, ScalingActivity
from joblane.aws.fleet.fleet_records import FleetRecords
from joblane.aws.queue.lanes import LaneQueue, Lanes, Lengths
from joblane.aws.queue.settings import SettingsStore
from joblane.deployment.names import Lane as LaneName
from joblane.fleet.capacity import GroupState
from joblane.fleet.record import FleetRecord
from joblane.queue.settings import UNSET, QueueSettings
from joblane.queue.shares import Shares
from joblane.state.lease import Heartbeat
from scripts.simulation.fleet import Group, Phase
from scripts.simulation.lane import Lane, Unavailable

if TYPE_CHECKING:
    from scripts.simulation.world import World

ROWS_A_UNIT = 4
"""Rows of agents in a read unit of 4 KB, strongly consistent: some 840 bytes with 8 jobs."""

_STATES = {
    Phase.BOOTING: "Pending",
    Phase.IN_SERVICE: "InService",
    Phase.TERMINATING: "Terminating:Wait",
}


class Silent:
    """A log that nobody reads, but for exceptions: none is expected in a simulation."""

    def info(self, msg: object, **fields: object) -> None:
        """Nothing."""

    def warning(self, msg: object, **fields: object) -> None:
        """Nothing."""

    def error(self, msg: object, **fields: object) -> None:
        """Nothing: so the scaler says that it is blind."""

    def exception(self, msg: object, **fields: object) -> NoReturn:  # noqa: ARG002 - a Log
        """Raise the exception that is being handled."""
        raise  # noqa: PLE0704 - called while one is handled


class SimulatedGroups(AutoScalingGroups):
    """Auto Scaling groups, by the names of their fleets."""

    def __init__(self, groups: Mapping[str, Group], fleet_of: Callable[[str], str]) -> None:
        self._groups = groups
        self._fleet_of = fleet_of

    def states(self, names: Sequence[str]) -> dict[str, GroupState]:
        """DescribeAutoScalingGroups."""
        return {name: _state(self._groups[self._fleet_of(name)]) for name in names}

    def activities(self, name: str, most: int) -> list[ScalingActivity]:
        """DescribeScalingActivities, newest first."""
        return self._groups[self._fleet_of(name)].activities(most)

    def set_desired(self, name: str, desired: int) -> None:
        """SetDesiredCapacity. Raises AwsRefused outside of the group's bounds, as AWS does."""
        try:
            self._groups[self._fleet_of(name)].set_desired(desired)
        except ValueError as error:
            raise AwsRefused(
                {"Error": {"Code": "ValidationError", "Message": str(error)}}, "SetDesiredCapacity"
            ) from error


def _state(group: Group) -> GroupState:
    return GroupState(
        least=group.plan.min_size,
        most=group.plan.max_size,
        desired=group.desired,
        instances={name: _STATES[each.phase] for name, each in group.instances.items()},
    )


class SimulatedAgents(AgentStore):
    """The agents table."""

    def __init__(self, world: "World") -> None:
        self._world = world

    def read_all(self) -> Iterator[Heartbeat]:
        """Read all agents."""
        rows = self._world.heartbeats
        self._world.usage.read_units += max(SHARDS, math.ceil(len(rows) / ROWS_A_UNIT))
        return iter(list(rows.values()))

    def read_all_at_once(self, _pool: Executor) -> list[Heartbeat]:
        """Read all agents."""
        return list(self.read_all())

    def note_absence(self, row: Heartbeat) -> None:
        """Write the row of an instance without an agent, unless there is one."""
        self._world.usage.write_units += 1
        self._world.heartbeats.setdefault(row.name, row)

    def name_surplus(self, name: str, at_ms: int, *, beat_ms: int) -> bool:
        """Name an agent surplus, under the conditions of the real write."""
        self._world.usage.write_units += 1
        row = self._world.heartbeats.get(name)
        if row is None or row.beat_ms < beat_ms or row.surplus_ms is not None:
            return False
        if row.mode is not None or row.trouble is not None:
            return False
        self._world.heartbeats[name] = replace(row, surplus_ms=at_ms)
        return True


class SimulatedLane(LaneQueue):
    """The length of one lane."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    def lengths(self) -> Lengths:
        """GetQueueAttributes. Raises AwsSilent during an outage."""
        try:
            visible = self._lane.length()
        except Unavailable as error:
            raise AwsSilent(error="https://sqs.invalid") from error
        return Lengths(visible, self._lane.in_flight, self._lane.delayed)


class SimulatedLanes(Lanes):
    """All lanes."""

    def __init__(self, lanes: Mapping[tuple[str, LaneName], Lane]) -> None:
        self._lanes = lanes

    def lane(self, queue: str, lane: LaneName) -> LaneQueue:
        """One lane."""
        return SimulatedLane(self._lanes[queue, lane])


class SimulatedSettings(SettingsStore):
    """The settings of queues."""

    def __init__(self, world: "World") -> None:
        self._world = world

    def get_all(self, queues: Iterable[str]) -> dict[str, QueueSettings]:
        """Read many queues' settings."""
        found = {name: self._world.settings.get(name, UNSET) for name in queues}
        self._world.usage.read_units += len(found) / 2
        return found

    def put_shares(self, queue: str, shares: Shares, version: int) -> None:
        """Store shares. No operator changes the version in a simulation."""
        before = self._world.settings[queue]
        if before.version != version:
            raise ValueError(f"version {version} of {queue} is not {before.version}")
        self._world.settings[queue] = replace(before, shares=shares)
        self._world.usage.write_units += 1


class SimulatedRecords(FleetRecords):
    """What the scaler last decided for each fleet."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._records: dict[str, FleetRecord] = {}

    def read(self, fleet: str) -> FleetRecord | None:
        """Read one."""
        self._world.usage.read_units += 1
        return self._records.get(fleet)

    def read_all(
        self, fleets: Iterable[str], *, consistent: bool = False
    ) -> dict[str, FleetRecord]:
        """Read those that there are."""
        found = {name: self._records[name] for name in fleets if name in self._records}
        self._world.usage.read_units += len(found) if consistent else len(found) / 2
        return found

    def write(self, fleet: str, record: FleetRecord) -> None:
        """Store one."""
        self._records[fleet] = record
        self._world.usage.write_units += 1
