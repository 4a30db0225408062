"""Runs a scenario, and counts waits, instances, dollars, and what may not happen."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from joblane.job.lifecycle import State
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

    def as_json(self) -> dict[str, object]:
        """For --json."""
        return asdict(self)


class Run:
    """A run of a scenario."""

    def __init__(self, name: str, scenario: Scenario, seed: int, scaling: str) -> None:
        self.name, self.scenario, self.seed, self.kind = name, scenario, seed, scaling
        self.world = World(scenario.plan, seed, self._scaling())
        self._arrivals = scenario.arrivals(self.world.clock.dice)
        self._last = 0.0
        self._all_in = False
        self.samples: list[tuple[float, int]] = []
        self.desired: list[tuple[float, str, int]] = []
        """Every change of a desired capacity: when, which fleet, to what."""
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
        groups = self.world.groups.values()
        return all(len(group.instances) <= max(1, group.plan.min_size) for group in groups) and all(
            group.desired == group.plan.min_size or not self.world.scaling.protects
            for group in groups
        )

    def _sample(self) -> None:
        world = self.world
        self.samples.append((world.clock.now, world.instances_alive()))
        for group in world.groups.values():
            self.above_max += len(group.alive) > group.plan.max_size
        world.clock.after(SAMPLE_S, self._sample)

    def _result(self) -> Result:
        world, groups = self.world, self.world.groups.values()
        for group in groups:
            group.close()
        waits = sorted(job.started - job.submitted for job in world.jobs if job.started is not None)
        on_demand, spot = sum(g.on_demand_s for g in groups), sum(g.spot_s for g in groups)
        slots_s = sum((g.on_demand_s + g.spot_s) * g.plan.threads for g in groups)
        ran = sum(job.run_s for job in world.jobs if job.state is State.COMPLETED)
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
            instances_max=max(count for _, count in self.samples),
            instances_mean=sum(count for _, count in self.samples) / len(self.samples),
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
        )

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


def _at(values: list[float], part: float) -> float:
    if not values:
        return 0.0
    return values[min(len(values) - 1, int(part * len(values)))]
