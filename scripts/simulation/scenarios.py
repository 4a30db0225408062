"""What is simulated: load, fleets and trouble. Every scenario is one function of a scale."""

import heapq
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random

from joblane.deployment.names import Lane
from scripts.simulation.fleet import FleetPlan, Supply
from scripts.simulation.world import Outage, Plan

HOUR_S = 3600.0


@dataclass(frozen=True)
class Arrival:
    """A job that is submitted."""

    at: float
    run_s: float
    queue: str = "default"
    lane: Lane = "default"


@dataclass(frozen=True)
class Scenario:
    """One scenario."""

    what: str
    plan: Plan
    seconds: float
    """How long jobs are submitted. It goes on until all have ended and agents have left."""
    arrivals: Callable[[Random], Iterator[Arrival]]
    wait_s: float = 60.0
    """The wait that target tracking is configured to accept."""
    mean_s: float = 30.0
    """Mean run time, which the target of target tracking assumes."""
    even: bool = False
    """Whether the load is the same all the time."""


def run_time(rng: Random, mean_s: float) -> float:
    """The run time of a job: log-normal, of a standard deviation as large as its mean."""
    sigma = math.sqrt(math.log(2))
    return rng.lognormvariate(math.log(mean_s) - sigma * sigma / 2, sigma)


def poisson(
    rng: Random, seconds: float, most: float, rate: Callable[[float], float], mean_s: float
) -> Iterator[Arrival]:
    """Jobs that come one by one at `rate` a second, which is never above `most`."""
    now = 0.0
    while (now := now + rng.expovariate(most)) < seconds:
        if rng.random() * most < rate(now):
            yield Arrival(now, run_time(rng, mean_s))


def steady(scale: float) -> Scenario:
    """The same load all the time."""
    rate = 4.0 * scale
    return Scenario(
        what=f"{rate:g} jobs a second of 30 s for two hours, from an empty fleet",
        plan=Plan(fleets=(FleetPlan(max_size=max(2, round(60 * scale))),)),
        seconds=2 * HOUR_S,
        arrivals=lambda rng: poisson(rng, 2 * HOUR_S, rate, lambda _: rate, 30.0),
        even=True,
    )


def burst(scale: float) -> Scenario:
    """Many jobs at once."""
    jobs = round(100_000 * scale)

    def arrivals(rng: Random) -> Iterator[Arrival]:
        for _ in range(jobs):
            yield Arrival(1.0, run_time(rng, 30.0))

    return Scenario(
        what=f"{jobs:,} jobs of 30 s submitted at once, to an empty fleet of at most "
        f"{max(2, round(500 * scale))} instances",
        plan=Plan(fleets=(FleetPlan(max_size=max(2, round(500 * scale))),)),
        seconds=2.0,
        arrivals=arrivals,
    )


def day(scale: float) -> Scenario:
    """A day with a peak at 15:00, and reports of a queue that is limited to 40 at once."""
    low, high = 0.2 * scale, 4.0 * scale

    def rate(now: float) -> float:
        distance = (now / HOUR_S - 15.0) / 3.0
        return low + (high - low) * math.exp(-distance * distance / 2)

    def arrivals(rng: Random) -> Iterator[Arrival]:
        usual = poisson(rng, 24 * HOUR_S, high, rate, 30.0)
        reports = iter(
            Arrival(hour * HOUR_S + 1, run_time(rng, 60.0), "reports", "low")
            for hour in range(24)
            for _ in range(round(300 * scale))
        )
        return merged(usual, reports)

    limit = max(1, round(40 * scale))
    fleet = FleetPlan(queues=("default", "reports"), max_size=max(2, round(60 * scale)))
    return Scenario(
        what=f"a day from {low:g} to {high:g} jobs a second of 30 s, and "
        f"{round(300 * scale)} reports of 60 s each hour, at most {limit} at once",
        plan=Plan(fleets=(fleet,), cluster_threads={"default": None, "reports": limit}),
        seconds=24 * HOUR_S,
        arrivals=arrivals,
    )


def spot(scale: float) -> Scenario:
    """Steady load on spot instances that are interrupted, die, or are cut off from AWS."""
    base = steady(scale)
    fleet = replace(base.plan.fleets[0], spot_percent=90, on_demand_base=1)
    supply = Supply(interruptions_per_h=0.5, deaths_per_h=0.1, cuts_per_h=0.1)
    return replace(
        base,
        what=base.what
        + "; 90 % spot: each is interrupted every two hours in the mean; any instance dies without "
        "notice, and is cut off from AWS for 8 minutes, every ten hours",
        plan=replace(base.plan, fleets=(fleet,), supply=supply),
    )


def blind(scale: float) -> Scenario:
    """SQS does not answer for ten minutes, while a burst is worked off."""
    base = burst(scale)
    return replace(
        base,
        what=base.what + "; SQS does not answer from minute 4 to minute 14",
        plan=replace(base.plan, outages=(Outage(240.0, 840.0),)),
    )


def million(scale: float) -> Scenario:
    """A million jobs in an hour on ten thousand agents, in two fleets."""
    agents = round(10_000 * scale)
    rate = 1e6 / HOUR_S * scale
    fleets = tuple(
        FleetPlan(name=name, max_size=agents // 2, instance_type="c7g.xlarge", vcpus=4, threads=8)
        for name in ("first", "second")
    )
    return Scenario(
        what=f"{1e6 * scale:,.0f} jobs of 240 s in an hour, on up to {agents:,} agents of 8 slots "
        "in two fleets, which are empty at first; EC2's rate of launches raised to 100 a second",
        plan=Plan(fleets=fleets, supply=Supply(launches_per_s=100.0), expire_polls=False),
        seconds=HOUR_S,
        arrivals=lambda rng: poisson(rng, HOUR_S, rate, lambda _: rate, 240.0),
        mean_s=240.0,
        even=True,
    )


def unraised(scale: float) -> Scenario:
    """The same, with what EC2 launches by default."""
    base = million(scale)
    return replace(
        base,
        what=f"{base.what.split(';')[0]}; EC2's rate of launches as it is by default, 1,000 at "
        "once and then 2 a second",
        plan=replace(
            base.plan,
            supply=Supply(launches=max(1, round(1000 * scale)), launches_per_s=2 * scale),
        ),
        even=False,  # the fleets grow as long as jobs come
    )


def merged(first: Iterator[Arrival], second: Iterator[Arrival]) -> Iterator[Arrival]:
    """Both in the order of their times."""
    return heapq.merge(first, second, key=lambda arrival: arrival.at)


SCENARIOS: Mapping[str, Callable[[float], Scenario]] = {
    "steady": steady,
    "burst": burst,
    "day": day,
    "spot": spot,
    "blind": blind,
    "million": million,
    "unraised": unraised,
}
