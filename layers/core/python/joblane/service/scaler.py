"""Size the fleets: raise desired capacities by what waits, and name surplus agents.

One call runs at a time (reserved concurrency), every minute and when jobs come. A call that cannot
read all that it decides by changes nothing and says so. Agents make groups smaller meanwhile:

    scaler                       group                      agent
    reads that it leaves                           <------  says so in its heartbeat
    reads 4 desired
                                 3 desired         <------  ends its instance, with decrement
    decides 5: one more
    reads 3, sets 4  -------->   4 desired

The decision has counted the instance of that agent among the 4, and given it no job. If the
decrement comes after the second read, the group is one larger than needed, and an idle agent
leaves later.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, replace
from typing import TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from joblane.aws.agents import AgentStore
from joblane.aws.fleet_records import FleetRecords
from joblane.aws.groups import Groups, ScalingActivity
from joblane.aws.lanes import Lanes
from joblane.aws.metrics import Metrics
from joblane.aws.settings import SettingsStore
from joblane.deployment.names import LANES, Lane, fleet_name
from joblane.fleet.capacity import FleetLoad, FleetPlan, GroupState, fleet_load, queue_load
from joblane.fleet.record import SHORT_AFTER_MS, FleetRecord, to_write
from joblane.fleet.surplus import roomy, surplus
from joblane.fleet.wanted import Decision, QueueLoad, Wanted, wanted
from joblane.job.lease import Heartbeat
from joblane.queue.settings import QueueSettings
from joblane.service.log import Log

Found = TypeVar("Found")

AT_ONCE = 16
"""Requests at once: the partitions of the agents table, and the lanes."""

ACTIVITIES = 20
"""Newest scaling activities in which an ended launch is looked for."""

EARLIER_MS = 60_000
"""An activity may have begun this long before its group was found below its desired capacity."""

NOTHING_CAME = "Auto Scaling has started no instance for 15 minutes and gives no reason"

BLIND = (
    "the scaler cannot read {what}, so fleets do not grow; desired capacities can be set by hand: "
    "aws autoscaling set-desired-capacity"
)


class Blind(Exception):
    """What the scaler decides by cannot be read; the message says what, and the error."""


@dataclass(frozen=True)
class Sight:
    """All that one call has read."""

    records: Mapping[str, FleetRecord]
    groups: Mapping[str, GroupState]
    """By the fleet's name, without fleets that have no group."""
    rows: Mapping[str, Heartbeat]
    settings: Mapping[str, QueueSettings]
    visible: Mapping[str, int]
    """Messages that agents can receive now, by queue."""
    activities: Mapping[str, Sequence[ScalingActivity]]
    """Of the groups with fewer instances in service than desired, by fleet."""


