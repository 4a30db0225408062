"""Reads what the scaler decides by.

What belongs to one queue or one fleet is missing for this one alone if it cannot be read: the
lengths of a queue's lanes, the scaling activities of a group. What is read for all in one request,
and every heartbeat, is needed for each decision: without a part of them a call decides nothing.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TypeVar

from joblane.aws.fleet.agents import AgentStore
from joblane.aws.fleet.auto_scaling import AutoScalingGroups, ScalingActivity
from joblane.aws.fleet.fleet_records import FleetRecords
from joblane.aws.queue.lanes import Lanes
from joblane.aws.queue.settings import SettingsStore
from joblane.deployment.names import LANES, Lane, fleet_name
from joblane.errors import Failure, Unavailable
from joblane.fleet.capacity import FleetPlan, GroupState
from joblane.fleet.record import FleetRecord
from joblane.queue.settings import QueueSettings
from joblane.state.lease import Heartbeat

Found = TypeVar("Found")

AT_ONCE = 16
"""Requests at once: the partitions of the agents table, and the lanes."""

ACTIVITIES = 20
"""Newest scaling activities in which an ended launch is looked for."""


class Blind(Failure):
    """What every decision needs cannot be read; the message says what, and the error."""

    retryable = True


@dataclass(frozen=True)
class Blindness:
    """What of a fleet cannot be read."""

    reason: str
    """What, and the error."""
    queues: tuple[str, ...] = ()
    """Queues of the fleet whose lanes cannot be read; none: it is something else."""
    holds: bool = True
    """Whether the fleet is left as it is. If not, it grows for its other queues."""


@dataclass(frozen=True)
class FleetSnapshot:
    """All that one call has read."""

    records: Mapping[str, FleetRecord]
    groups: Mapping[str, GroupState]
    """By the fleet's name, without fleets that have no group."""
    rows: Mapping[str, Heartbeat]
    settings: Mapping[str, QueueSettings]
    visible: Mapping[str, int]
    """Messages that agents can receive now, by queue; 0 if unread."""
    activities: Mapping[str, Sequence[ScalingActivity]]
    """Of the groups with fewer instances in service than desired, by fleet."""
    unread_queues: Mapping[str, str] = field(default_factory=dict)
    """Queues whose lanes cannot be read: what, and the error."""
    unread_fleets: Mapping[str, str] = field(default_factory=dict)
    """Fleets whose scaling activities cannot be read: what, and the error."""

    def blindness(self, plan: FleetPlan) -> Blindness | None:
        """What cannot be read of a fleet; None: nothing."""
        queues = tuple(queue for queue in plan.queues if queue in self.unread_queues)
        if plan.name in self.unread_fleets:
            return Blindness(self.unread_fleets[plan.name], queues)
        if not queues:
            return None
        more = f" (and of {len(queues) - 1} more)" if len(queues) > 1 else ""
        return Blindness(
            self.unread_queues[queues[0]] + more, queues, holds=len(queues) == len(plan.queues)
        )


@dataclass(frozen=True)
class Sources:
    """What the scaler reads, and writes."""

    groups: AutoScalingGroups
    agents: AgentStore
    lanes: Lanes
    settings: SettingsStore
    records: FleetRecords

    def look(
        self, deployment: str, plans: Sequence[FleetPlan], pool: Callable[[int], Executor]
    ) -> FleetSnapshot:
        """Read everything. Raises Blind."""
        queues = sorted({queue for plan in plans for queue in plan.queues})
        fleets = [plan.name for plan in plans]
        names = {fleet_name(deployment, fleet): fleet for fleet in fleets}
        with pool(AT_ONCE) as executor:
            records = _read(
                "DynamoDB (table settings)", lambda: self.records.read_all(fleets, consistent=True)
            )
            settings = _read("DynamoDB (table settings)", lambda: self.settings.get_all(queues))
            rows = _read("DynamoDB (table agents)", lambda: self.agents.read_all_at_once(executor))
            lanes = [(queue, lane) for queue in queues for lane in LANES]
            lengths = list(executor.map(self._visible, lanes))
        visible: Counter[str] = Counter()
        unread_queues: dict[str, str] = {}
        for (queue, _lane), length in zip(lanes, lengths, strict=True):
            if isinstance(length, str):
                unread_queues.setdefault(queue, length)
            else:
                visible[queue] += length
        for queue in unread_queues:
            visible[queue] = 0
        found = _read("Auto Scaling (groups)", lambda: self.groups.states(list(names)))
        groups = {names[name]: group for name, group in found.items()}
        activities: dict[str, Sequence[ScalingActivity]] = {}
        unread_fleets: dict[str, str] = {}
        for fleet, group in groups.items():
            if group.desired > group.in_service:
                try:
                    activities[fleet] = self._activities(fleet_name(deployment, fleet))
                except Blind as blind:
                    unread_fleets[fleet] = str(blind)
        return FleetSnapshot(
            records,
            groups,
            {row.name: row for row in rows},
            settings,
            visible,
            activities,
            unread_queues,
            unread_fleets,
        )

    def _visible(self, lane: tuple[str, Lane]) -> int | str:
        """The visible messages of a lane; or what cannot be read, and the error."""
        try:
            return _read(
                f"SQS (lanes of queue {lane[0]})",
                lambda: self.lanes.lane(*lane).lengths().visible,
            )
        except Blind as blind:
            return str(blind)

    def _activities(self, group: str) -> Sequence[ScalingActivity]:
        return _read(
            f"Auto Scaling (activities of {group})",
            lambda: self.groups.activities(group, ACTIVITIES),
        )


def _read(what: str, read: Callable[[], Found]) -> Found:
    try:
        return read()
    except Unavailable as error:
        raise Blind(f"{what}: {error}") from error
