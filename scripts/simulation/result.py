"""Runs a scenario, and counts waits, instances, dollars, and what may not happen."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass

from joblane.state.lifecycle import State
from scripts.costs import prices
from scripts.simulation.job import Job
from scripts.simulation.scaling import ScalerFunction, Scaling
from scripts.simulation.scenarios import Arrival, Scenario
from scripts.simulation.tracking import TargetTracking
from scripts.simulation.world import World

SPOT_PART = 0.4
"""Price of a spot instance as a part of the on-demand price. Assumed: it changes by type, zone and
hour; AWS says up to 90 % less."""

LEAVE_S = 3600.0
"""How long a run goes on after its last job, for the instances to end."""

LIMIT_S = 86_400.0
"""Longest time after the last submission: what has not ended then counts as lost."""

SCALER_GB = 0.5

SAMPLE_S = 10.0

LATE = 0.75
"""The part of the time of submission after which a fleet should have the size that it needs."""


@dataclass(frozen=True)
class Result:
    """One run."""

    scenario: str
    scaling: str
    seed: int
    jobs: int
    accepted_s: float
    """From the first request to the last job that is accepted."""
    wait_p50_s: float
    wait_p99_s: float
    wait_max_s: float
    instances_max: int
    instances_mean: float
    instance_hours: float
    slots_used: float
    """Part of the slots' time in which a job ran."""
    instance_dollars: float
    request_dollars: float
    lost: int
    """Jobs that did not end."""
    twice: int
    """Jobs that completed more than once, or of which two attempts ran at once."""
    interrupted: int
    """Attempts that were interrupted, and repeated."""
    busy_ended: int
    """Instances that scale-in ended while jobs ran there."""
    launched: int
    raises: int
    """Times that a desired capacity was raised."""
    above_max: int
    """Samples with more instances than the maximum of their fleet."""
    flaps: int
    """Instances that ended, idle, within `idle_s` of a launch of another one of their fleet."""
    blind_calls: int
    raised_blind: int
    events: int
    seconds: float
    """Simulated time."""
    held_up: dict[str, int]
    """Requests that a limit of AWS held up."""
    in_flight_max: int
    submitted_s: float
    """How long jobs were submitted."""
    running_mean: float
    """Jobs that ran at once, while jobs were submitted."""
    instances_during: float
    """Instances, while jobs were submitted."""
    running_late: float
    """The same, in the last quarter of that time."""
    instances_late: float
    instances_end: int
    """Instances when the run ended."""
    above_limit: int
    """Jobs above twice the limit of a queue over all agents, at most. When a share changes hands,
    jobs that run go on beside those that start (docs/reference/queues.md)."""
    calls: int
    """Calls of the scaler."""
    dropped: int
    """Calls that Lambda gave up, because another one ran."""
    scaler_longest_s: float
    demand: dict[str, dict[str, float]]
    """What was asked for of rates that AWS limits: `total` while jobs were submitted, `most` in one
    second, and the longest wait."""

    def as_json(self) -> dict[str, object]:
        """For --json."""
        return asdict(self)


