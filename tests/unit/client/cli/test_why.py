"""`joblane why` and the SDK's call: the first reason, its commands, and the others."""

import json

from tests.support.client.clients import Connect
from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi, ok, problem

JOB = "01KAJ5RJ00V3XW8TQZ9M4C2N7D"
PATH = f"/v1/jobs/{JOB}/why"
ANSWER = {
    "id": JOB,
    "state": "pending",
    "at": "2026-11-21T03:02:32.416Z",
    "summary": "pending for 5 min, since 2026-11-21T02:57:32Z: queue bulk is paused",
    "reasons": [
        {
            "code": "paused",
            "text": "queue bulk is paused",
            "facts": {"queue": "bulk"},
            "commands": ["joblane queues resume bulk"],
        },
        {
            "code": "of a later version",
            "text": "an agent wrote: \x1b[2J",
            "facts": {},
            "commands": ["joblane agents ls", "joblane ls"],
        },
    ],
}


def test_the_reason_that_decides_comes_first_with_its_commands(api: FakeApi, joblane: Joblane):
    api.answers[PATH] = ok(ANSWER)
    ran = joblane("why", JOB)
    assert 0 == ran.code, ran.said
    assert [
        "pending for 5 min, since 2026-11-21T02:57:32Z: queue bulk is paused",
        "  joblane queues resume bulk",
        "also:",
        "* an agent wrote: \\x1b[2J",
        "    joblane agents ls",
        "    joblane ls",
    ] == ran.stdout.decode().splitlines()
    assert ANSWER == json.loads(joblane("why", JOB, "--json").stdout)


def test_a_single_reason_stands_alone(api: FakeApi, joblane: Joblane):
    api.answers[PATH] = ok(ANSWER | {"reasons": ANSWER["reasons"][:1]})
    assert 2 == len(joblane("why", JOB).stdout.decode().splitlines())


def test_a_job_that_does_not_exist_is_an_error(api: FakeApi, joblane: Joblane):
    api.answers[PATH] = problem(404, "there is no such job")
    ran = joblane("why", JOB)
    assert 0 != ran.code
    assert "there is no such job" in ran.said


def test_both_clients_read_it(api: FakeApi, connect: Connect):
    api.answers[PATH] = ok(ANSWER)
    with connect(api.url, "token") as client:
        assert ANSWER == client.why(JOB).model_dump()
