"""Arrays in the SDK: submissions, and what became of the members."""

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from joblane import (
    Client,
    InputError,
    Job,
    JobFailedError,
    NotFoundError,
    ResultError,
    job_type,
)
from joblane.client.follow import FollowPolicy
from joblane.client.group_follow import group_pace
from tests.support.client.clients import Connect
from tests.support.client.fake_api import FakeApi
from tests.support.client.fake_group import GROUP, FakeGroup

if TYPE_CHECKING:
    from joblane.client import models

QUICK = FollowPolicy(busy_s=0.01, idle_max_s=0.01)

PATH = f"/v1/groups/{GROUP}"


class City(BaseModel):
    """Params."""

    name: str


class Weather(BaseModel):
    """A result."""

    degrees: int


@job_type("weather")
def weather(params: City, _job: Job) -> Weather:
    """Tell the weather."""
    return Weather(degrees=len(params.name))


def ended(api: FakeApi) -> FakeGroup:
    """Five members: a result, one that only the job has, a failure, one that runs, one expired."""
    group = FakeGroup.of_array(api, 5)
    group.take_submissions()
    for index in range(2):
        group.end(index)
    group.members[0]["result"] = {"degrees": 4}
    group.members[1]["result_size"] = 2000
    api.jobs["01JM1"].data["result"] = {"degrees": 5}
    group.end(2, "dead", reason="exit code 1 after 0.1 s", exit_code=1)
    group.members[4] |= {"state": None, "reason": "it has ended, and its row has expired"}
    return group


def test_values_of_a_handler_are_its_params(api: FakeApi, client: Any):
    client.submit(weather, array={"values": [City(name="Oslo"), City(name="Bergen")]})
    body = api.requests[-1].body
    assert {"values": [{"name": "Oslo"}, {"name": "Bergen"}]} == body["array"]
    assert ("weather", False) == (body["type"], "params" in body)
    client.submit("weather", array={"values": [{"name": "Oslo"}]}, tolerate=1)
    body = api.requests[-1].body
    assert ("weather", False, 1) == (body["type"], "params" in body, body["tolerate"])
    client.submit(weather, City(name="Oslo"), array={"size": 3})
    body = api.requests[-1].body
    assert ({"size": 3}, {"name": "Oslo"}) == (body["array"], body["params"])


def test_a_value_that_is_no_params_is_named_by_its_index(api: FakeApi, client: Any):
    with pytest.raises(InputError, match=r"array\.values\.1: "):
        client.submit(weather, array={"values": [City(name="Oslo"), Weather(degrees=1)]})
    with pytest.raises(InputError, match="array must be a mapping"):
        client.submit(["true"], array=100)
    with pytest.raises(InputError, match=r"array\.values must be a list"):
        client.submit(weather, array={"values": 5})
    assert not api.requests


def test_results_come_in_order_and_typed(api: FakeApi, connect: Connect):
    ended(api)
    with connect(api.url) as client:
        job = client.submit(weather, array={"values": [City(name="Oslo")] * 5})
        found = list(job.results())
        assert [0, 1, 2, 3, 4] == [each.index for each in found]
        assert [Weather(degrees=4), Weather(degrees=5)] == [each.result() for each in found[:2]]
        kinds = (JobFailedError, ResultError, NotFoundError)
        for each, kind in zip(found[2:], kinds, strict=True):
            with pytest.raises(kind, match=f"member {each.index} of group {GROUP}"):
                each.result()
        failed = found[2].error
        assert isinstance(failed, JobFailedError)
        assert ("dead", 1, "01JM2") == (failed.job.state, failed.job.exit_code, failed.job.id)
        # A page for all, and the one job whose result is long.
        assert ["/v1/jobs", PATH, "/v1/jobs/01JM1"] == [each.path for each in api.requests]


def test_results_without_a_handler_are_json(api: FakeApi, client: Any):
    ended(api)
    assert {"degrees": 4} == next(iter(client.groups.results(GROUP))).result()
    again = client.get(GROUP).of(weather)
    assert Weather(degrees=4) == next(iter(again.results())).result()


def test_a_result_that_is_not_as_declared_is_an_error(api: FakeApi, client: Any):
    ended(api).members[0]["result"] = {"degrees": "warm"}
    with pytest.raises(ResultError, match="the result of job 01JM0 is not what weather declares"):
        next(iter(client.get(GROUP).of(weather).results())).result()


def test_waiting_for_an_array_returns_it(api: FakeApi, client: Any):
    group = FakeGroup.of_array(api, 2)
    group.take_submissions()
    group.end(0)
    group.end(1, "dead")
    job = client.submit(weather, array={"values": [City(name="Oslo")] * 2})
    assert "partial_failure" == job.wait().state
    with pytest.raises(JobFailedError):
        job.wait(check=True)


def test_members_are_selected_by_state_and_index(api: FakeApi, client: Any):
    ended(api)
    assert [2] == [each.index for each in client.groups.members(GROUP, state=["dead", "failed"])]
    assert [1, 2] == [each.index for each in client.groups.members(GROUP, indices="1-2")]
    assert "dead,failed" == api.requests[0].query["state"]


@pytest.mark.parametrize(
    ("members", "busy_s"), [(None, 0.5), (1, 0.2), (40, 0.2), (100, 0.5), (1000, 5), (10_000, 5)]
)
def test_a_large_group_is_asked_for_seldom(members: int | None, busy_s: float):
    """An answer, or all pages of one pass, read a row of each member that is open."""
    pace = group_pace(members)
    assert (busy_s, 5.0) == (pace.busy_s, pace.idle_max_s)
    assert min(members or 0, 1000) / pace.busy_s <= 200


def test_members_are_followed_and_read_without_counting_all(api: FakeApi):
    group = FakeGroup.of_array(api, 250)
    for index in range(250):
        group.end(index)
    with Client(api.url) as client:
        assert 250 == sum(len(news.ended) for news in client.groups.follow(GROUP))
        assert 250 == len(list(client.groups.members(GROUP)))
        assert [3, 5, 6] == [each.index for each in client.groups.results(GROUP, indices="3,5-6")]
        client.groups.get(GROUP)
    asked = [each.query for each in api.requests if each.path == PATH]
    assert {"false"} == {query.get("counts") for query in asked}


def test_a_watch_has_the_counts_whenever_they_change(api: FakeApi):
    group = FakeGroup.of_array(api, 250)
    asked = 0

    def go_on(request: Any) -> None:
        nonlocal asked
        asked += 1
        if asked % 2:  # each second answer has nothing new
            for index in range(asked // 2 * 125, min(250, (asked // 2 + 1) * 125)):
                group.end(index, "dead" if index == 7 else "completed")

    api.before = go_on
    with Client(api.url) as client:
        seen: list[models.GroupPage] = list(client.groups.watch(GROUP, policy=QUICK))
    assert [{"completed": 124, "dead": 1}, {"completed": 249, "dead": 1}] == [
        {state: n for state, n in (each.counts or {}).items() if state != "pending"}
        for each in seen
    ]
    assert ("partial_failure", "7") == (seen[-1].group.state, seen[-1].failed_indices)
    assert {"1"} == {request.query["limit"] for request in api.requests}
