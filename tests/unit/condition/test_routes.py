"""Conditions as an operator sees and declares them."""

import json
from typing import Any

import pytest

from functions.admin.handler import Settings, build
from joblane.aws.condition.directory import COUNTED
from joblane.condition.names import MOST_S, scope_name
from joblane.formats.times import rfc3339
from joblane.job.blocked import waiting_job
from joblane.job.head import Head, make_head
from tests.support.aws import Cloud, configure
from tests.support.jobs import JOB, submission
from tests.support.recovery import World
from tests.support.requests import Api

URL = "http:https://api.example.com/health"


@pytest.fixture(name="world")
def _world(aws: Cloud) -> World:
    return World(aws, aws.clients)


def api(world: World, client: str = "client-acme") -> Api:
    return Api(build(configure(Settings), world.aws.clients, world.clock), client)


def entries(world: World, client: str = "client-acme") -> list[dict[str, Any]]:
    status, page = api(world, client)("GET", "/v1/conditions")
    assert 200 == status
    return list(page["entries"])


def join(world: World, condition: str, number: int, tenant: str) -> Head:
    """Put a job into a condition's list, as an agent does once it is blocked."""
    head = make_head(f"{JOB[:22]}{number:04d}", tenant, submission(), world.now_ms)
    world.supervisor.join(condition, head, world.now_ms)
    return head


def test_what_blocks_jobs_is_listed_with_why_and_when_it_is_tested_next(world: World):
    world.submit_and_block(URL, 3)
    blocked_ms = world.now_ms
    world.machine.run(15)
    (entry,) = entries(world)
    assert {
        "name": URL,
        "kind": "http",
        "since_at": rfc3339(blocked_ms),
        "waiting": 3,
        "more": False,
        "reason": "https://api.example.com/health allows 0",
        "tests": 1,
        "next_test_at": rfc3339(blocked_ms + 20_000),
        "policy": "stepwise",
        "gives_up_at": rfc3339(blocked_ms + MOST_S * 1000),
    } == entry


def test_the_policy_is_that_of_the_kind(world: World):
    blocked_ms = world.now_ms
    world.submit_and_block("tcp:db.example.com:5432")
    (entry,) = entries(world)
    assert ("constant", rfc3339(blocked_ms + 3_600_000)) == (entry["policy"], entry["gives_up_at"])


def test_a_condition_that_let_its_jobs_go_is_listed_no_more(world: World):
    world.submit_and_block(URL, 3)
    world.recover()
    assert [] == entries(world)


def test_a_tenant_sees_its_own_jobs_and_no_trace_of_others(world: World):
    join(world, URL, 1, "other")
    join(world, "tcp:db.example.com:5432", 2, "other")
    world.clock.now += 60
    mine_ms = world.now_ms
    join(world, URL, 3, "acme")
    (entry,) = entries(world)
    assert (URL, 1, False) == (entry["name"], entry["waiting"], entry["more"])
    assert rfc3339(mine_ms) == entry["since_at"]
    assert 2 == len(entries(world, "client-other"))


def test_a_condition_of_which_only_others_are_left_is_not_listed(world: World):
    join(world, URL, 1, "other")
    mine = join(world, URL, 2, "acme")
    world.conditions.drop(URL, waiting_job(mine))
    assert [] == entries(world)
    assert 1 == len(entries(world, "client-other"))


def test_an_opening_is_not_listed_to_those_of_an_earlier_one(world: World):
    join(world, URL, 1, "acme")
    row = world.conditions.get(URL)
    assert row is not None
    world.clock.now += 1
    opened = row.__class__(
        condition=URL,
        generation=world.now_ms,
        phase=row.phase,
        since_ms=world.now_ms,
        tests=0,
        allow=0,
        why="opened by others, while nobody could take the first out of its directory",
    )
    assert world.conditions.write(row, opened)
    assert [] == entries(world)


