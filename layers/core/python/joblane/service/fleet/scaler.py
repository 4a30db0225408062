"""Size the fleets: raise desired capacities by what waits, and name surplus agents.

One call runs at a time (reserved concurrency), every minute and when jobs come. A fleet of which it
cannot read all is not made larger for what cannot be read, no agent of it is named surplus, and the
call says so. Agents make groups smaller meanwhile:

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

from joblane.aws.fleet.auto_scaling import ScalingActivity
from joblane.aws.metrics import Metrics
from joblane.deployment.names import fleet_name
from joblane.errors import Unavailable
from joblane.fleet.absence import BootFailure, absent
from joblane.fleet.capacity import FleetLoad, FleetPlan, GroupState, fleet_load, queue_load
from joblane.fleet.record import SHORT_AFTER_MS, STUCK_AFTER_MS, FleetRecord, to_write
from joblane.fleet.surplus import roomy, surplus
from joblane.fleet.wanted import Decision, QueueLoad, Wanted, decide_wanted
from joblane.service.fleet.snapshot import Blind, Blindness, FleetSnapshot, Sources
from joblane.service.log import Log

EARLIER_MS = 60_000
"""An activity may have begun this long before its group was found below its desired capacity."""

NOTED = 100
"""Instances without an agent that a call writes down, a write unit each; the next call goes on."""

NOTHING_CAME = "Auto Scaling has started no instance for 15 minutes and gives no reason"

BLIND = (
    "the scaler cannot read {what}; until it can, the fleet grows too little or not at all; its "
    "desired capacity can be set by hand: aws autoscaling set-desired-capacity"
)


@dataclass(frozen=True)
class Scaler:
    """Sizes the fleets of one deployment."""

    deployment: str
    plans: Sequence[FleetPlan]
    """In the order of joblane.toml."""
    threads: Mapping[str, int]
    """Jobs of each queue that one agent runs at once, by joblane.toml."""
    sources: Sources
    metrics: Metrics
    clock: Callable[[], float]
    """Returns Unix seconds."""
    log: Log
    _: KW_ONLY
    pool: Callable[[int], Executor] = ThreadPoolExecutor

    def run(self, *, kicked: bool = False) -> Counter[str]:
        """Size all fleets once; `kicked`: because jobs came, so no agent is named surplus.

        Returns how many fleets were `Raised`, had `NoGroup`, could not be read (`Blind`) or written
        (`Failed`), and how many agents were named `Surplus`. Raises nothing that AWS raises.
        """
        now_ms = int(self.clock() * 1000)
        done: Counter[str] = Counter()
        try:
            snapshot = self.sources.look(self.deployment, self.plans, self.pool)
        except Blind as blind:
            done["Blind"] = len(self.plans)
            self._record_blindness(str(blind), now_ms)
            return done
        for plan in self.plans:
            if plan.name not in snapshot.groups:
                done["NoGroup"] += 1
                name = fleet_name(self.deployment, plan.name)
                self.log.info(
                    "a fleet is left alone: it has no Auto Scaling group",
                    fleet=plan.name,
                    group=name,
                )
        self._size(snapshot, now_ms, done, kicked=kicked)
        return done

    # Deciding and writing.

    def _size(
        self, snapshot: FleetSnapshot, now_ms: int, done: Counter[str], *, kicked: bool
    ) -> None:
        plans = [plan for plan in self.plans if plan.name in snapshot.groups]
        threads = {
            name: declared if (own := snapshot.settings[name].threads) is None else own
            for name, declared in self.threads.items()
            if name in snapshot.settings
        }
        queues = self._queues(snapshot, threads, now_ms)
        shortages = {plan.name: self._short(snapshot, plan.name, now_ms) for plan in plans}
        loads = {
            plan.name: fleet_load(
                plan,
                snapshot.groups[plan.name],
                snapshot.rows,
                threads,
                now_ms,
                short=shortages[plan.name] is not None,
                stuck=_is_stuck(snapshot.records.get(plan.name), now_ms),
            )
            for plan in plans
        }
        decided = decide_wanted([load.state for load in loads.values()], queues)
        for plan in plans:
            group, load = snapshot.groups[plan.name], loads[plan.name]
            decision = decided.fleets[plan.name]
            before, blindness = snapshot.records.get(plan.name), snapshot.blindness(plan)
            record = _record(plan, group, load, decided, before, shortages[plan.name], now_ms)
            if blindness is not None:
                done["Blind"] += 1
                record = _blind(record, before, blindness)
                self.log.error(BLIND.format(what=blindness.reason), fleet=plan.name)
            try:
                if blindness is None or not blindness.holds:
                    record = self._write(plan, record, decision, done)
                if not kicked:
                    self._note_absence(load, now_ms)
                    self._name_surplus(plan, group, load, record, done)
                if to_write(before, record):
                    self.sources.records.write(plan.name, record)
            except Unavailable:
                done["Failed"] += 1
                self.log.exception(
                    "a fleet could not be sized; next try in a minute", fleet=plan.name
                )
            self._measure(plan.name, load, decision, record, blindness)

    def _queues(
        self, snapshot: FleetSnapshot, threads: Mapping[str, int], now_ms: int
    ) -> dict[str, QueueLoad]:
        rows = list(snapshot.rows.values())
        in_groups = frozenset(
            instance for group in snapshot.groups.values() for instance in group.instances
        )
        return {
            queue: queue_load(
                queue,
                settings,
                snapshot.visible[queue],
                rows=rows,
                threads=threads[queue],
                in_groups=in_groups,
                now_ms=now_ms,
            )
            for queue, settings in snapshot.settings.items()
        }

    def _short(self, snapshot: FleetSnapshot, fleet: str, now_ms: int) -> str | None:
        """Why Auto Scaling does not get the instances of a fleet; None: it does, or may yet."""
        before = snapshot.records.get(fleet)
        if fleet not in snapshot.activities or before is None or before.below_since_ms is None:
            return None
        return shortage(snapshot.activities[fleet], before.below_since_ms, now_ms)

    def _write(
        self, plan: FleetPlan, record: FleetRecord, decision: Decision, done: Counter[str]
    ) -> FleetRecord:
        """Raise the desired capacity if it is still below what was decided."""
        name = fleet_name(self.deployment, plan.name)
        if decision.desired <= record.desired:
            return record
        group = self.sources.groups.states([name]).get(name)
        if group is None:
            return record
        given_back = max(0, record.desired - group.desired)
        desired = min(decision.desired - given_back, group.most)
        if desired <= group.desired:
            return record  # an operator or a deployment was faster
        self.sources.groups.set_desired(name, desired)
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
            if self.sources.agents.name_surplus(
                agent.name, record.decided_ms, beat_ms=agent.beat_ms
            ):
                done["Surplus"] += 1
                self.log.info("an agent is named surplus", fleet=plan.name, agent=agent.name)

    def _note_absence(self, load: FleetLoad, now_ms: int) -> None:
        """Write down since when instances have no agent, so that they are not expected for ever.

        instance_watch does so as well, and replaces them; this must not depend on it.
        """
        for instance in load.rowless[:NOTED]:
            self.sources.agents.note_absence(absent(instance, now_ms))

    # Saying.

    def _record_blindness(self, reason: str, now_ms: int) -> None:
        """Say of every fleet that nothing of it can be read."""
        self.log.error(BLIND.format(what=reason), fleet="all")
        for plan in self.plans:
            try:
                before = self.sources.records.read(plan.name)
                known = replace(before or _nothing(now_ms), decided_ms=now_ms)
                after = _blind(known, before, Blindness(reason))
                if to_write(before, after):
                    self.sources.records.write(plan.name, after)
            except Unavailable:
                self.log.exception("the record of a fleet cannot be written", fleet=plan.name)
        for plan in self.plans:
            self.metrics.emit(self._of(plan.name), {"ScalerBlind": 1})

    def _measure(
        self,
        fleet: str,
        load: FleetLoad,
        decision: Decision,
        record: FleetRecord,
        blindness: Blindness | None,
    ) -> None:
        values = {
            "SlotsBusy": sum(agent.running for agent in load.serving),
            "SlotsTotal": load.slots,
            "AgentsAlive": load.state.alive,
            "AgentsInTrouble": load.in_trouble,
            "ScalerBlind": int(blindness is not None),
        }
        if blindness is None:  # else they may be wrong, and a wrong figure is worse than none
            values |= {
                "SlotsWanted": decision.wanted,
                "Backlog": decision.backlog,
                "CapacityShort": int(record.short),
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


def _record(
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
    failure = boot_failure(old, load)
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
        crowded_since_ms=_since(old.crowded_since_ms, now_ms, state.crowded),
        short_since_ms=_since(old.short_since_ms, now_ms, shortage is not None),
        short_reason=shortage,
        raised_ms=old.raised_ms,
        roomy_since_ms=_since(old.roomy_since_ms, now_ms, room),
        suspended=group.suspended,
        boot_failed_ms=None if failure is None else failure.booted_ms,
        boot_failed_instance=None if failure is None else failure.instance,
        boot_failed_reason=None if failure is None else failure.reason,
        waiting={
            queue: old.waiting.get(queue, now_ms)
            for queue in plan.queues
            if queue in decided.waiting
        },
    )


def boot_failure(old: FleetRecord, load: FleetLoad) -> BootFailure | None:
    """The last boot that failed: of an instance that is there, or of one that was replaced since.

    The row of an instance ends with it, and the next one may need ten minutes to fail as well.
    """
    if load.boot_failure is not None:
        return load.boot_failure
    before = old.boot_failure
    return None if before is None or load.started_ms > before.booted_ms else before


def _is_stuck(before: FleetRecord | None, now_ms: int) -> bool:
    """Whether a group that was crowded at the last call has been so for long."""
    since_ms = None if before is None else before.crowded_since_ms
    return since_ms is not None and now_ms - since_ms >= STUCK_AFTER_MS


def _blind(record: FleetRecord, before: FleetRecord | None, blindness: Blindness) -> FleetRecord:
    """What is known of a fleet of which not all can be read: it is not known to be roomy."""
    old = before or record
    since_ms = record.decided_ms if old.blind_since_ms is None else old.blind_since_ms
    still = {queue: since for queue, since in old.waiting.items() if queue in blindness.queues}
    return replace(
        record,
        blind_since_ms=since_ms,
        blind_reason=blindness.reason,
        blind_queues=blindness.queues,
        roomy_since_ms=None,
        waiting={**record.waiting, **still},
    )


def _nothing(now_ms: int) -> FleetRecord:
    """The record of a fleet of which nothing is known."""
    return FleetRecord(now_ms, 0, 0, 0, 0, 0, 0, 0)


def _since(before: int | None, now_ms: int, holds: bool) -> int | None:  # noqa: FBT001 - one rule
    """Since when something holds; None: it does not."""
    if not holds:
        return None
    return now_ms if before is None else before