class Run:
    """A run of a scenario."""

    def __init__(self, name: str, scenario: Scenario, seed: int, scaling: str) -> None:
        self.name, self.scenario, self.seed, self.kind = name, scenario, seed, scaling
        self.world = World(scenario.plan, seed, self._scaling())
        self._arrivals = scenario.arrivals(self.world.clock.rng)
        self._last = 0.0
        self._all_in = False
        self.samples: list[tuple[float, int, int]] = []
        """When, how many instances, and how many jobs that run."""
        self.above_max = 0

    def _scaling(self) -> Callable[[World], Scaling]:
        if self.kind == "joblane":
            return ScalerFunction
        fleet, scenario = self.scenario.plan.fleets[0], self.scenario
        target = max(1.0, scenario.wait_s / scenario.mean_s * fleet.threads)
        return lambda world: TargetTracking(world, target)

    def run(self) -> Result:
        """Run it to its end: all jobs have ended and the fleets are as small as they get."""
        world = self.world
        self._next(self._arrivals)
        self._sample()
        limit = self.scenario.seconds + LIMIT_S
        world.clock.run(limit, self._finished)
        if world.left == 0:
            world.clock.run(world.clock.now + LEAVE_S, self._small)
        return self._result()

    def _next(self, arrivals: Iterator[Arrival]) -> None:
        arrival = next(arrivals, None)
        if arrival is None:
            self._all_in = True
        else:
            self.world.clock.at(arrival.at, self._submit, arrival, arrivals)

    def _submit(self, arrival: Arrival, arrivals: Iterator[Arrival]) -> None:
        world = self.world
        world.submit(Job(len(world.jobs), arrival.queue, arrival.lane, arrival.run_s))
        self._next(arrivals)

    def _finished(self) -> bool:
        return self._all_in and self.world.left == 0

    def _small(self) -> bool:
        kept = 0 if self.world.scaling.protects else 1  # target tracking keeps one
        groups = self.world.groups.values()
        return all(len(group.instances) <= max(kept, group.plan.min_size) for group in groups)

    def _sample(self) -> None:
        world = self.world
        now, running = world.clock.now, world.running.total()
        self.samples.append((now, world.instances_alive(), running))
        for group in world.groups.values():
            self.above_max += group.size > group.plan.max_size
        if now <= self.scenario.seconds:
            self._asked = {name: rate.total for name, rate in world.rates().items()}
        world.clock.after(SAMPLE_S, self._sample)

    def _result(self) -> Result:
        world, groups = self.world, self.world.groups.values()
        for group in groups:
            group.close()
        waits = sorted(job.started - job.submitted for job in world.jobs if job.started is not None)
        on_demand, spot = sum(g.on_demand_s for g in groups), sum(g.spot_s for g in groups)
        slots_s = sum((g.on_demand_s + g.spot_s) * g.plan.threads for g in groups)
        ran = sum(job.run_s for job in world.jobs if job.state is State.COMPLETED)
        submitted_s = self.scenario.seconds
        during = [sample for sample in self.samples if sample[0] <= submitted_s]
        late = [sample for sample in during if sample[0] >= submitted_s * LATE]
        scaler = world.scaling if isinstance(world.scaling, ScalerFunction) else None
        return Result(
            scenario=self.name,
            scaling=self.kind,
            seed=self.seed,
            jobs=len(world.jobs),
            accepted_s=max((job.submitted for job in world.jobs), default=0.0),
            wait_p50_s=_at(waits, 0.5),
            wait_p99_s=_at(waits, 0.99),
            wait_max_s=_at(waits, 1.0),
            instances_max=max(count for _, count, _ in self.samples),
            instances_mean=_mean(count for _, count, _ in self.samples),
            instance_hours=(on_demand + spot) / 3600,
            slots_used=ran / slots_s if slots_s else 0.0,
            instance_dollars=self._instance_dollars(),
            request_dollars=self._request_dollars(),
            lost=sum(job.completions == 0 for job in world.jobs),
            twice=sum(job.completions > 1 or job.overlaps > 0 for job in world.jobs),
            interrupted=sum(job.interrupted for job in world.jobs),
            busy_ended=sum(group.busy_ended for group in groups),
            launched=sum(group.launched for group in groups),
            raises=sum(len(group.raises) for group in groups),
            above_max=self.above_max,
            flaps=sum(group.flaps() for group in groups),
            blind_calls=scaler.blind_calls if scaler else 0,
            raised_blind=sum(
                outage.begin + 1 <= when < outage.end
                for outage in self.scenario.plan.outages
                for group in groups
                for when, _ in group.raises
            ),
            events=world.clock.events,
            seconds=world.clock.now,
            held_up=dict(world.usage.refused),
            in_flight_max=max(lane.most_in_flight for lane in world.lanes.values()),
            submitted_s=submitted_s,
            instances_during=_mean(count for _, count, _ in during),
            running_mean=_mean(running for _, _, running in during),
            running_late=_mean(running for _, _, running in late),
            instances_late=_mean(count for _, count, _ in late),
            instances_end=world.instances_alive(),
            above_limit=max(
                max(0, world.most_running[name] - 2 * limit)
                for name, limit in self._limits().items()
            ),
            calls=scaler.calls if scaler else 0,
            dropped=scaler.dropped if scaler else 0,
            scaler_longest_s=scaler.longest_s if scaler else 0.0,
            demand={
                name: {"total": self._asked[name], "most": rate.most, "waited_s": rate.waited_s}
                for name, rate in world.rates().items()
            },
        )

    def _limits(self) -> dict[str, int]:
        """The most jobs of each queue that may run at once."""
        slots = sum(plan.max_size * plan.threads for plan in self.scenario.plan.fleets)
        limits = self.scenario.plan.cluster_threads.items()
        return {name: slots if limit is None else limit for name, limit in limits}

    def _instance_dollars(self) -> float:
        dollars = 0.0
        for group in self.world.groups.values():
            price = prices.instance_hour(group.plan.instance_type)
            if price is None:
                raise ValueError(f"{group.plan.instance_type} has no price")
            hours, spot_hours = group.on_demand_s / 3600, group.spot_s / 3600
            dollars += price.of(hours) + SPOT_PART * price.of(spot_hours)
            dollars += prices.PUBLIC_IPV4.of(hours + spot_hours)
            dollars += prices.VOLUME_GB.of(30 * (hours + spot_hours) / prices.HOURS)
        return dollars

    def _request_dollars(self) -> float:
        used = self.world.usage
        return (
            prices.SQS_REQUEST.of(used.sqs + used.sqs_other)
            + prices.FAIR_QUEUE_REQUEST.of(used.sqs)
            + prices.WRITE_UNIT.of(used.write_units)
            + prices.READ_UNIT.of(used.read_units)
            + prices.LAMBDA_CALL.of(used.lambda_calls)
            + prices.LAMBDA_GB_S["arm64"].of(used.lambda_s * SCALER_GB)
        )


def _mean(values: Iterable[float]) -> float:
    """The mean of values; 0 of none."""
    found = list(values)
    return sum(found) / len(found) if found else 0.0


def _at(values: list[float], part: float) -> float:
    if not values:
        return 0.0
    return values[min(len(values) - 1, int(part * len(values)))]