def test_many_that_wait_are_counted_up_to_a_hundred(world: World):
    for number in range(COUNTED + 5):
        join(world, URL, number, "acme")
    (entry,) = entries(world)
    assert (COUNTED, True) == (entry["waiting"], entry["more"])


def test_pages_hold_every_condition_once(world: World):
    names = [f"tcp:host-{number}.example.com:80" for number in range(7)]
    for number, name in enumerate(names):
        join(world, name, number, "acme")
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = api(world)("GET", "/v1/conditions", query={"limit": "3", **cursor})[1]
        seen += [entry["name"] for entry in page["entries"]]
        if page["next"] is None:
            break
        cursor = {"next": page["next"]}
    assert sorted(names) == seen


def test_an_application_is_declared_down_until_it_is_declared_up(world: World):
    declare = api(world)
    status, view = declare(
        "PUT", "/v1/conditions/app:billing", {"state": "down", "reason": "migration"}
    )
    until = rfc3339(world.now_ms // 1000 * 1000 + MOST_S * 1000)
    assert (200, "down", until) == (status, view["state"], view["until_at"])
    assert view["reason"].startswith("migration (declared down by machine ci at ")
    jobs = world.submit_and_block(scope_name("app:billing", "acme"))
    world.machine.run(600)
    (entry,) = entries(world)
    assert ("app:billing", 1) == (entry["name"], entry["waiting"])
    assert entry["reason"].startswith("declared down: migration (declared down by ")
    assert 200 == declare("PUT", "/v1/conditions/app%3Abilling", {"state": "up"})[0]
    world.machine.run()
    assert ["pending"] == world.states(jobs)


def test_an_application_of_one_tenant_is_not_that_of_another(world: World):
    api(world, "client-other")("PUT", "/v1/conditions/app:billing", {"state": "down"})
    jobs = world.submit_and_block(scope_name("app:billing", "acme"))
    world.machine.run()
    assert ["pending"] == world.states(jobs)


def test_an_application_of_no_tenant_is_declared_by_the_role_platform_for_all(world: World):
    """A tenant's operator cannot, whatever the name looks like."""
    platform, reason = api(world, "client-platform"), {"state": "down", "reason": "migration"}
    assert 200 == platform("PUT", "/v1/conditions/app:billing", reason)[0]
    jobs = world.submit_and_block(scope_name("app:billing", "acme"))
    world.machine.run(600)
    (entry,) = entries(world)
    assert entry["reason"].startswith("declared down: migration (declared down by machine ops (pl")
    for client in ("client-acme", "client-other"):  # their own application is up
        assert 200 == api(world, client)("PUT", "/v1/conditions/app:billing", {"state": "up"})[0]
    world.machine.run(600)
    assert ["blocked"] == world.states(jobs)
    assert 200 == platform("PUT", "/v1/conditions/app:billing", {"state": "up"})[0]
    world.machine.run()
    assert ["pending"] == world.states(jobs)


@pytest.mark.parametrize(
    ("name", "body", "field"),
    [
        ("app:billing", {"state": "sideways"}, "state"),
        ("app:billing", {}, "state"),
        ("app:billing", {"state": "down", "until": "tomorrow"}, "until"),
        ("app:billing", {"state": "down", "reason": "x" * 201}, "reason"),
        ("app:billing", {"state": "down", "reason": "two\nlines"}, "reason"),
        ("app:billing", "nothing", "body"),
        ("app:other%2Fbilling", {"state": "down"}, "condition"),
        ("tcp:db.example.com:5432", {"state": "up"}, "condition"),
        ("billing", {"state": "up"}, "condition"),
    ],
)
def test_what_cannot_be_declared_is_refused_by_the_name_of_the_field(
    world: World, name: str, body: object, field: str
):
    answer = api(world).raw("PUT", f"/v1/conditions/{name}", body)
    assert 400 == answer["statusCode"]
    assert field in [error["field"] for error in json.loads(answer["body"])["errors"]]
