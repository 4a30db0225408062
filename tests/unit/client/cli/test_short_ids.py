"""Short ids: the end of an id, among the newest jobs."""

import pytest

from joblane.formats.ids import nth_id
from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi, ok

IDS = ["01MCC5RM002VP5C98RFS3H2QM0", "01MCC5RM02X0EEJP5N5QNGWM0A", "01MCC5RM02X0EEJP5N5QNGWM0B"]


@pytest.fixture(autouse=True)
def _jobs(api: FakeApi) -> None:
    for job_id in IDS:
        api.add(job_id).end(reason="exit code 0")


@pytest.mark.parametrize("end", ["NGWM0A", "ngwm0a", "QNGWM0A", IDS[1][1:]])
def test_the_end_of_an_id_is_enough(api: FakeApi, joblane: Joblane, end: str) -> None:
    for command in ("get", "wait", "logs"):
        assert 0 == joblane(command, end).code
    assert IDS[1].encode() in joblane("get", end).stdout
    assert "true" == api.requests[0].query["hidden"]


@pytest.mark.parametrize(
    ("command", "method", "path"),
    [
        ("cancel", "POST", "/cancel"),
        ("retry", "POST", "/retry"),
        ("resubmit", "POST", "/resubmit"),
        ("hide", "POST", "/hide"),
        ("unhide", "POST", "/unhide"),
        ("delete", "DELETE", ""),
        ("why", "GET", "/why"),
        ("audit", "GET", "/audit"),
    ],
)
def test_commands_that_take_an_id_take_its_end(
    api: FakeApi, joblane: Joblane, command: str, method: str, path: str
) -> None:
    answer = {**api.jobs[IDS[1]].data, "entries": [], "summary": "s", "reasons": []}
    api.answers[f"/v1/jobs/{IDS[1]}{path}"] = ok(answer)
    assert 0 == joblane(command, "NGWM0A").code
    assert 1 == api.count(method, f"/v1/jobs/{IDS[1]}{path}")


@pytest.mark.parametrize("verb", ["replay", "dismiss"])
def test_a_dead_job_is_looked_for_among_the_dead(api: FakeApi, joblane: Joblane, verb: str) -> None:
    api.answers[f"/v1/dlq/{IDS[1]}/{verb}"] = ok(api.jobs[IDS[1]].data)
    assert 0 == joblane("dlq", verb, "NGWM0A").code
    assert "dead" == api.requests[0].query["state"]


def test_a_whole_id_is_not_looked_for(api: FakeApi, joblane: Joblane) -> None:
    joblane("get", IDS[0])
    joblane("get", "01K")
    joblane("get", "no-id")
    assert 0 == api.count("GET", "/v1/jobs")


def test_an_end_that_several_ids_have_is_refused_with_the_jobs(api: FakeApi, joblane: Joblane):
    other = nth_id(IDS[1], 1 << 40)
    api.add(other)
    ran = joblane("delete", "NGWM0A")
    assert (64, b"") == (ran.code, ran.stdout)
    said = f"{other} (pending), {IDS[1]} (completed); give more of the id"
    assert f"joblane: 2 jobs have ids that end with NGWM0A: {said}\n" == ran.said
    assert {"GET"} == {request.method for request in api.requests}


def test_an_end_that_none_has_is_not_found(api: FakeApi, joblane: Joblane) -> None:
    for number in range(700):
        api.add(f"01J{number}")
    ran = joblane("get", "NGWM0A")
    assert (66, b"") == (ran.code, ran.stdout)
    said = "none of the newest 500 jobs has an id that ends with NGWM0A; give the whole id"
    assert f"joblane: {said}\n" == ran.said
    assert 5 == len(api.requests)
