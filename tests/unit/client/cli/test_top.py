"""`joblane top`: what it reads, what needs attention, and its tables."""

import json
from typing import Any

import pytest

from joblane.client.cli.text import live
from joblane.client.cli.text.tables import Screen
from joblane.client.cli.top import top
from joblane.client.cli.top.attention import points
from joblane.client.cli.top.text import overview
from tests.support.client.clients import Connect
from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi, Fault, ok, problem
from tests.support.client.top_answers import (
    EMPTY,
    PLATFORM,
    SUMMARY,
    agent,
    everything,
    page,
    queue,
)
from tests.support.pauses import replace_sleep


def found(**more: Any) -> list[tuple[str, str]]:
    """The points of attention: kind and command."""
    return [(point.kind, point.command) for point in points(everything(**more))]


def test_a_reader_gets_jobs_and_queues_and_asks_for_nothing_else(api: FakeApi, joblane: Joblane):
    api.answers |= {"/v1/summary": ok(SUMMARY), "/v1/queues": ok(page(queue("default", 7)))}
    ran = joblane("top", "--once")
    assert 0 == ran.code, ran.said
    assert [
        "joblane 0.1.0: main",
        "jobs    12 pending, 4 active",
        "rates   4.0 submitted, 2.0 started, 2.0 completed, 0 failed a minute",
        "agents  2 or more alive, 4 of 8 slots in use, 3 free",
        "limits  jobs_running 4 of 100",
        "hidden  agents and fleets: for the role platform",
        "hidden  conditions: for operators of a tenant",
        "",
        "nothing needs attention",
        "",
    ] == ran.stdout.decode().splitlines()[:10]
    heading, row = ran.stdout.decode().splitlines()[10:]
    assert heading.split()[2:6] == ["WAITING", "RUNNING", "IN-FLIGHT", "IN/MIN"]
    assert row.split()[2:10] == ["7", "3", "2", "4.0", "2.0", "2.0", "0", "250ms"]
    assert {"/v1/summary", "/v1/queues"} == {request.path for request in api.requests}


def test_the_role_platform_gets_agents_and_fleets_too(api: FakeApi, joblane: Joblane):
    fleet = {"name": "main", "queues": ["default"], "max_size": 9, "desired": 3, "in_service": 1}
    failed = {"status": "Failed", "cause": "no capacity in us-east-1a", "description": "launching"}
    busy = {"load": 3.75, "free_memory_mb": 2210, "disk": {"free_mb": 9050, "most_mb": 9100}}
    api.answers |= {
        "/v1/summary": ok(PLATFORM),
        "/v1/queues": ok(page(queue("default"))),
        "/v1/agents": ok(page(agent("i-2", **busy), agent("i-1", state="gone", alive=False))),
        "/v1/fleets": ok(page(fleet | {"activities": [failed], "note": None})),
    }
    text = joblane("top", "--once").stdout.decode()
    assert "joblane 0.1.0: all tenants" == text.splitlines()[0]
    rows = [line.split()[0] for line in text.splitlines() if line.startswith("i-")]
    assert ["i-1", "i-2"] == rows, "the worst comes first"
    (heading,) = (line for line in text.splitlines() if line.startswith("AGENT"))
    assert "LOAD MEM FREE DISK FREE" in " ".join(heading.split())
    (row,) = (line.split() for line in text.splitlines() if line.startswith("i-2"))
    assert {"3.75", "2210", "9050"} <= {*row}
    points = [line for line in text.splitlines() if line.startswith(("capacity ", "gone "))]
    assert ["capacity", "gone"] == [line.split()[0] for line in points], "a fleet before its agents"
    assert "fleet main has 1 of 3 instances: no capacity in us-east-1a" in points[0]


