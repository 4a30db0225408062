"""Groups of a type that are retried: the group takes the present version, its members that."""

from typing import Any

import pytest

from joblane.contract.problems import LimitReached
from joblane.job.head import Head
from joblane.service.group import restart
from joblane.service.job.present_code import PresentCode
from joblane.service.key.admission import Renewed
from joblane.state.lifecycle import State
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.broadcast import Broadcast
from tests.support.types import store_type

LOOSE: dict[str, Any] = {"type": "object"}
SIZES = [10, 10_000, 200_000]


def broadcast(size: int = 10, **fields: Any) -> Broadcast:
    """A group of three of which the second and the third have failed by version 1."""

    def prepare(aws: Cloud) -> None:
        defaults = {"env": {"MODE": "1"}}
        store_type(aws, params_schema=LOOSE, items=None, defaults=defaults)

    params = {"a": "x" * size}
    env = {"OWN": "y" * (100_000 if size > 100_000 else 1)}
    at = Broadcast(3, prepare, type="sync-tickets", params=params, env=env, **fields)
    at.end(0)
    at.end(1, State.FAILED)
    at.end(2, State.FAILED)
    at.deliver()
    return at


def push(at: Broadcast, mode: str, **members: Any) -> None:
    """Push another version, before the next request."""
    at.now += 1
    store_type(
        at.aws,
        **{"params_schema": LOOSE, "items": None, "defaults": {"env": {"MODE": mode}}, **members},
    )


def whole(at: Broadcast, index: int) -> tuple[int | None, str]:
    """The version of a member, and the variable that its type sets."""
    _, job = at.api("GET", f"/v1/jobs/{at.member(index).job_id}")
    return job["type_version"], job["env"]["MODE"]


@pytest.mark.parametrize("size", SIZES)
def test_a_retried_group_takes_the_present_version(size: int):
    """Inline, in its DATA item, and in S3. What has completed keeps what it ran by."""
    at = broadcast(size)
    push(at, "2", bundle_mb=70)
    assert [2] == [answer["retried"] for answer in at.sweep("retry")]
    assert (70, 70) == (at.head.bundle_mb, at.member(1).bundle_mb)
    assert [(1, "1"), (2, "2"), (2, "2")] == [whole(at, index) for index in range(3)]
    assert (2, 1) == (at.head.type_version, at.head.edit)
    at.end(1)
    at.end(2, State.DEAD)
    at.deliver()
    push(at, "3")
    at.sweep("retry")
    assert [(1, "1"), (2, "2"), (3, "3")] == [whole(at, index) for index in range(3)]
    at.end(2)
    at.deliver()
    assert State.COMPLETED is at.head.state
    answer = at.api.raw("DELETE", f"/v1/jobs/{at.id}")
    assert 204 == answer["statusCode"], answer
    rows = at.aws.clients.make("dynamodb").scan(TableName=DESCRIPTOR.jobs_table)["Items"]
    assert [] == [row["sk"] for row in rows if row["job_id"]["S"] == at.id]


@pytest.mark.parametrize("size", SIZES[:2])
def test_a_member_alone_takes_the_version_of_its_group(size: int):
    at = broadcast(size)
    push(at, "2")
    path = f"/v1/jobs/{at.member(1).job_id}/retry"
    status, job = at.api("POST", path)
    assert (202, 1) == (status, job["type_version"])
    at.end(1, State.FAILED)
    at.deliver()
    push(at, "3")
    _, answer = at.api("POST", f"{at.path}/retry")
    assert 2 == answer["retried"]
    at.end(1, State.FAILED)
    push(at, "4")
    status, job = at.api("POST", path)
    assert (202, 3) == (status, job["type_version"])
    assert (3, "3") == whole(at, 1)


def test_same_version_leaves_a_group_as_it_is():
    at = broadcast()
    push(at, "2", params_schema={**LOOSE, "required": ["b"]})
    status, problem = at.api("POST", f"{at.path}/retry")
    assert (409, "params.b") == (status, problem["errors"][0]["field"])
    assert [State.FAILED] * 2 == [at.member(1).state, at.member(2).state]
    _, answer = at.api("POST", f"{at.path}/retry", {"same_version": True})
    assert 2 == answer["retried"]
    assert [(1, "1")] * 3 == [whole(at, index) for index in range(3)]


@pytest.mark.parametrize("size", SIZES[:2])
def test_in_a_group_with_a_limit_all_that_begins_takes_the_new_version(size: int):
    def prepare(aws: Cloud) -> None:
        store_type(aws, params_schema=LOOSE, items=None, defaults={"env": {"MODE": "1"}})

    params = {"a": "x" * size}
    at = Broadcast(
        3, prepare, type="sync-tickets", params=params, max_concurrency=1, max_failures=0
    )
    at.end(0, State.FAILED)
    at.deliver()
    assert State.FAILED is at.head.state
    push(at, "2")
    at.sweep("retry")
    assert (2, "2") == whole(at, 0)
    at.end(0)
    at.deliver()
    assert (2, "2") == whole(at, 1)


