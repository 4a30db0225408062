"""Cold starts: what a function loads beyond boto3 with its clients stays below half as much."""

import pytest

from scripts.benches.imports import FUNCTIONS, measure

NEAR = {"submission": 7, "admin": 7}
"""Those with all of the API to load come near the bound, and are measured for longer."""


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_cold_start_costs_at_most_half_more_than_boto3_with_the_same_clients(function: str):
    figures = measure(function, NEAR.get(function, 3))
    assert figures.ratio <= 1.5, figures
