"""Handlers through the clients: what is sent, how a key answers, and typed results."""

from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from joblane import (
    InputError,
    Job,
    JobFailedError,
    KeyFullError,
    ResultError,
    WaitTimeoutError,
    job_type,
)
from joblane.client.calls import Call, Sleep
from joblane.client.clients import Client
from joblane.client.follow import Runtime
from tests.support.client.fake_api import FakeApi, FakeJob, ok, problem


class Sync(BaseModel):
    """Params."""

    origin: str
    tickets: list[int] = []


class Done(BaseModel):
    """A result."""

    model_config = ConfigDict(strict=True)

    synced: tuple[int, ...]


@job_type("sync")
def sync(params: Sync, _job: Job) -> Done:
    """Synchronize."""
    return Done(synced=tuple(params.tickets))


@job_type("quiet")
def quiet(_params: Sync, _job: Job) -> None:
    """Give no result."""


FULL = problem(
    409,
    "Conflict",
    detail='key ["acme"] is full',
    reason="active-limit",
    active=1,
    queued=2,
    limit=3,
)


def ends_with(result: object, state: str = "completed") -> Any:
    """What becomes of a submitted job."""
    return lambda job: job.end(state, result=result, reason="as it is")


def test_submit_and_wait(api: FakeApi, client: Any):
    api.on_submit = ends_with({"synced": [1, 2]})
    ref = client.submit(sync, Sync(origin="acme", tickets=[1, 2]), queue="slow")
    assert ref.wait(timeout_s=5) == Done(synced=(1, 2))
    assert client.get(ref.id).of(sync).wait() == Done(synced=(1, 2))
    assert client.get(ref.id).wait().state == "completed"
    assert api.requests[0].body == {
        "type": "sync",
        "params": {"origin": "acme", "tickets": [1, 2]},
        "queue": "slow",
    }


def test_a_handler_without_a_result(api: FakeApi, client: Any):
    api.on_submit = ends_with(None)
    assert client.submit(quiet, Sync(origin="acme")).wait() is None


def test_a_job_that_failed_has_no_result(api: FakeApi, client: Any):
    api.on_submit = ends_with(None, "failed")
    ref = client.submit(quiet, Sync(origin="acme"))
    with pytest.raises(JobFailedError, match=rf"job {ref.id} is failed: as it is") as caught:
        ref.wait()
    assert caught.value.job.state == "failed"


@pytest.mark.parametrize("result", [None, {"synced": "confidential"}, 3])
def test_a_result_that_is_not_the_declared_model(api: FakeApi, client: Any, result: object):
    api.on_submit = ends_with(result)
    ref = client.submit(sync, Sync(origin="acme"))
    with pytest.raises(ResultError, match=r"is not what sync declares here: result") as caught:
        ref.wait()
    assert "confidential" not in str(caught.value)


def test_a_full_key(api: FakeApi, client: Any):
    api.faults += [FULL, FULL]
    with pytest.raises(KeyFullError) as caught:
        client.submit(sync, Sync(origin="acme"))
    error = caught.value
    assert ("active-limit", 1, 2, 3) == (
        error.reason,
        error.active,
        error.queued,
        error.limit,
    )
    with pytest.raises(KeyFullError):
        client.submit(["a", "command"])


def test_a_type_by_its_name_needs_no_handler_here(api: FakeApi, client: Any):
    api.on_submit = ends_with({"synced": [1]})
    job = client.submit("sync", {"origin": "acme"}, priority="high")
    assert {"synced": [1]} == job.wait().data.result
    with pytest.raises(InputError, match="must be a mapping"):
        client.submit("sync", [1])
    with pytest.raises(InputError, match="a type needs params"):
        client.submit("sync")
    assert api.requests[0].body == {
        "type": "sync",
        "params": {"origin": "acme"},
        "priority": "high",
    }


@pytest.mark.parametrize("status", ["accepted", "coalesced", "replaced"])
def test_what_became_of_a_submission(api: FakeApi, client: Any, status: str):
    job = FakeJob({"id": "01J", "state": "pending", "admission": status, "replaced": "01H"})
    job.data["warning"] = "no agent is alive"
    api.faults.append(ok(job.data))
    submitted = client.submit(sync, Sync(origin="acme"))
    assert ("01J", status, "01H") == (submitted.id, submitted.admission, submitted.replaced)
    assert "no agent is alive" == submitted.warning


def test_what_cannot_be_sent_is_refused_here(api: FakeApi, client: Any):
    with pytest.raises(InputError, match="sync takes Sync, not Done"):
        client.submit(sync, Done(synced=()))
    with pytest.raises(InputError, match="sync takes Sync, not NoneType"):
        client.submit(sync)
    with pytest.raises(InputError, match="a command has its arguments"):
        client.submit(["echo"], Sync(origin="acme"))
    assert api.requests == []


def test_waiting_asks_in_doubling_intervals_and_no_longer_than_its_limit():
    """The steps of the call itself, with a clock that only its pauses move."""
    now = 0.0
    pauses: list[float] = []

    def run(call: Call[Any]) -> None:
        nonlocal now
        step = next(call)
        while True:
            if isinstance(step, Sleep):
                pauses.append(round(step.seconds, 3))
                now += step.seconds
                step = call.send(None)
            else:
                step = call.send({"id": "01J", "state": "active"})

    with Client("http://127.0.0.1:9") as client, pytest.raises(WaitTimeoutError):
        run(Client.wait(client, "01J", 20, runtime=Runtime(clock=lambda: now)))
    assert [0.2, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 3.6] == pauses
