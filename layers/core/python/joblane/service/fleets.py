"""Show the fleets of joblane.toml with the state of their Auto Scaling groups."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from functools import partial

from botocore.exceptions import BotoCoreError, ClientError

from joblane.aws.groups import Groups, ScalingActivity, Size
from joblane.contract.status import DeclaredFleet, FleetPage, FleetView, ScalingActivityView
from joblane.deployment.names import fleet_name
from joblane.formats.times import rfc3339
from joblane.service.log import Log

ACTIVITIES = 20
"""Scaling activities of a fleet that are shown."""

AT_ONCE = 8
"""Fleets whose activities are read at once."""

NO_GROUP = "there is no Auto Scaling group {}: its agents are started in another way"
UNREADABLE = "the Auto Scaling group {} cannot be read at the moment"


@dataclass(frozen=True)
class FleetReader:
    """Shows fleets, in one request to Auto Scaling for all sizes and one for each group."""

    fleets: Sequence[DeclaredFleet]
    deployment: str
    groups: Callable[[], Groups]
    log: Log
    _: KW_ONLY
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    def page(self) -> FleetPage:
        """Show all fleets. What cannot be read is null, and the fleet's note says so."""
        sizes = self._sizes()
        with self.pool(AT_ONCE) as pool:
            entries = tuple(pool.map(partial(self._view, sizes), self.fleets))
        return FleetPage(entries=entries, limit=len(entries), next=None)

    def _sizes(self) -> Mapping[str, Size] | None:
        """The sizes of the groups that are there; None if they cannot be read."""
        names = [fleet_name(self.deployment, fleet.name) for fleet in self.fleets]
        if not names:
            return {}
        try:
            return self.groups().sizes(names)
        except (ClientError, BotoCoreError):
            self.log.exception("sizes of fleets are unknown")
            return None

    def _view(self, sizes: Mapping[str, Size] | None, fleet: DeclaredFleet) -> FleetView:
        name = fleet_name(self.deployment, fleet.name)
        size, note = None, UNREADABLE
        activities: list[ScalingActivity] = []
        if sizes is not None:
            size, note = sizes.get(name), NO_GROUP
        if size is not None:
            try:
                activities = self.groups().activities(name, ACTIVITIES)
            except (ClientError, BotoCoreError):
                self.log.exception("scaling activities are unknown", fleet=fleet.name)
        return FleetView(
            **dict(fleet),
            desired=None if size is None else size.desired,
            in_service=None if size is None else size.in_service,
            activities=tuple(map(_activity, activities)),
            note=note.format(name) if size is None else None,
        )


def _activity(activity: ScalingActivity) -> ScalingActivityView:
    return ScalingActivityView(
        at=rfc3339(activity.at_ms),
        status=activity.status,
        description=activity.description,
        cause=activity.cause,
    )
