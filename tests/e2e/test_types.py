"""Job types on the deployed stacks: a real bundle, pushed by the command line, run by an agent."""

import json
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import import_module, reload
from pathlib import Path
from typing import Any

import pytest

from joblane import Client, JobFailedError, JobType, RequestError
from joblane.aws.clients import Clients
from joblane.deployment.names import RESULTS, bucket_name
from scripts.local.cloud import DEPLOYMENT, TENANT, Cloud
from scripts.local.emulator import ACCOUNT, REGION
from tests.e2e.conftest import Http, Run
from tests.support.deployed import output, wait_for

HERE = {"x86_64": "x86_64", "aarch64": "arm64"}[platform.machine()]
ELSEWHERE = {"x86_64": "arm64", "arm64": "x86_64"}[HERE]

JOBS = """
import time

import pydantic_core
from pydantic import BaseModel

from joblane import Job, PermanentError, job_type

VERSION = 1


class Params(BaseModel):
    do: str = "add"
    numbers: list[int] = []


class Result(BaseModel):
    total: int
    version: int
    attempt: int
    compiled: str
    text: str = ""


@job_type(
    "work", items="/numbers", timeout_s=60, retry={"max_attempts": 2, "backoff_s": [0]}
)
def work(params: Params, job: Job) -> Result:
    print("doing", params.do)
    text = ""
    match params.do:
        case "never":
            raise PermanentError("the account is closed")
        case "raise":
            raise ValueError("not today")
        case "wrong":
            return {"total": "many"}
        case "block":
            job.block("app:typed")
        case "progress":
            job.progress(message="page 2 of 5", step="copy", current=2, total=5)
            while not job.cancelled:
                time.sleep(0.05)
            job.log.warning("stopped by %s", job.stopping)
        case "large":
            text = "x" * 200_000
    return Result(
        total=sum(params.numbers),
        version=VERSION,
        attempt=job.attempt,
        compiled=pydantic_core.__file__.partition("/pydantic_core")[0],
        text=text,
    )
"""

FRAGILE = """
import os

from pydantic import BaseModel

from joblane import Job, job_type

if "JOBLANE_JOB_ID" in os.environ:
    raise ImportError("not in a sandbox")


class Params(BaseModel):
    pass


@job_type("fragile")
def fragile(params: Params, job: Job) -> None: ...
"""

PYPROJECT = """
[project]
name = "typedjobs"
version = "1"
dependencies = ["joblane"]
"""


