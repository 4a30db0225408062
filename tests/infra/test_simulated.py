"""What the simulator of scripts/simulation assumes of the stacks is what they have."""

from infra.function import MEMORY_MB, TIMEOUT_S
from infra.projection import COUNTS
from infra.reserved import SCALER_RESERVED
from joblane.config.fleet import IDLE_S, Fleet
from scripts.simulation.fleet import FleetPlan
from scripts.simulation.quotas import FLEET_MOST, SCALER_TIMEOUT_S
from scripts.simulation.result import SCALER_GB
from scripts.simulation.scaling import BATCH, WINDOW_S


def test_batches_of_the_stream_are_those_of_the_projector():
    assert (COUNTS.batch, COUNTS.window_s) == (BATCH, WINDOW_S)


def test_one_call_of_the_scaler_runs_at_a_time():
    assert SCALER_RESERVED == 1
    assert (TIMEOUT_S, MEMORY_MB) == (SCALER_TIMEOUT_S, SCALER_GB * 1024)


def test_fleets_have_the_defaults_of_joblane_toml():
    assert FleetPlan().idle_s == IDLE_S
    sizes = Fleet.model_json_schema()["properties"]["max_size"]
    assert sizes["maximum"] == FLEET_MOST