@dataclass(frozen=True)
class Scaler:
    """Sizes the fleets of one deployment."""

    deployment: str
    plans: Sequence[FleetPlan]
    """In the order of joblane.toml."""
    threads: Mapping[str, int]
    """Jobs of each queue that one agent runs at once, by joblane.toml."""
    groups: Groups
    agents: AgentStore
    lanes: Lanes
    settings: SettingsStore
    records: FleetRecords
    metrics: Metrics
    clock: Callable[[], float]
    """Returns Unix seconds."""
    log: Log
    _: KW_ONLY
    pool: Callable[[int], Executor] = ThreadPoolExecutor

    def run(self, *, kicked: bool = False) -> Counter[str]:
        """Size all fleets once; `kicked`: because jobs came, so no agent is named surplus.

        Returns how many fleets were `Raised`, had `NoGroup`, or could not be written (`Failed`),
        how many agents were named `Surplus`, and 1 for `Blind`. Raises nothing that AWS raises.
        """
        now_ms = int(self.clock() * 1000)
        done: Counter[str] = Counter()
        try:
            sight = self._look()
        except Blind as blind:
            done["Blind"] = 1
            self._say_blind(str(blind), now_ms)
            return done
        for plan in self.plans:
            if plan.name not in sight.groups:
                done["NoGroup"] += 1
                name = fleet_name(self.deployment, plan.name)
                self.log.info(
                    "a fleet is left alone: it has no Auto Scaling group",
                    fleet=plan.name,
                    group=name,
                )
        self._size(sight, now_ms, done, kicked=kicked)
        return done

    # Reading.

    def _look(self) -> Sight:
        """Read everything. Raises Blind."""
        queues = sorted({queue for plan in self.plans for queue in plan.queues})
        fleets = [plan.name for plan in self.plans]
        names = {fleet_name(self.deployment, fleet): fleet for fleet in fleets}
        with self.pool(AT_ONCE) as pool:
            records = _read(
                "DynamoDB (table settings)", lambda: self.records.read_all(fleets, consistent=True)
            )
            settings = _read("DynamoDB (table settings)", lambda: self.settings.get_all(queues))
            rows = _read("DynamoDB (table agents)", lambda: self.agents.every_at_once(pool))
            lanes = [(queue, lane) for queue in queues for lane in LANES]
            lengths = _read("SQS (lengths of lanes)", lambda: list(pool.map(self._visible, lanes)))
        found = _read("Auto Scaling (groups)", lambda: self.groups.states(list(names)))
        groups = {names[name]: group for name, group in found.items()}
        below = [fleet for fleet, group in groups.items() if group.desired > group.in_service]
        visible: Counter[str] = Counter()
        for (queue, _lane), count in zip(lanes, lengths, strict=True):
            visible[queue] += count
        return Sight(
            records,
            groups,
            {row.name: row for row in rows},
            settings,
            visible,
            {fleet: self._activities(fleet) for fleet in below},
        )

    def _visible(self, lane: tuple[str, Lane]) -> int:
        return self.lanes.lane(*lane).lengths().visible

    def _activities(self, fleet: str) -> Sequence[ScalingActivity]:
        name = fleet_name(self.deployment, fleet)
        return _read("Auto Scaling (activities)", lambda: self.groups.activities(name, ACTIVITIES))

    # Deciding and writing.

    def _size(self, sight: Sight, now_ms: int, done: Counter[str], *, kicked: bool) -> None:
        plans = [plan for plan in self.plans if plan.name in sight.groups]
        threads = {
            name: declared if (own := sight.settings[name].threads) is None else own
            for name, declared in self.threads.items()
            if name in sight.settings
        }
        queues = self._queues(sight, threads, now_ms)
        shortages = {plan.name: self._short(sight, plan.name, now_ms) for plan in plans}
        loads = {
            plan.name: fleet_load(
                plan,
                sight.groups[plan.name],
                sight.rows,
                threads,
                now_ms,
                short=shortages[plan.name] is not None,
            )
            for plan in plans
        }
        decided = wanted([load.state for load in loads.values()], queues)
        for plan in plans:
            group, load = sight.groups[plan.name], loads[plan.name]
            decision = decided.fleets[plan.name]
            before = sight.records.get(plan.name)
            record = _record(plan, group, load, decided, before, shortages[plan.name], now_ms)
            try:
                record = self._write(plan, record, decision, done)
                if not kicked:
                    self._name_surplus(plan, group, load, record, done)
                if to_write(before, record):
                    self.records.write(plan.name, record)
            except (ClientError, BotoCoreError):
                done["Failed"] += 1
                self.log.exception(
                    "a fleet could not be sized; next try in a minute", fleet=plan.name
                )
            self._measure(plan.name, load, decision, record)

    def _queues(
        self, sight: Sight, threads: Mapping[str, int], now_ms: int
    ) -> dict[str, QueueLoad]:
        rows = list(sight.rows.values())
        in_groups = frozenset(
            instance for group in sight.groups.values() for instance in group.instances
        )
        return {
            queue: queue_load(
                queue,
                settings,
                sight.visible[queue],
                rows=rows,
                threads=threads[queue],
                in_groups=in_groups,
                now_ms=now_ms,
            )
            for queue, settings in sight.settings.items()
        }

    def _short(self, sight: Sight, fleet: str, now_ms: int) -> str | None:
        """Why Auto Scaling does not get the instances of a fleet; None: it does, or may yet."""
        before = sight.records.get(fleet)
        if fleet not in sight.activities or before is None or before.below_since_ms is None:
            return None
        return shortage(sight.activities[fleet], before.below_since_ms, now_ms)

    def _write(
        self, plan: FleetPlan, record: FleetRecord, decision: Decision, done: Counter[str]
    ) -> FleetRecord:
        """Raise the desired capacity if it is still below what was decided."""
        name = fleet_name(self.deployment, plan.name)
        if decision.desired <= record.desired:
            return record
        group = self.groups.states([name]).get(name)
        if group is None:
            return record
        given_back = max(0, record.desired - group.desired)
        desired = min(decision.desired - given_back, group.most)
        if desired <= group.desired:
            return record  # an operator or a deployment was faster
        self.groups.set_desired(name, desired)
        done["Raised"] += 1
        self.log.info(
            "desired capacity raised",
            fleet=plan.name,
            before=group.desired,
            desired=desired,
            backlog=decision.backlog,
        )
        now_ms = record.decided_ms
        below = now_ms if record.below_since_ms is None else record.below_since_ms
        return replace(record, desired=desired, raised_ms=now_ms, below_since_ms=below)

    def _name_surplus(
        self,
        plan: FleetPlan,
        group: GroupState,
        load: FleetLoad,
        record: FleetRecord,
        done: Counter[str],
    ) -> None:
        chosen = surplus(
            load.serving,
            least=group.least,
            roomy_since_ms=record.roomy_since_ms,
            idle_s=plan.idle_s,
            now_ms=record.decided_ms,
        )
        for agent in chosen:
            if self.agents.name_surplus(agent.name, record.decided_ms, beat_ms=agent.beat_ms):
                done["Surplus"] += 1
                self.log.info("an agent is named surplus", fleet=plan.name, agent=agent.name)

    # Saying.

    def _say_blind(self, reason: str, now_ms: int) -> None:
        self.log.error(BLIND.format(what=reason))
        for plan in self.plans:
            try:
                before = self.records.read(plan.name)
                since = None if before is None else before.blind_since_ms
                after = replace(
                    before or _nothing(now_ms),
                    decided_ms=now_ms,
                    blind_since_ms=now_ms if since is None else since,
                    blind_reason=reason,
                )
                if to_write(before, after):
                    self.records.write(plan.name, after)
            except (ClientError, BotoCoreError):
                self.log.exception("the record of a fleet cannot be written", fleet=plan.name)
        for plan in self.plans:
            self.metrics.emit(self._of(plan.name), {"ScalerBlind": 1})

    def _measure(
        self, fleet: str, load: FleetLoad, decision: Decision, record: FleetRecord
    ) -> None:
        values = {
            "SlotsWanted": decision.wanted,
            "Backlog": decision.backlog,
            "SlotsBusy": sum(agent.running for agent in load.serving),
            "SlotsTotal": load.slots,
            "AgentsAlive": load.state.alive,
            "AgentsInTrouble": load.in_trouble,
            "CapacityShort": int(record.short),
            "ScalerBlind": 0,
        }
        self.metrics.emit(self._of(fleet), values)

    def _of(self, fleet: str) -> dict[str, str]:
        return {"Deployment": self.deployment, "Fleet": fleet}