def test_what_no_live_agent_can_give_is_told_while_jobs_are_pending():
    lacks = {"agents": SUMMARY["agents"] | {"lacks": {"default": ["cpus", "egress"]}}}
    summary = SUMMARY | lacks
    (point,) = points(everything(summary=summary, queues=page(queue("default"), queue("bulk"))))
    assert ("lacking", "joblane ls --queue default --state pending") == (point.kind, point.command)
    assert "no live agent of queue default can give cpus, egress: jobs that ask for it wait" == (
        point.text
    )
    calm = summary | {"jobs": {"by_state": {"active": 2}}}
    assert [] == points(everything(summary=calm, queues=page(queue("default"))))
    platform = PLATFORM | lacks
    assert ["lacking"] == [
        each.kind for each in points(everything(summary=platform, queues=page(queue("default"))))
    ]


BOOTING = {"code": "fleet_booting", "text": "2 instances of fleet main start"}
LARGEST = {"code": "fleet_max", "text": "fleet main may have 9 instances and no more"}
SILENT = {"code": "scaler_silent", "text": "the function scaler has written nothing"}
SILENCE = ["capacity joblane top --once --json fleet main: the function scaler"]


@pytest.mark.parametrize(
    ("reasons", "points", "note"),
    [
        ([], [], ""),
        ([BOOTING], [], "2 instances of fleet main start"),
        ([BOOTING, LARGEST], [], "fleet main may have 9"),
        ([SILENT], SILENCE, "the function scaler has"),
        (None, [], ""),
    ],
)
def test_a_fleet_has_what_the_scaler_decided(
    api: FakeApi, joblane: Joblane, reasons: list[object] | None, points: list[str], note: str
):
    fleet = {"name": "main", "queues": ["default"], "max_size": 9, "desired": 3, "in_service": 3}
    decision = None if reasons is None else {"backlog": 41, "reasons": reasons}
    told = fleet | {"activities": [], "note": None, "decision": decision}
    api.answers |= {
        "/v1/summary": ok(PLATFORM),
        "/v1/queues": ok(EMPTY),
        "/v1/agents": ok(EMPTY),
        "/v1/fleets": ok(page(told)),
    }
    text = joblane("top", "--once").stdout.decode()
    (row,) = [line for line in text.splitlines() if line.startswith("main ")]
    assert ["main", "3", "3", "9", "41" if decision else "-"] == row.split()[:5]
    assert note in row
    found = [line for line in text.splitlines() if line.startswith("capacity ")]
    assert len(points) == len(found)
    said = [" ".join(line.split()) for line in found]
    assert all(said[n].startswith(point) for n, point in enumerate(points)), said


def test_programs_get_the_answers_and_what_needs_attention(api: FakeApi, joblane: Joblane):
    dead = SUMMARY | {"jobs": {"counted_at": None, "by_state": {"dead": 1}}}
    api.answers |= {"/v1/summary": ok(dead), "/v1/queues": ok(EMPTY)}
    answer = json.loads(joblane("top", "--once", "--json").stdout)
    point = {"kind": "dead", "text": "1 job is dead", "command": "joblane ls --state dead"}
    unread = {"agents": top.ROLES["agents"], "fleets": top.ROLES["fleets"]}
    unread["conditions"] = top.ROLES["conditions"]
    assert {"summary": dead, "queues": EMPTY, "attention": [point], "unread": unread} == {
        name: value for name, value in answer.items() if value is not None
    }


@pytest.mark.parametrize(("first", "kind"), [(ok(EMPTY), "old"), (None, "hidden")])
def test_a_part_that_the_api_does_not_answer_leaves_the_others(
    api: FakeApi, first: Fault | None, kind: str
):
    """What was read before stays on the screen, which says so."""
    from joblane import Client

    api.answers |= {"/v1/summary": ok(PLATFORM), "/v1/queues": ok(page(queue("default")))}
    api.answers |= {"/v1/agents": ok(page(agent("i-1"))), "/v1/fleets": first or away()}
    times = iter([0.0, 0.0, 40.0, 40.0, 45.0, 45.0])
    with Client(api.url, "token") as client:
        readings = top._Readings(client, lambda: next(times))  # its clock
        readings.read()
        api.answers["/v1/fleets"] = away()
        answer = readings.read()
        asked = api.count("GET", "/v1/fleets")
        readings.read()
    assert asked == api.count("GET", "/v1/fleets"), "it is left alone for as long as one that works"
    text = overview(answer, points(answer), Screen(), None, "name")
    assert f"{kind:8}fleets: no answer: 503" in text
    assert "hidden  conditions: for operators of a tenant" in text
    assert [] != [line for line in text.splitlines() if line.startswith("i-1 ")]


