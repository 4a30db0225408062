"""Keys of job types on the deployed stacks: what a full key answers, and changed segments."""

import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from joblane import Client, JobRef, KeyFullError
from tests.e2e.conftest import Http, Run
from tests.support.deployed import wait_for

KEYED = """
import time

from pydantic import BaseModel

from joblane import Job, Key, job_type


class Params(BaseModel):
    origin: str


def held(params: Params, job: Job) -> str | None:
    while params.origin != "brief" and not job.cancelled:
        time.sleep(0.05)
    return f"{job.slot} {job.context.key}"


alone = job_type("alone", key=Key("/origin"))(held)
merged = job_type("merged", key=Key("/origin", max_queued=1, when_full="coalesce"))(held)
"""

PYPROJECT = """
[project]
name = "keyedjobs"
version = "1"
"""


pytestmark = pytest.mark.usefixtures("agent")


@pytest.fixture(name="project", scope="module")
def _project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project that this process can import as well."""
    folder = tmp_path_factory.mktemp("keyedjobs", numbered=False)
    (folder / "keyedjobs.py").write_text(KEYED)
    (folder / "pyproject.toml").write_text(PYPROJECT)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture(name="keyed", scope="module")
def _keyed(push: Run) -> Any:
    """The module with the handlers, whose types have been pushed."""
    pushed = push()
    assert 0 == pushed.returncode, pushed.stderr.decode()
    return import_module("keyedjobs")


def test_a_full_key_refuses(client: Client, http: Http, keyed: Any):
    first = client.submit(keyed.alone, keyed.Params(origin="acme"))
    slot = wait_for(http, first.id, "active")["slot"]
    with pytest.raises(KeyFullError) as caught:
        client.submit(keyed.alone, keyed.Params(origin="acme"))
    (holder,) = client.key("alone", "acme").holders
    assert first.id == holder.id
    assert (holder.heartbeat_at or "~") < (holder.lease_ends_at or "")
    error = caught.value
    assert ("active-limit", 1, 0, 1) == (error.reason, error.active, error.queued, error.limit)
    other = client.submit(keyed.alone, keyed.Params(origin="other"))
    assert other.admission == "accepted"
    assert 202 == http("POST", f"/v1/jobs/{first.id}/cancel").status_code
    wait_for(http, first.id, "cancelled")
    ends = time.monotonic() + 30
    # The slot is free once `sequel` has seen the job's end.
    while (later := _submitted(client, keyed)) is None:
        assert time.monotonic() < ends
        time.sleep(0.1)
    assert slot < wait_for(http, later.id, "active")["slot"]


def _submitted(client: Client, keyed: Any) -> JobRef[Any] | None:
    """A job of the type with one slot; None if its key is full."""
    with suppress(KeyFullError):
        return client.submit(keyed.alone, keyed.Params(origin="acme"))
    return None


def test_a_handler_knows_its_slot_and_its_key(client: Client, http: Http, keyed: Any):
    ref = client.submit(keyed.alone, keyed.Params(origin="brief"))
    token = ref.wait(timeout_s=60)
    slot = http("GET", f"/v1/jobs/{ref.id}").json()["slot"]
    assert f"{slot}.1 ('brief',)" == token


def test_a_full_key_coalesces(client: Client, keyed: Any):
    running, waiting, same = (
        client.submit(keyed.merged, keyed.Params(origin="acme")) for _ in range(3)
    )
    assert ["accepted", "accepted", "coalesced"] == [
        each.admission for each in (running, waiting, same)
    ]
    assert (waiting.id, "waiting") == (same.id, same.state)


def test_segments_of_a_key_in_use_change_with_migrate_only(
    client: Client, http: Http, keyed: Any, push: Run, project: Path
):
    """The package is pushed whole or not at all."""
    holder = client.submit(keyed.alone, keyed.Params(origin="migrated"))
    wait_for(http, holder.id, "active")
    changed = KEYED.replace('key=Key("/origin"))', 'key=Key("v2", "/origin"))')
    (project / "keyedjobs.py").write_text(changed)
    refused = push()
    assert 64 == refused.returncode
    assert b"--migrate" in refused.stderr
    assert b"alone" not in refused.stdout
    assert b"merged would be updated, version 2" in refused.stdout
    assert 1 == client.type("merged").version
    pushed = push("--migrate")
    assert b"alone migrated, version 2" in pushed.stdout, pushed.stderr.decode()
    assert b"merged updated, version 2" in pushed.stdout
    second = client.submit(keyed.alone, keyed.Params(origin="migrated"))
    wait_for(http, second.id, "active")
    assert "active" == client.get(holder.id).state
