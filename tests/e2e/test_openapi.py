"""The deployed API against its OpenAPI document: every answer is a documented one."""

import json
import subprocess

import pytest

from joblane.aws.clients import Clients
from joblane.deployment.names import PLATFORM
from scripts.docs.openapi import FILE
from scripts.local.cloud import Cloud
from scripts.local.deploy import BIN
from tests.e2e.conftest import Http
from tests.support.deployed import empty_lanes
from tests.support.depth import DEEP, budget

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "ignored_auth",
)

EXAMPLES = budget(1, 30)
"""Of each operation, beside those of the document."""

COVERED = (
    "GET /v1/jobs",
    "GET /v1/jobs/{job_id}/logs",
    "POST /v1/jobs/cancel",
    "POST /v1/jobs/{job_id}/cancel",
    "PUT /v1/conditions/{condition}",
)
"""Operations of a tenant whose fields' borders are all tried by default: a list, filters, a path
with a body, one without, headers. The unit tests try those of submissions without HTTP."""

ALL = ("--include-path-regex=",)
OF_PLATFORM = ("--include-path-regex=agents|settings",)
SOME = tuple(f"--include-name={name}" for name in COVERED)


@pytest.fixture(name="quiet")
def _quiet(cloud: Cloud, clients: Clients, platform: Http) -> object:
    """No agent runs what is made up; afterwards no lane holds it and no queue is paused."""
    cloud.stop_agents()
    yield
    queues = [queue["name"] for queue in platform("GET", "/v1/queues").json()["entries"]]
    for queue in queues:
        default = {"run_jobs": True, "threads": None, "cluster_threads": None}
        path = f"/v1/queues/{queue}/settings"
        answer = platform("PUT", path, json=default, headers={"If-Match": "*"})
        assert 200 == answer.status_code
    empty_lanes(clients)


def test_anyone_reads_the_contract(as_nobody: Http):
    answer = as_nobody("GET", "/v1/openapi.json")
    assert json.loads(FILE.read_text(encoding="utf-8")) == answer.json()


@pytest.mark.usefixtures("quiet")
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("tenant", "machine", "operations", "phases"),
    [
        ("other", "admin", ALL, "examples,fuzzing"),
        ("other", "admin", ALL if DEEP else SOME, "coverage"),
        (PLATFORM, "default", OF_PLATFORM, "examples,coverage,fuzzing"),
    ],
    ids=["examples", "borders", "platform"],
)
def test_nothing_that_is_sent_is_answered_by_a_5xx_or_an_undocumented_answer(
    cloud: Cloud, tenant: str, machine: str, operations: tuple[str, ...], phases: str
):
    done = subprocess.run(
        [
            f"{BIN}/schemathesis",
            "run",
            str(FILE),
            f"--url={cloud.url}",
            f"--header=Authorization: Bearer {cloud.token(tenant, machine=machine)}",
            *operations,
            f"--phases={phases}",
            f"--max-examples={EXAMPLES}",
            f"--checks={','.join(CHECKS)}",
            "--seed=1",
            "--generation-database=none",
            "--continue-on-failure",
            "--request-timeout=30",
            "--no-color",
        ],
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    print(done.stdout[-2000:])
    assert 0 == done.returncode, done.stdout[-20_000:] + done.stderr[-2000:]