def shortage(activities: Iterable[ScalingActivity], below_since_ms: int, now_ms: int) -> str | None:
    """Why a group that is below its desired capacity gets no instances; None: it may yet.

    At once if the newest launch that ended, newest first in `activities`, has failed since then;
    else after `SHORT_AFTER_MS`, unless a launch succeeded in that time.
    """
    ended = (
        each
        for each in activities
        if each.status in {"Successful", "Failed", "Cancelled"}
        and not each.description.startswith("Terminating")
        and each.at_ms >= below_since_ms - EARLIER_MS
    )
    last = next(ended, None)
    if last is not None and last.status == "Failed":
        return last.cause or last.description
    late = now_ms - below_since_ms >= SHORT_AFTER_MS
    recent = last is not None and now_ms - last.at_ms < SHORT_AFTER_MS
    return NOTHING_CAME if late and not recent else None


def _record(  # noqa: PLR0913, PLR0917 - what one call knows of a fleet
    plan: FleetPlan,
    group: GroupState,
    load: FleetLoad,
    decided: Wanted,
    before: FleetRecord | None,
    shortage: str | None,
    now_ms: int,
) -> FleetRecord:
    """What is known of a fleet before anything is written."""
    decision, state = decided.fleets[plan.name], load.state
    old = before or _nothing(now_ms)
    quiet = not decided.waiting.intersection(plan.queues) and not state.booting
    room = quiet and decision.desired <= group.desired and roomy(load.serving)
    return FleetRecord(
        decided_ms=now_ms,
        wanted=decision.wanted,
        desired=group.desired,
        max=group.most,
        in_service=group.in_service,
        alive=state.alive,
        busy=state.busy,
        booting=state.booting,
        backlog=decision.backlog,
        limit=decision.limit,
        below_since_ms=_since(old.below_since_ms, now_ms, group.desired > group.in_service),
        short_since_ms=_since(old.short_since_ms, now_ms, shortage is not None),
        short_reason=shortage,
        raised_ms=old.raised_ms,
        roomy_since_ms=_since(old.roomy_since_ms, now_ms, room),
        suspended=group.suspended,
        waiting={
            queue: old.waiting.get(queue, now_ms)
            for queue in plan.queues
            if queue in decided.waiting
        },
    )


def _nothing(now_ms: int) -> FleetRecord:
    """The record of a fleet of which nothing is known."""
    return FleetRecord(now_ms, 0, 0, 0, 0, 0, 0, 0)


def _since(before: int | None, now_ms: int, holds: bool) -> int | None:  # noqa: FBT001 - one rule
    """Since when something holds; None: it does not."""
    if not holds:
        return None
    return now_ms if before is None else before


def _read(what: str, read: Callable[[], Found]) -> Found:
    try:
        return read()
    except (ClientError, BotoCoreError) as error:
        raise Blind(f"{what}: {error}") from error
