"""Cold starts: what a function does beyond boto3 with the same clients stays within its bound.

Counted in calls of Python and C functions, which are the same on every host and in every run;
`scripts/bench imports` measures CPU time.
"""

from scripts.benches.imports import FUNCTIONS, count, count_boto3
from tests.support.depth import DEEP

BOUNDS = {"submission": 2.15, "admin": 2.15, "status": 1.95, "due": 1.95}
"""Those that load the models of the API, each with the part of its routes that a request needs; and
`due`, which admits submissions as `submission` does, without its routes."""

BOUND = 1.65
"""All others."""

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


REPRESENTATIVES = (
    "submission POST /v1/jobs",
    "submission POST /v1/jobs/{job_id}/resubmit",
    "admin POST /v1/queues/{queue}/requeue",
    "status GET /v1/jobs/{job_id}/outputs",
    "sequel",
    "requeue",
)
"""What takes most: of the functions of the API a part each, and the one that most requests need."""


def test_a_cold_start_calls_little_more_than_boto3_with_the_same_clients():
    """All in one test, because what they all load is loaded once."""
    functions = tuple(FUNCTIONS) if DEEP else REPRESENTATIVES
    baselines, too_many = count_boto3(functions), {}
    for function, start in count(functions).items():
        ratio = start.calls / baselines[FUNCTIONS[function]].calls
        modules = len(start.modules)
        print(f"{function}: {start.calls} calls, {ratio:.3f} of boto3's; {modules} modules")
        if ratio > BOUNDS.get(function.partition(" ")[0], BOUND):
            too_many[function] = ratio
        assert set() == UNWANTED & set(start.modules), function
    assert {} == too_many