def away() -> Fault:
    """The answer of a route that does not work."""
    return problem(503, "Service Unavailable")


def test_what_a_role_may_not_read_after_all_is_left_out(api: FakeApi, joblane: Joblane):
    api.answers |= {
        "/v1/summary": ok(PLATFORM),
        "/v1/queues": ok(EMPTY),
        "/v1/agents": problem(403, "Forbidden"),
        "/v1/fleets": problem(404, "Not Found"),
    }
    ran = joblane("top", "--once", "--json")
    assert 0 == ran.code, ran.said
    answer = json.loads(ran.stdout)
    assert (None, None) == tuple(answer[name] for name in ("agents", "fleets"))
    assert "for the role platform" == answer["unread"]["agents"] == answer["unread"]["fleets"]


@pytest.mark.parametrize(
    ("more", "point"),
    [
        ({}, None),
        ({"queues": page(queue("a b", run_jobs=False))}, ("paused", "joblane queues show 'a b'")),
        ({"queues": page(queue("q", 3))}, ("stuck", "joblane ls --queue q --state pending")),
        (
            {"queues": page(queue("default", 3, oldest_s=301, rates={"started": 0}))},
            ("stuck", "joblane ls --queue default --state pending"),
        ),
        ({"queues": page(queue("default", 3, oldest_s=301))}, None),
        ({"queues": page(queue("default", 3, oldest_s=299, rates={"started": 0}))}, None),
        ({"agents": page(agent("i-1", trouble="disk"))}, ("trouble", "joblane agents get i-1")),
        ({"agents": page(agent("i-1", state="gone"))}, ("gone", "joblane agents get i-1")),
        ({"agents": page(agent("i-1", version="0.0.9"))}, ("version", "joblane agents ls")),
        (
            {"summary": PLATFORM | {"jobs": {"by_state": {"blocked": 4, "completed": 9}}}},
            ("blocked", "joblane ls --state blocked"),
        ),
        (
            {"conditions": page({"name": "app:x", "gives_up_at": "2026-11-21T04:02:00Z"})},
            ("condition", "joblane conditions ls"),
        ),
        ({"conditions": page({"name": "app:x", "gives_up_at": "2026-11-21T05:00:00Z"})}, None),
        (
            {"summary": PLATFORM | {"limits": [{"limit": "l", "allowed": 100, "current": 90}]}},
            ("limit", "joblane top --once --json"),
        ),
    ],
)
def test_what_needs_attention(more: dict[str, Any], point: tuple[str, str] | None):
    assert ([] if point is None else [point]) == found(**more)


def test_a_low_and_narrow_terminal_keeps_a_part_of_each_table():
    answer = everything(
        queues=page(*(queue(f"queue-{n}") for n in range(30))),
        agents=page(*(agent(f"i-{n:02}", trouble="the disk is full") for n in range(30))),
    )
    text = overview(answer, points(answer), Screen(80), 40, "name")
    lines = text.splitlines()
    assert 40 >= len(lines)
    assert 80 >= max(map(len, lines))
    for shown in ("queue-0", "i-00", "more points", "more queues", "more agents"):
        assert shown in text


