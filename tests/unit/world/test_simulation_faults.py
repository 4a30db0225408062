"""Faults planted into the product's decisions: a run of the simulator shows each of them.

So the checks of tests/unit/world/test_simulation.py see what they are there for. Each run is also
made without the fault, and shows nothing.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from botocore.exceptions import ClientError

import joblane.fleet.wanted
import joblane.service.fleet.kick
import joblane.service.fleet.scaler
import joblane.service.queue.thread_shares
import scripts.simulation.agent
import scripts.simulation.presence
from joblane.deployment.names import Lane
from joblane.queue.shares import share_out
from joblane.service.fleet.snapshot import Sources
from joblane.service.job.disposal import Action, Disposal
from scripts.simulation.checks import violations
from scripts.simulation.fleet import FleetPlan, Supply
from scripts.simulation.result import Result, Run
from scripts.simulation.scenarios import Arrival, Scenario, merged, poisson, steady
from scripts.simulation.world import Outage, Plan
from tests.support.depth import spread

SEED = 2


def few(jobs: int, run_s: float) -> Scenario:
    """So many jobs at once, for an empty fleet that may be much larger than they need."""

    def arrivals(_: Random) -> Iterator[Arrival]:
        return iter(Arrival(100.0, run_s) for _ in range(jobs))

    return Scenario("few jobs", Plan(fleets=(FleetPlan(max_size=100),)), 101.0, arrivals)


def unreadable() -> Scenario:
    """SQS does not answer while a fleet has work and could grow."""
    plan = Plan(fleets=(FleetPlan(max_size=20),), outages=(Outage(600.0, 1200.0),))
    return replace(steady(0.1), plan=plan)


def limited() -> Scenario:
    """Jobs of a queue of which two may run at once, on several agents."""

    def arrivals(rng: Random) -> Iterator[Arrival]:
        usual = poisson(rng, 1200.0, 1.0, lambda _: 1.0, 30.0)
        return merged(usual, iter(Arrival(600.0, 30.0, "reports") for _ in range(50)))

    fleets = (FleetPlan(queues=("default", "reports"), max_size=10),)
    limits = {"default": None, "reports": 2}
    return Scenario("limited", Plan(fleets=fleets, cluster_threads=limits), 1200.0, arrivals)


def troubled() -> Scenario:
    """Long jobs, on instances that die or are cut off from AWS for longer than a lease."""
    supply = Supply(deaths_per_h=1.0, cuts_per_h=1.0)
    return Scenario(
        "long jobs",
        Plan(fleets=(FleetPlan(max_size=100),), supply=supply),
        3600.0,
        lambda rng: poisson(rng, 3600.0, 0.1, lambda _: 0.1, 600.0),
    )


@dataclass(frozen=True)
class Fault:
    """What is planted, and what a run says of it."""

    name: str
    where: object
    attribute: str
    plant: Callable[..., Any]
    scenario: Scenario
    shown: str


def _all_of_it(
    queue: str, cluster_threads: int, agents: Iterable[tuple[str, int]], now_ms: int
) -> object:
    """Give each agent the whole limit."""
    return replace(share_out(queue, cluster_threads, agents, now_ms), each=cluster_threads)


_visible = Sources._visible  # what is planted around


def _many(self: Sources, lane: tuple[str, Lane]) -> int | str:
    """Take a lane that cannot be read for a full one."""
    found = _visible(self, lane)
    return 1000 if isinstance(found, str) else found


FAULTS = (
    Fault(
        "idle agents stay",
        scripts.simulation.presence,
        "why_leave",
        lambda *_: None,
        steady(0.05),
        "idle instances did not end",
    ),
    Fault(
        "no agent is surplus",
        joblane.service.fleet.scaler,
        "surplus",
        lambda *_, **__: [],
        steady(0.3),
        "instances too many were kept under an even load",
    ),
    Fault(
        "a limit is not shared out",
        joblane.service.queue.thread_shares,
        "share_out",
        _all_of_it,
        limited(),
        "a limit of a queue was exceeded",
    ),
    Fault(
        "lengths that cannot be read are many",
        Sources,
        "_visible",
        _many,
        unreadable(),
        "desired capacities were raised while SQS could not be read",
    ),
    Fault(
        "an agent without a lease goes on",
        scripts.simulation.presence,
        "lease_lost",
        lambda *_: False,
        troubled(),
        "jobs ran twice",
    ),
    Fault(
        "every refused claim is a takeover",
        scripts.simulation.agent,
        "dispose_refused",
        lambda *_: Disposal(Action.TAKE_OVER),
        troubled(),
        "jobs ran twice",
    ),
    Fault(
        "no refused claim is a takeover",
        scripts.simulation.agent,
        "dispose_refused",
        lambda *_: Disposal(Action.DELETE),
        troubled(),
        "jobs were lost",
    ),
)


def run(scenario: Scenario) -> tuple[Run, Result]:
    found = Run("test", scenario, SEED, "joblane")
    return found, found.run()


@pytest.mark.parametrize("fault", spread(FAULTS, 3), ids=lambda fault: fault.name)
def test_a_planted_fault_is_shown(fault: Fault, monkeypatch: pytest.MonkeyPatch):
    _, sound = run(fault.scenario)
    assert [] == violations(sound, fault.scenario)
    monkeypatch.setattr(fault.where, fault.attribute, fault.plant)
    _, broken = run(fault.scenario)
    assert any(each.startswith(fault.shown) for each in violations(broken, fault.scenario))


def test_a_scaler_that_ignores_the_maximum_ends_the_run(monkeypatch: pytest.MonkeyPatch):
    """Auto Scaling refuses what is above it, and the product's log has an exception."""
    scaler = joblane.service.fleet.scaler.Scaler

    def careless(self: Any, plan: Any, record: Any, *_: object) -> object:
        self.sources.groups.set_desired(f"simulated-{plan.name}", 1000)
        return record

    run(few(40, 60.0))
    monkeypatch.setattr(scaler, "_write", careless)
    with pytest.raises(ClientError, match="1000 is not from 0 to 100"):
        run(few(40, 60.0))


def test_one_backlog_launches_instances_once(monkeypatch: pytest.MonkeyPatch):
    _, sound = run(few(40, 600.0))
    assert sound.launched == 40 / 8
    nothing = joblane.fleet.wanted._Pool(0, {})  # what is planted
    monkeypatch.setattr(joblane.fleet.wanted, "_coming", lambda *_: nothing)
    _, broken = run(few(40, 600.0))
    assert broken.launched > 40 / 8


def test_an_empty_fleet_asks_for_an_instance_within_seconds(monkeypatch: pytest.MonkeyPatch):
    found, _ = run(few(1, 60.0))
    ((raised, _),) = found.world.groups["main"].raises
    assert 100 <= raised <= 106
    monkeypatch.setattr(joblane.service.fleet.kick, "more_wait", lambda _: False)
    found, _ = run(few(1, 60.0))
    ((raised, _),) = found.world.groups["main"].raises
    assert raised > 106
