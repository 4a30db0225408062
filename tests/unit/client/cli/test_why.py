"""`joblane why` and the SDK's call: the first reason, its commands, and the others."""

import json
import re
from typing import Any
from urllib.parse import unquote

import pytest

from tests.support.client.clients import Connect
from tests.support.client.command import Joblane
from tests.support.client.documented import answer_as_documented
from tests.support.client.fake_api import FakeApi, ok, problem
from tests.unit.why.test_commands import ROUTES

JOB = "01KAJ5RJ00V3XW8TQZ9M4C2N7D"
PATH = f"/v1/jobs/{JOB}/why"
ANSWER: dict[str, Any] = {
    "id": JOB,
    "group": None,
    "index": None,
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


def test_a_member_of_a_group_is_asked_for_by_its_index(api: FakeApi, joblane: Joblane):
    api.answers[PATH] = ok({**ANSWER, "id": None, "group": JOB, "index": 7})
    assert 0 == joblane("why", JOB, "--index", "7").code
    assert {"index": "7"} == api.requests[-1].query
    assert "--index" in joblane("why", JOB, "--index", "-1").said


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


COMMANDS = {
    "agents ls": r"agents ls",
    "agents get i-1": r"agents get (\S+)",
    "agents uncordon i-1": r"agents uncordon (\S+)",
    "audit 01J": r"audit (\S+)",
    "cancel 01J": r"cancel (\S+)",
    "conditions ls": r"conditions ls",
    "conditions up app:billing": r"conditions up (\S+)",
    "dlq replay 01J": r"dlq (\S+) (\S+)",
    "dlq dismiss 01J": r"dlq (\S+) (\S+)",
    "get 01J": r"get (\S+)",
    "logs 01J": r"logs (?:-f )?(\S+)",
    "ls --state active": r"ls --state active",
    "queues resume bulk": r"queues (?:show|resume|set) (\S+).*",
    "requeue bulk": r"requeue (\S+)",
    "resubmit 01J": r"resubmit (\S+)",
    "retry 01J": r"retry (\S+)",
    "top --once": r"top --once",
    "why 01J": r"why (\S+)",
}
"""A command line of each kind that `why` prints, by the row of the table that has its request."""


def test_the_table_of_commands_has_every_kind() -> None:
    assert ROUTES.keys() - {r"get --failed (\S+)"} == set(COMMANDS.values())


@pytest.mark.parametrize(("command", "row"), COMMANDS.items())
def test_commands_of_why_send_the_requests_that_their_test_makes(
    api: FakeApi, joblane: Joblane, command: str, row: str
) -> None:
    """tests/unit/why/test_commands.py sends them to the API without a command line."""
    api.more = answer_as_documented
    joblane(*command.split())
    found = re.fullmatch(row, command)
    assert found
    _, _, method, path = ROUTES[row]
    sent = [(request.method, unquote(request.path)) for request in api.requests]
    assert (method, path.format(*found.groups())) in sent
