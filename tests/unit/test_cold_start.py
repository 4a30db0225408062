"""Cold starts: what a function does beyond boto3 with the same clients stays within its bound.

Counted in calls of Python and C functions, which are the same on every host and in every run;
`scripts/bench imports` measures CPU time.
"""

import pytest

from scripts.benches.imports import FUNCTIONS, count, count_boto3

BOUNDS = {"submission": 2.15, "admin": 2.15, "status": 1.95}
"""Those that load the models of the API, each its own: 2.11, 2.10 and 1.91 as of 2026-11."""

BOUND = 1.65
"""All others: 1.53 to 1.58."""

UNWANTED = {
    "boto3",
    "s3transfer",
    "httpx",
    "rich",
    "typer",
    "jsonschema",
    "jsonschema_rs",
    "joblane.client",
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_cold_start_calls_little_more_than_boto3_with_the_same_clients(function: str):
    baseline, start = count_boto3(*FUNCTIONS[function]), count(function)
    ratio = start.calls / baseline.calls
    print(f"{function}: {start.calls} calls, {ratio:.3f} of boto3's; {len(start.modules)} modules")
    assert ratio <= BOUNDS.get(function, BOUND)
    assert set() == UNWANTED & set(start.modules)
