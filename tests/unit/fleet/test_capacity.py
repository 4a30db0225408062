"""What a fleet has, and which agents it can spare: tables of cases."""

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from joblane.fleet.absence import BootFailure, absent
from joblane.fleet.capacity import (
    EXPECTED_MS,
    SILENT_MS,
    FleetLoad,
    FleetPlan,
    GroupState,
    ServingAgent,
    fleet_load,
    queue_load,
)
from joblane.fleet.surplus import roomy, surplus
from joblane.queue.settings import UNSET
from joblane.state.lease import LEASE_S, NO_EGRESS, Heartbeat

NOW_MS = 1_800_000_000_000
PLAN = FleetPlan("main", ("default", "bulk"), 8, 300)
THREADS = {"default": 6, "bulk": 2}
ROW = Heartbeat(
    name="i-1",
    since_ms=0,
    beat_ms=NOW_MS - 1000,
    threads=8,
    running=0,
    queues=("default", "bulk"),
    isolation="full",
    version="1",
    left=8,
    taken={},
)
FREE = {"default": 6, "bulk": 2}


class Case(NamedTuple):
    """One instance with its lifecycle state and its agent's row, and what it counts as."""

    name: str
    row: dict[str, Any] | None
    expected: dict[str, Any]
    lifecycle: str = "InService"


