"""`joblane top`, and the SDK's calls for what goes on."""

import json

from tests.support.client.clients import Connect
from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi, ok

SUMMARY = {
    "caller": {"kind": "person", "name": "ada", "tenant": "main", "role": "reader", "scopes": []},
    "now": "2026-11-21T03:02:32.416Z",
    "jobs": {"counted_at": "2026-11-21T03:02:30.000Z", "by_state": {"pending": 12, "active": 4}},
    "limits": [
        {"limit": "jobs_running", "allowed": 100, "current": 4},
        {"limit": "output_mb_per_job", "allowed": 200, "current": None},
    ],
    "agents": {
        "alive": 2,
        "slots": 8,
        "running": 4,
        "free": 3,
        "troubled": 1,
        "cordoned": 0,
        "more": True,
    },
    "links": [],
    "prices": {},
    "version": "0.1.0",
    "deployment": "joblane",
}
QUEUES = {"entries": [], "limit": 0, "next": None}


def test_one_screen_has_jobs_agents_limits_and_queues(api: FakeApi, joblane: Joblane):
    api.answers |= {"/v1/summary": ok(SUMMARY), "/v1/queues": ok(QUEUES)}
    ran = joblane("top", "--once")
    assert 0 == ran.code, ran.said
    assert [
        "joblane 0.1.0: main",
        "jobs    12 pending, 4 active",
        "agents  2 or more alive, 4 of 8 slots in use, 3 free, 1 troubled",
        "limits  jobs_running 4 of 100",
        "",
        "no queues",
    ] == ran.stdout.decode().splitlines()


def test_programs_get_both_answers(api: FakeApi, joblane: Joblane):
    api.answers |= {"/v1/summary": ok(SUMMARY), "/v1/queues": ok(QUEUES)}
    ran = joblane("top", "--once", "--json")
    assert {"summary": SUMMARY, "queues": QUEUES} == json.loads(ran.stdout)


def test_the_role_platform_has_no_jobs(api: FakeApi, joblane: Joblane):
    platform = {**SUMMARY, "jobs": None, "limits": []}
    platform["caller"] = {"kind": "person", "name": "ada", "tenant": None}
    api.answers |= {"/v1/summary": ok(platform), "/v1/queues": ok(QUEUES)}
    assert "joblane 0.1.0: all tenants" == joblane("top", "--once").stdout.decode().splitlines()[0]


def test_the_sdk_reads_what_goes_on(api: FakeApi, connect: Connect):
    points = {"queue": "default", "points": []}
    api.answers |= {
        "/v1/summary": ok(SUMMARY),
        "/v1/queues/default/activity": ok(points),
        "/v1/fleets": ok(QUEUES),
    }
    with connect(api.url, "token") as client:
        assert SUMMARY == client.summary()
        assert points == client.queue_activity("default", "24h")
        assert QUEUES == client.fleets()