@pytest.fixture(name="project", scope="module")
def _project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project that this process can import as well."""
    folder = tmp_path_factory.mktemp("typedjobs", numbered=False)
    (folder / "typedjobs").mkdir()
    (folder / "typedjobs/__init__.py").touch()
    (folder / "typedjobs/jobs.py").write_text(JOBS)
    (folder / "typedjobs/fragile.py").write_text(FRAGILE)
    (folder / "pyproject.toml").write_text(PYPROJECT)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture(name="work", scope="module")
def _work(push: Run) -> JobType[Any, Any]:
    """The handler, whose type has been pushed."""
    pushed = push()
    assert 0 == pushed.returncode, pushed.stderr.decode()
    names = ("fragile", "work")
    assert [f"{name} created, version 1".encode() for name in names] == [
        line.partition(b":")[0] for line in pushed.stdout.splitlines()
    ]
    handler: JobType[Any, Any] = import_module("typedjobs.jobs").work
    return handler


def params(work: JobType[Any, Any], **fields: object) -> Any:
    """Params of the handler."""
    return work.params_model(**fields)


@pytest.mark.usefixtures("agent")
def test_a_handler_runs_and_its_result_is_what_it_declares(
    client: Client, work: JobType[Any, Any], http: Http
):
    ref = client.submit(work, params(work, numbers=[1, 2, 3]), name="typed")
    result = ref.wait(timeout_s=60)
    assert (6, 1, 1) == (result.total, result.version, result.attempt)
    assert result.compiled == "/opt/joblane/type"  # native code of the bundle, not of the host
    job = http("GET", f"/v1/jobs/{ref.id}").json()
    assert ("work", 3, 60) == (job["type"], job["items"], job["timeout_s"])
    assert ["doing add"] == output(http, ref.id)["stdout"]


@pytest.mark.usefixtures("agent")
def test_a_large_result_comes_back_whole_and_goes_with_its_job(
    client: Client, work: JobType[Any, Any], clients: Clients
):
    ref = client.submit(work, params(work, do="large"))
    assert "x" * 200_000 == ref.wait(timeout_s=60).text

    def stored() -> int:
        bucket = bucket_name(DEPLOYMENT, ACCOUNT, REGION)
        prefix = f"{RESULTS}{TENANT}/{ref.id}/"
        return clients.make("s3").list_objects_v2(Bucket=bucket, Prefix=prefix)["KeyCount"]

    assert 1 == stored()
    client.delete(ref.id)
    assert 0 == stored()


@pytest.mark.usefixtures("agent")
@pytest.mark.parametrize(
    ("do", "end", "reason"),
    [
        ("never", ("failed", 1), "the account is closed"),
        ("wrong", ("failed", 1), "invalid result.total"),
        ("raise", ("dead", 2), "ValueError: not today"),
    ],
)
def test_a_handler_that_fails_says_why(
    client: Client, work: JobType[Any, Any], do: str, end: tuple[str, int], reason: str
):
    with pytest.raises(JobFailedError) as caught:
        client.submit(work, params(work, do=do)).wait(timeout_s=60)
    job = caught.value.job
    assert end == (job.state, job.attempt)
    assert reason in job.reason


@pytest.mark.usefixtures("agent", "work")
def test_a_handler_that_cannot_be_imported_fails_for_good(client: Client):
    fragile = import_module("typedjobs.fragile").fragile
    with pytest.raises(JobFailedError, match="ImportError: not in a sandbox") as caught:
        client.submit(fragile, fragile.params_model()).wait(timeout_s=60)
    assert ("failed", 1) == (caught.value.job.state, caught.value.job.attempt)


@pytest.mark.usefixtures("agent")
def test_a_handler_can_wait_for_a_condition(client: Client, work: JobType[Any, Any], http: Http):
    ref = client.submit(work, params(work, do="block"))
    job = wait_for(http, ref.id, "blocked", "failed", "dead", "completed")
    assert ("blocked", "app:typed") == (job["state"], job["condition"])


@pytest.mark.usefixtures("agent")
def test_progress_is_shown_and_a_cancelled_handler_stops_by_itself(
    client: Client, work: JobType[Any, Any], http: Http
):
    ref = client.submit(work, params(work, do="progress"))
    ends = time.monotonic() + 30
    while not (shown := http("GET", f"/v1/jobs/{ref.id}").json()["progress"]):
        assert time.monotonic() < ends
        time.sleep(0.2)
    assert (40, "page 2 of 5") == (shown["percent"], shown["message"])
    assert ("copy", 2, 5) == (shown["step"], shown["current"], shown["total"])
    assert 202 == http("POST", f"/v1/jobs/{ref.id}/cancel").status_code
    job = wait_for(http, ref.id, "cancelled")
    assert job["progress"] is None
    assert ["WARNING stopped by cancel"] == output(http, ref.id)["stderr"]
    (found,) = client.logs(ref.id, level="warning")
    assert ("warning", "stderr", "WARNING stopped by cancel\n") == (
        found.level,
        found.stream,
        found.text,
    )
    assert [] == list(client.logs(ref.id, level="error", follow=True))
    assert 2 == len(list(client.logs(ref.id)))


def test_params_that_do_not_fit_are_named_by_field(client: Client, work: JobType[Any, Any]):
    """A newer program than the type: its model lets pass what the deployed one does not."""
    wrong = params(work).model_construct(do=3, numbers=[1, "confidential"])
    with pytest.raises(RequestError) as caught:
        client.submit(work, wrong)
    assert {"params.do", "params.numbers.1"} == {field.field for field in caught.value.fields}
    assert "confidential" not in str(caught.value)


def test_a_job_runs_with_the_version_that_it_was_accepted_with(
    quiet: Cloud, client: Client, work: JobType[Any, Any], push: Run, project: Path
):
    """A job waits while a new version is pushed; pushed again, nothing changes."""
    earlier = client.submit(work, params(work))
    (project / "typedjobs/jobs.py").write_text(JOBS.replace("VERSION = 1", "VERSION = 2"))
    checked = push("--check")
    assert b"work would be updated, version 2\n  bundles: update\n" in checked.stdout
    assert b"not uploaded" in checked.stderr
    pushed = push()
    assert b"fragile updated, version 2" in pushed.stdout, pushed.stderr.decode()
    assert b"work updated, version 2" in pushed.stdout
    assert b"work unchanged, version 2" in push().stdout
    later = client.submit(work, params(work))
    quiet.start_agent("local", threads=4)
    assert (1, 2) == (earlier.wait(timeout_s=60).version, later.wait(timeout_s=60).version)


@pytest.mark.usefixtures("agent", "work")
def test_a_bundle_for_another_architecture_only(client: Client, push: Run, project: Path):
    jobs = JOBS.replace('"work"', '"foreign"')
    (project / "typedjobs/jobs.py").write_text(jobs)
    narrower = push("--architecture", ELSEWHERE)
    assert 64 == narrower.returncode
    assert f"bundles: narrows (no bundle for {HERE})".encode() in narrower.stdout
    assert b"no type was written" in narrower.stderr
    pushed = push("--architecture", ELSEWHERE, "--yes")
    assert b"foreign created, version 1" in pushed.stdout, pushed.stderr.decode()
    foreign = reload(import_module("typedjobs.jobs")).work
    with pytest.raises(JobFailedError, match=HERE) as caught:
        client.submit(foreign, params(foreign)).wait(timeout_s=60)
    assert caught.value.job.state == "failed"


@pytest.mark.usefixtures("work")
def test_types_are_listed_shown_and_removed(
    client: Client, environment: dict[str, str], tmp_path: Path
):
    def joblane(*arguments: str) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            ["joblane", *arguments],
            env={**environment, "HOME": str(tmp_path)},
            capture_output=True,
            check=False,
        )

    listed = json.loads(joblane("types", "ls", "--json").stdout)
    assert HERE in listed["architectures"]
    assert b"fragile" in joblane("types", "ls").stdout
    shown = json.loads(joblane("types", "get", "fragile", "--json").stdout)
    assert "typedjobs.fragile:fragile" in json.dumps(shown)
    assert 0 == joblane("types", "rm", "fragile").returncode
    assert 66 == joblane("types", "get", "fragile").returncode
    fragile = import_module("typedjobs.fragile").fragile
    with pytest.raises(RequestError) as caught:
        client.submit(fragile, fragile.params_model())
    assert "type" in {field.field for field in caught.value.fields}