IN = {"members": 1, "in_service": 1}
CASES = [
    Case("serves, without jobs", {}, IN | {"alive": 1, "free": 8, "free_of": FREE}),
    Case(
        "serves, with jobs of one queue",
        {"running": 2, "left": 6, "taken": {"bulk": 2}},
        IN | {"alive": 1, "busy": 1, "running": 2, "free": 6, "free_of": {"default": 6, "bulk": 0}},
    ),
    Case(
        "its memory is full: free slots are no capacity",
        {"running": 1, "left": 0, "taken": {"default": 1}},
        IN | {"alive": 1, "busy": 1, "running": 1},
    ),
    Case(
        "runs more than its settings allow now",
        {"running": 7, "left": 1, "taken": {"default": 7}},
        IN | {"alive": 1, "busy": 1, "running": 7, "free": 1, "free_of": {"default": 0, "bulk": 1}},
    ),
    Case("boots", None, {"members": 1, "booting": 1}, "Pending"),
    Case("boots, in its lifecycle hook", None, {"members": 1, "booting": 1}, "Pending:Wait"),
    Case("is in service, no row yet", None, IN | {"booting": 1}),
    Case("a row without a lease", {"lease_s": 0, "trouble": "no agent yet"}, IN | {"booting": 1}),
    Case(
        "that row ten minutes later",
        {"lease_s": 0, "beat_ms": NOW_MS - EXPECTED_MS},
        IN | {"broken": 1},
    ),
    Case("is silent", {"beat_ms": NOW_MS - SILENT_MS}, IN | {"broken": 1}),
    Case("silent for less", {"beat_ms": NOW_MS - SILENT_MS + 1, "left": 0}, IN | {"alive": 1}),
    Case(
        "runs no jobs with network egress, and all others",
        {"trouble": f"{NO_EGRESS}: the kernel 6.1 lacks the module veth"},
        IN | {"alive": 1, "free": 8, "free_of": FREE},
    ),
    Case("is in trouble", {"trouble": "the disk is full"}, IN | {"broken": 1}),
    Case(
        "is cordoned: no capacity, and not broken",
        {"mode": "cordoned", "running": 1},
        IN | {"busy": 1, "running": 1},
    ),
    Case("drains", {"mode": "draining", "running": 1}, IN | {"leaving": 1, "busy": 1}),
    Case("leaves", {"mode": "leaving"}, IN | {"leaving": 1}),
    Case("is surplus", {"surplus_ms": NOW_MS, "running": 2}, IN | {"leaving": 1, "busy": 1}),
    Case("ends", {"running": 1}, {}, "Terminating:Wait"),
    Case("is in standby", {}, {}, "Standby"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_instance_counts_as(case: Case):
    rows = {} if case.row is None else {"i-1": replace(ROW, **case.row)}
    group = GroupState(1, 9, 4, {"i-1": case.lifecycle})
    state = fleet_load(PLAN, group, rows, THREADS, NOW_MS).state
    assert (1, 9, 4) == (state.least, state.most, state.desired)
    counted = ("members", "in_service", "alive", "busy", "booting", "broken", "leaving")
    for name in (*counted, "running", "free"):
        assert (name, case.expected.get(name, 0)) == (name, getattr(state, name))
    assert case.expected.get("free_of", {"default": 0, "bulk": 0}) == state.free_of


def test_agents_in_trouble_and_slots_are_counted_for_metrics():
    rows = {
        "i-1": replace(ROW, running=2, left=3),
        "i-2": replace(ROW, trouble="the disk is full"),
        "i-3": replace(
            absent("i-3", NOW_MS - EXPECTED_MS), trouble="failed its setup: exit code 3"
        ),
        "i-4": absent("i-4", NOW_MS - EXPECTED_MS + 1),
    }
    group = GroupState(0, 9, 2, dict.fromkeys(rows, "InService"))
    load: FleetLoad = fleet_load(PLAN, group, rows, THREADS, NOW_MS)
    assert (5, 2) == (load.slots, load.in_trouble)


def test_the_last_boot_that_failed_is_told_and_the_last_start():
    rows = {
        "i-1": replace(ROW, since_ms=NOW_MS - 5000),
        "i-2": replace(ROW, since_ms=NOW_MS - 4000, trouble="takes no jobs: the disk is full"),
        "i-3": replace(absent("i-3", NOW_MS - 3000), trouble="failed its setup: exit code 3"),
        "i-4": replace(absent("i-4", NOW_MS - 2000), trouble="failed its setup: exit code 4"),
        "i-5": absent("i-5", NOW_MS - 1000),
        "i-6": replace(absent("i-6", NOW_MS), trouble="failed its setup, in another fleet"),
    }
    group = GroupState(0, 9, 5, {name: "InService" for name in rows if name != "i-6"})
    load = fleet_load(PLAN, group, rows, THREADS, NOW_MS)
    assert BootFailure("i-4", NOW_MS - 2000, "failed its setup: exit code 4") == load.boot_failure
    assert NOW_MS - 5000 == load.started_ms


def test_instances_in_service_of_which_nothing_is_known_are_listed():
    group = GroupState(0, 9, 3, {"i-1": "InService", "i-2": "InService", "i-3": "Pending:Wait"})
    assert ("i-2",) == fleet_load(PLAN, group, {"i-1": ROW}, THREADS, NOW_MS).rowless


def test_a_queue_counts_jobs_everywhere_and_free_slots_outside_of_groups():
    rows = [
        replace(ROW, name="i-1", running=3, left=5, taken={"default": 2, "bulk": 1}),
        replace(ROW, name="laptop", running=1, left=7, taken={"default": 1}),
        replace(ROW, name="drains", mode="draining", running=4, taken={"default": 4}),
        replace(ROW, name="other", queues=("night",)),
        replace(ROW, name="gone", beat_ms=NOW_MS - LEASE_S * 1000, taken={"default": 4}),
    ]
    in_groups = frozenset({"i-1"})
    settings = replace(UNSET, cluster_threads=20, run_jobs=False)
    load = queue_load(
        "default", settings, 9, rows=rows, threads=6, in_groups=in_groups, now_ms=NOW_MS
    )
    assert (9, 6, True, 20, 7, 5) == (
        load.visible,
        load.threads,
        load.paused,
        load.cluster_threads,
        load.running,
        load.free_elsewhere,
    )


def agents(*running: int, slots: int = 8) -> list[ServingAgent]:
    return [ServingAgent(f"i-{n}", 0, count, slots - count) for n, count in enumerate(running)]


def chosen(serving: list[ServingAgent], **given: Any) -> list[str]:
    values: dict[str, Any] = {"least": 0, "roomy_since_ms": NOW_MS - 300_000, "idle_s": 300}
    return [agent.name for agent in surplus(serving, now_ms=NOW_MS, **{**values, **given})]


@pytest.mark.parametrize(
    ("serving", "expected"),
    [(agents(), False), (agents(4), True), (agents(5), False), (agents(8, 0), True)],
)
def test_a_fleet_is_roomy_with_half_of_its_slots_free(serving: list[ServingAgent], expected: bool):
    assert expected is roomy(serving)


@pytest.mark.parametrize(
    ("name", "serving", "given", "expected"),
    [
        ("the one with the fewest jobs", agents(3, 1, 2), {}, ["i-1"]),
        ("a tenth", agents(*[1] * 20, 0), {}, ["i-20", "i-0"]),
        ("not before idle_s", agents(1, 1), {"roomy_since_ms": NOW_MS - 299_999}, []),
        ("not if it is not roomy", agents(1, 1), {"roomy_since_ms": None}, []),
        ("never, with idle_s never", agents(1, 1), {"idle_s": None}, []),
        ("never below the smallest size", agents(1, 1), {"least": 2}, []),
        ("never the last one", agents(0), {}, []),
        ("never above 70 % of the rest", agents(4, 4), {}, []),
        ("up to 70 % of the rest", agents(2, 3), {}, ["i-0"]),
        ("none of none", agents(), {}, []),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_surplus_agents(
    name: str, serving: list[ServingAgent], given: dict[str, Any], expected: list[str]
):
    assert expected == chosen(serving, **given), name
