"""Show the fleets of joblane.toml with the state of their Auto Scaling groups."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from functools import partial

from joblane.aws.fleet.auto_scaling import AutoScalingGroups, ScalingActivity, Size
from joblane.aws.fleet.fleet_records import FleetRecords
from joblane.contract.status import (
    DeclaredFleet,
    FleetDecision,
    FleetPage,
    FleetView,
    ScalingActivityView,
)
from joblane.contract.why import reason_view
from joblane.deployment.names import fleet_name
from joblane.errors import Unavailable
from joblane.fleet.record import FleetRecord
from joblane.formats.times import rfc3339
from joblane.service.log import Log
from joblane.why.fleets import of_fleet
from joblane.why.situation import Fleet

ACTIVITIES = 20
"""Scaling activities of a fleet that are shown."""

AT_ONCE = 8
"""Fleets whose activities are read at once."""

NO_GROUP = "there is no Auto Scaling group {}: its agents are started in another way"
UNREADABLE = "the Auto Scaling group {} cannot be read at the moment"
UNDECIDED = "what the function scaler decided cannot be read at the moment"


@dataclass(frozen=True)
class FleetReader:
    """Shows fleets.

    One request to Auto Scaling for all sizes and one for each group, and one to DynamoDB for what
    the scaler decided for a hundred fleets.
    """

    fleets: Sequence[DeclaredFleet]
    deployment: str
    groups: Callable[[], AutoScalingGroups]
    records: FleetRecords
    log: Log
    _: KW_ONLY
    now_ms: Callable[[], int]
    """Returns Unix milliseconds."""
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    def page(self) -> FleetPage:
        """Show all fleets. What cannot be read is null, and the fleet's note says so."""
        sizes, records = self._sizes(), self._records()
        with self.pool(AT_ONCE) as pool:
            entries = tuple(pool.map(partial(self._view, sizes, records), self.fleets))
        return FleetPage(entries=entries, limit=len(entries), next=None)

    def _sizes(self) -> Mapping[str, Size] | None:
        """The sizes of the groups that are there; None if they cannot be read."""
        names = [fleet_name(self.deployment, fleet.name) for fleet in self.fleets]
        if not names:
            return {}
        try:
            return self.groups().sizes(names)
        except Unavailable:
            self.log.exception("sizes of fleets are unknown")
            return None

    def _records(self) -> Mapping[str, FleetRecord] | None:
        """What the scaler decided; None if it cannot be read."""
        names = [fleet.name for fleet in self.fleets]
        try:
            return self.records.read_all(names) if names else {}
        except Unavailable:
            self.log.exception("records of fleets are unknown")
            return None

    def _view(
        self,
        sizes: Mapping[str, Size] | None,
        records: Mapping[str, FleetRecord] | None,
        fleet: DeclaredFleet,
    ) -> FleetView:
        name = fleet_name(self.deployment, fleet.name)
        size, note = None, UNREADABLE
        activities: list[ScalingActivity] = []
        if sizes is not None:
            size, note = sizes.get(name), NO_GROUP
        if size is not None:
            try:
                activities = self.groups().activities(name, ACTIVITIES)
            except Unavailable:
                self.log.exception("scaling activities are unknown", fleet=fleet.name)
        notes = [note.format(name)] if size is None else []
        if records is None:
            notes.append(UNDECIDED)
        return FleetView(
            **dict(fleet),
            desired=None if size is None else size.desired,
            in_service=None if size is None else size.in_service,
            activities=tuple(map(_activity, activities)),
            note="; ".join(notes) or None,
            decision=self._decision(fleet, name, (records or {}).get(fleet.name)),
        )

    def _decision(
        self, fleet: DeclaredFleet, group: str, record: FleetRecord | None
    ) -> FleetDecision | None:
        if record is None:
            return None
        known = Fleet(fleet.name, group, fleet.max_size, fleet.instance_types, record)
        raised_ms = record.raised_ms
        return FleetDecision(
            at=rfc3339(record.decided_ms),
            wanted=record.wanted,
            backlog=record.backlog,
            max=record.max,
            alive=record.alive,
            busy=record.busy,
            booting=record.booting,
            raised_at=None if raised_ms is None else rfc3339(raised_ms),
            reasons=tuple(map(reason_view, of_fleet(known, self.now_ms()))),
        )


def _activity(activity: ScalingActivity) -> ScalingActivityView:
    return ScalingActivityView(
        at=rfc3339(activity.at_ms),
        status=activity.status,
        description=activity.description,
        cause=activity.cause,
    )