def test_a_group_whose_params_take_too_long_to_validate_is_listed(
    monkeypatch: pytest.MonkeyPatch,
):
    """As a job is: the other jobs of the page go on, and the answer tells of them."""
    at = broadcast()

    def slow(*_: object) -> None:
        raise LimitReached("validating takes too long", retry_after_s=60)

    monkeypatch.setattr(PresentCode, "of", slow)
    query = {"type": "sync-tickets", "groups": "true", "state": "partial_failure"}
    status, answer = at.api("POST", "/v1/jobs/retry", query=query)
    assert 200 == status, answer
    refused = [{"id": at.head.job_id, "index": None, "detail": "validating takes too long"}]
    assert (0, refused) == (answer["retried"], answer["refused"])


def test_a_retried_array_keeps_its_values_with_the_present_version():
    def prepare(aws: Cloud) -> None:
        store_type(aws, params_schema=LOOSE, items=None, defaults={"env": {"MODE": "1"}})

    values = [{"n": n} for n in range(3)]
    at = Broadcast(1, prepare, type="sync-tickets", array={"values": values})
    for index in range(3):
        at.end(index, State.COMPLETED if index == 0 else State.FAILED)
    at.deliver()
    push(at, "2")
    assert [2] == [answer["retried"] for answer in at.sweep("retry")]
    assert [(1, "1"), (2, "2"), (2, "2")] == [whole(at, index) for index in range(3)]
    _, job = at.api("GET", f"/v1/jobs/{at.member(2).job_id}")
    assert ({"n": 2}, 2) == (job["params"], job["index"])
    _, group = at.api("GET", f"/v1/jobs/{at.id}")
    assert values == group["array"]["values"]
    wrong = {"type": "object", "properties": {"n": {"maximum": 1}}}
    at.end(1)
    at.end(2, State.FAILED)
    at.deliver()
    push(at, "3", params_schema=wrong)
    status, answer = at.api("POST", f"{at.path}/retry")
    assert 409 == status
    assert "array.values.2.n" in answer["detail"]


def test_the_values_of_an_array_are_checked_once_and_not_for_each_page(
    monkeypatch: pytest.MonkeyPatch,
):
    """They are up to 10,000: a check for each page would use up the time that a tenant has."""

    def prepare(aws: Cloud) -> None:
        store_type(aws, params_schema=LOOSE, items=None)

    at = Broadcast(1, prepare, type="sync-tickets", array={"values": [{}] * 230})
    for index in (0, 30, 60, 120, 210, 220):
        at.end(index, State.FAILED)
    monkeypatch.setattr(restart, "MOST_RESTARTS", 1)
    asked, of = list[str](), PresentCode.of

    def counted(code: PresentCode, head: Head, now_ms: int) -> Renewed:
        asked.append(head.job_id)
        return of(code, head, now_ms)

    monkeypatch.setattr(PresentCode, "of", counted)
    assert [3, 1, 2] == [answer["retried"] for answer in at.sweep("retry")]
    assert [at.id] == asked


def test_the_page_after_a_push_takes_the_new_version():
    def prepare(aws: Cloud) -> None:
        store_type(aws, params_schema=LOOSE, items=None, defaults={"env": {"MODE": "1"}})

    at = Broadcast(1, prepare, type="sync-tickets", array={"values": [{}] * 120})
    at.end(0, State.FAILED)
    at.end(110, State.FAILED)
    _, first = at.api("POST", f"{at.path}/retry")
    push(at, "2")
    at.api("POST", f"{at.path}/retry", query={"next": first["next"]})
    assert [(1, "1"), (2, "2")] == [whole(at, index) for index in (0, 110)]


def test_a_type_that_has_got_a_key_takes_no_array_and_one_that_was_there_keeps_its_version():
    def prepare(aws: Cloud) -> None:
        store_type(aws, params_schema=LOOSE, items=None, defaults={"env": {"MODE": "1"}})

    at = Broadcast(1, prepare, type="sync-tickets", array={"values": [{"n": 1}, {"n": 2}]})
    for index in range(2):
        at.end(index, State.FAILED)
    at.deliver()
    push(at, "2", key={"segments": ["zendesk"]})
    body = {"type": "sync-tickets", "array": {"values": [{"n": 1}]}}
    status, answer = at.api("POST", "/v1/jobs", body)
    assert (400, "array") == (status, answer["errors"][0]["field"])
    instead = "the type sync-tickets has a key; submit its jobs one by one"
    assert instead in answer["errors"][0]["problem"]
    status, answer = at.api("POST", f"{at.path}/retry")
    assert (409, True) == (status, instead in answer["detail"])
    assert 200 == at.api("POST", f"{at.path}/retry", {"same_version": True})[0]
    assert [(1, "1")] * 2 == [whole(at, index) for index in range(2)]