@pytest.mark.parametrize(
    ("width", "headings"),
    [
        (
            110,
            "QUEUE STATE WAITING RUNNING IN/MIN START/MIN DONE/MIN FAIL/MIN WAIT OLDEST DELAYED",
        ),
        (80, "QUEUE WAITING RUNNING START/MIN DONE/MIN FAIL/MIN OLDEST"),
        (40, "QUEUE WAITING OLDEST"),
    ],
)
def test_a_narrow_terminal_has_the_columns_that_matter(width: int, headings: str):
    fleet = {"name": "main", "queues": ["default"], "desired": 3, "in_service": 3, "max_size": 9}
    reason = {"code": "fleet_max", "text": "fleet main may have 9 instances and no more" * 3}
    states = dict.fromkeys(("pending", "active", "completed", "dead", "cancelled"), 123)
    answer = everything(
        summary=PLATFORM | {"jobs": {"by_state": states}},
        queues=page(queue("reports-of-the-night", 1234, oldest_s=75)),
        agents=page(agent("i-0a51c2f6b1e0d7a11", trouble="the disk is full" * 9)),
        fleets=page(fleet | {"decision": {"backlog": 4, "reasons": [reason]}}),
    )
    text = overview(answer, points(answer), Screen(width), 40, "name")
    assert width >= max(map(len, text.splitlines()))
    assert headings.split() in [line.split() for line in text.splitlines()]
    assert all(state in text for state in states), "lines are wrapped, not cut"
    assert "fleet main may have" in text
    assert "the disk is" in text


def test_queues_are_sorted_by_backlog_or_failures():
    queues = page(queue("a"), queue("b", 9), queue("c", rates={"failed": 2}))
    for sort, first in (("name", "a"), ("waiting", "b"), ("failed", "c")):
        text = overview(everything(queues=queues), [], Screen(), None, sort)
        heading = next(n for n, line in enumerate(text.splitlines()) if line.startswith("QUEUE"))
        assert first == text.splitlines()[heading + 1].split()[0]


def test_agents_fleets_and_conditions_are_read_less_often(api: FakeApi):
    from joblane import Client

    both = PLATFORM | {"caller": {"scopes": ["platform.read", "admin.read"]}}
    api.answers |= {"/v1/summary": ok(both), "/v1/queues": ok(EMPTY)}
    paths = ("/v1/agents", "/v1/fleets", "/v1/conditions")
    api.answers |= {path: ok(EMPTY) for path in paths}
    times = iter([0.0] * 3 + [5.0] * 3 + [10.0] * 3 + [30.0] * 3)
    with Client(api.url, "token") as client:
        readings = top._Readings(client, lambda: next(times))  # its clock
        for _ in range(4):
            readings.read()
    assert [4, 3, 2, 2] == [api.count("GET", path) for path in ("/v1/queues", *paths)]


def test_an_interval_of_less_than_two_seconds_is_refused(joblane: Joblane):
    ran = joblane("top", "--interval", "1")
    assert 2 == ran.code
    assert "is not in the range x>=2.0" in ran.said


def test_without_a_terminal_it_prints_one_page_after_the_other(
    api: FakeApi, joblane: Joblane, monkeypatch: pytest.MonkeyPatch
):
    replace_sleep(monkeypatch, live, lambda _s: None)
    api.answers["/v1/queues"] = ok(EMPTY)
    api.faults.extend([ok(SUMMARY), ok(EMPTY), *[problem(503, "away")] * 5])
    api.faults.extend([ok(SUMMARY), ok(EMPTY), problem(401, "Unauthorized")])
    ran = joblane("top")
    assert 77 == ran.code
    assert 2 == ran.stdout.count(b"no queues")
    assert b"\x1b" not in ran.stdout
    assert "503 away" in ran.said


def test_the_sdk_reads_what_goes_on(api: FakeApi, connect: Connect):
    activity = {"queue": "default", "points": []}
    api.answers |= {
        "/v1/summary": ok(SUMMARY),
        "/v1/queues/default/activity": ok(activity),
        "/v1/fleets": ok(EMPTY),
    }
    with connect(api.url, "token") as client:
        assert SUMMARY == client.summary().model_dump()
        assert activity == client.queue_activity("default", "24h").model_dump()
        assert EMPTY == client.fleets().model_dump()
