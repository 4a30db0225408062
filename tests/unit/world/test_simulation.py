"""Joblane's decisions in simulated time, at small scales: what no scenario may show.

The figures of docs/SCALE.md are of larger runs; `scripts/simulate --table` writes them.
"""

import json
from functools import cache

import pytest

from scripts.simulation.checks import violations
from scripts.simulation.command import JOBLANE, PAGE, TRACKING, main, written
from scripts.simulation.quotas import QUOTAS, quota_table
from scripts.simulation.result import Result, Run
from scripts.simulation.scenarios import SCENARIOS

SCALES = {
    "steady": 0.05,
    "burst": 0.02,
    "day": 0.01,
    "spot": 0.05,
    "blind": 0.02,
    "million": 0.001,
    "unraised": 0.002,
}

SEED = 2
"""With seed 1, no interruption of a spot instance meets a running job at so small a scale."""


@cache
def simulate(name: str, scaling: str = JOBLANE) -> Result:
    return Run(name, SCENARIOS[name](SCALES[name]), SEED, scaling).run()


def test_every_scenario_is_tested():
    assert SCALES.keys() == SCENARIOS.keys()


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_run_shows_nothing_that_none_may_show(name: str):
    result = simulate(name)
    assert result.jobs > 100
    assert result.instances_max > 0
    assert [] == violations(result, SCENARIOS[name](SCALES[name]))


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name != "spot"])
def test_no_more_instances_run_than_fleets_may_have(name: str):
    """In spot, an instance that EC2 takes still runs while its replacement starts."""
    fleets = SCENARIOS[name](SCALES[name]).plan.fleets
    assert simulate(name).instances_max <= sum(fleet.max_size for fleet in fleets)


@pytest.mark.parametrize("name", ["burst", "blind"])
def test_each_instance_of_a_burst_is_launched_once(name: str):
    (fleet,) = SCENARIOS[name](SCALES[name]).plan.fleets
    assert fleet.max_size == simulate(name).launched


def test_target_tracking_ends_instances_that_run_jobs():
    """So the count above sees such an instance."""
    run = Run("steady", SCENARIOS["steady"](0.1), SEED, TRACKING).run()
    assert run.busy_ended > 0


def test_spot_instances_are_interrupted_and_their_jobs_end():
    result = simulate("spot")
    assert result.interrupted > 0
    assert result.lost == 0


def test_nothing_is_raised_while_sqs_does_not_answer():
    result = simulate("blind")
    assert result.blind_calls >= 9  # each minute of ten
    assert result.raised_blind == 0


def test_a_burst_waits_no_longer_than_with_target_tracking():
    assert simulate("burst").wait_p99_s <= simulate("burst", TRACKING).wait_p99_s


def test_a_seed_repeats_a_run():
    scenario, scale = SCENARIOS["spot"], SCALES["spot"]
    again = Run("spot", scenario(scale), SEED, JOBLANE).run()
    other = Run("spot", scenario(scale), SEED + 1, JOBLANE).run()
    assert again.as_json() == simulate("spot").as_json()
    assert other.events != again.events


def test_the_command_prints_a_run_a_line_as_json(capsys: pytest.CaptureFixture[str]):
    assert main(["--scenario", "burst", "--scale", "0.005", "--runs", "2", "--json"]) == 0
    runs = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(run["scaling"], run["seed"]) for run in runs] == [
        (JOBLANE, 1),
        (TRACKING, 1),
        (JOBLANE, 2),
        (TRACKING, 2),
    ]


def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str]):
    assert main(["--scenario", "burst", "--scale", "0.005"]) == 0
    _, line, *rows = capsys.readouterr().out.splitlines()
    assert [JOBLANE, TRACKING] == [row.split("|")[3].strip() for row in rows]
    assert {len(line)} == {len(row) for row in rows}


def test_the_command_fails_if_a_run_shows_a_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("scripts.simulation.presence.why_leave", lambda *_: None)
    assert main(["--scenario", "burst", "--scale", "0.005"]) == 1
    assert "burst, seed 1: idle instances did not end: " in capsys.readouterr().err


def test_the_page_has_a_row_for_each_comparison():
    page = PAGE.read_text(encoding="utf-8")
    for name in SCENARIOS:
        for scaling in (JOBLANE, TRACKING):
            rows = [row for row in page.splitlines() if row.startswith(f"| {name} ")]
            assert any(f"| {scaling} " in row for row in rows)


def test_the_page_has_a_row_for_each_quota():
    rows = PAGE.read_text(encoding="utf-8").splitlines()
    for quota in QUOTAS:
        assert any(row.startswith(f"| {quota.name} |") for row in rows)
    written(PAGE.read_text(encoding="utf-8"), "quotas", quota_table(simulate("million")))


def test_a_page_without_markers_is_refused():
    with pytest.raises(ValueError, match="no markers"):
        written("# A page", "quotas", "figures")
