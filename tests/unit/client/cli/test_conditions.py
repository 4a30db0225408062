"""`joblane conditions`: what is listed, what is declared."""

import json

from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi, ok, problem

ENTRY = {
    "name": "http:https://api.example.com/health",
    "kind": "http",
    "since_at": "2026-11-21T02:00:00.000Z",
    "waiting": 100,
    "more": True,
    "reason": "answers 503",
    "tests": 7,
    "next_test_at": "2999-11-21T02:00:00.000Z",
    "policy": "stepwise",
    "gives_up_at": "2999-11-23T02:00:00.000Z",
}
PAGE = {"entries": [ENTRY], "limit": 20, "next": "b2s"}
DOWN = {"name": "app:billing", "state": "down", "reason": "m", "until_at": "2026-11-23T02:00:00Z"}


def test_conditions_are_listed_with_or_without_the_verb(api: FakeApi, joblane: Joblane) -> None:
    api.answers["/v1/conditions"] = ok(PAGE)
    ran = joblane("conditions")
    heading, row = ran.stdout.decode().splitlines()
    assert ["NAME", "WAITING", "SINCE", "NEXT", "TEST", "TESTS"] == heading.split()[:6]
    assert "100+" in row
    assert "answers 503" in row
    assert " in " in row
    assert "more conditions: --next b2s" in ran.said
    assert ran == joblane("conditions", "ls")
    for verb in ([], ["ls"]):
        assert PAGE == json.loads(joblane("conditions", *verb, "--json").stdout)
        assert 0 == joblane("conditions", *verb, "-n", "5").code
        assert "5" == api.requests[-1].query["limit"]
    unknown = joblane("conditions", "lss")
    assert (2, True) == (unknown.code, "lss" in unknown.said)
    assert b"Usage: joblane conditions [OPTIONS] COMMAND" in joblane("conditions", "-h").stdout


def test_what_is_declared_down_is_listed_also_if_no_job_waits(
    api: FakeApi, joblane: Joblane
) -> None:
    down = {"name": "app:mail", "reason": "moves (ada)", "until_at": "2999-11-23T02:00:00Z"}
    entries = [{**down, "all_tenants": everywhere} for everywhere in (False, True)]
    page = {"entries": [], "down": entries, "limit": 20, "next": None}
    api.answers["/v1/conditions"] = ok(page)
    ran = joblane("conditions")
    nothing, gap, title, heading, *rows = ran.stdout.decode().splitlines()
    assert ("no condition blocks a job", "", "declared down") == (nothing, gap, title)
    assert ["NAME", "FOR", "UNTIL", "REASON"] == heading.split()
    assert ["the tenant", "all tenants"] == [row.split("  ")[1].strip() for row in rows]
    assert all("app:mail" in row and "moves (ada)" in row for row in rows)
    assert page == json.loads(joblane("conditions", "ls", "--json").stdout)


def test_nothing_that_blocks_is_said_so(api: FakeApi, joblane: Joblane) -> None:
    api.answers["/v1/conditions"] = ok({"entries": [], "limit": 20, "next": None})
    assert b"no condition blocks a job\n" == joblane("conditions").stdout


def test_a_declaration_is_sent_once_and_told(api: FakeApi, joblane: Joblane) -> None:
    path = "/v1/conditions/app%3Abilling"
    api.answers[path] = ok(DOWN)
    ran = joblane("conditions", "down", "app:billing", "--reason", "migration")
    assert (0, b"app:billing down until 2026-11-23T02:00:00Z\n") == (ran.code, ran.stdout)
    assert [{"state": "down", "reason": "migration"}] == [r.body for r in api.requests]
    assert DOWN == json.loads(joblane("conditions", "up", "app:billing", "--json").stdout)
    assert {"state": "up"} == api.requests[-1].body


def test_a_refused_declaration_says_why(api: FakeApi, joblane: Joblane) -> None:
    path = "/v1/conditions/tcp%3Aa%3A1"
    api.answers[path] = problem(400, "Bad Request", detail="condition must be app: and a name")
    ran = joblane("conditions", "down", "tcp:a:1")
    assert 64 == ran.code
    assert "condition must be app:" in ran.said
