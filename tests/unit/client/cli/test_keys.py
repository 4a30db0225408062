"""`joblane keys` and the SDK's calls of keys: how segments are written, what is shown."""

import json

import pytest

from joblane.client.errors import InputError
from joblane.key.segments import key_hash
from tests.support.client.clients import Connect
from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi, ok, problem

ACME = f"/v1/keys/command/{key_hash(['customer', 'acme'])}"
KEY = {
    "type": "command",
    "id": key_hash(["customer", "acme"]),
    "segments": ["customer", "acme"],
    "active": 1,
    "queued": 2,
    "max_active": 1,
    "max_queued": 10,
    "when_full": "reject",
    "stale_policy": "block",
}
DETAIL = KEY | {
    "queued_total": 12,
    "replaced": 0,
    "stale": 0,
    "holders": [
        {
            "id": "01KAJ5RJ00V3XW8TQZ9M4C2N7D",
            "slot": 1763690902529,
            "state": "active",
            "since_at": "2026-11-21T02:08:22.528Z",
            "reason": "claimed",
            "agent": "agent-1",
        }
    ],
    "queue": [],
}


def test_keys_of_a_type_are_listed(api: FakeApi, joblane: Joblane) -> None:
    page = {"entries": [KEY, KEY | {"segments": ["a b", 7, "7"]}], "limit": 20, "next": "b2s"}
    api.answers["/v1/keys/command"] = ok(page)
    ran = joblane("keys", "ls", "command")
    _, first, second = ran.stdout.decode().splitlines()
    assert first.startswith("customer acme  ")
    assert second.startswith("""'a b' 7 '"7"'  """)
    assert "1 of 1" in first
    assert "2 of 10" in first
    assert "more keys: --next b2s" in ran.said
    assert page == json.loads(joblane("keys", "ls", "command", "--json").stdout)


def test_a_key_is_shown_by_its_segments(api: FakeApi, joblane: Joblane) -> None:
    api.answers[ACME] = ok(DETAIL)
    shown = joblane("keys", "get", "command", "customer", "acme").stdout.decode()
    assert "customer acme" in shown
    assert "01KAJ5RJ00V3XW8TQZ9M4C2N7D" in shown
    assert "no job waits" in shown
    assert DETAIL == json.loads(
        joblane("keys", "get", "command", "customer", "acme", "--json").stdout
    )


@pytest.mark.parametrize(
    ("arguments", "segments"),
    [
        (["7"], [7]),
        (['"7"'], ["7"]),
        (["--", "-7"], [-7]),
        (["true", "a"], [True, "a"]),
        (['"true"', "a"], ["true", "a"]),
    ],
)
def test_a_segment_that_is_a_number_in_json_is_a_number(
    api: FakeApi, joblane: Joblane, arguments: list[str], segments: list[str | int]
) -> None:
    path = f"/v1/keys/sync/{key_hash(segments)}"
    api.answers[path] = ok(DETAIL)
    assert 0 == joblane("keys", "get", "sync", *arguments).code
    assert path == api.requests[-1].path


def test_clearing_goes_on_until_nothing_is_left(api: FakeApi, joblane: Joblane) -> None:
    pages = [{"cancelled": ["a", "b"], "left": 1}, {"cancelled": ["c"], "left": 0}]
    api.faults.extend(ok(page) for page in pages)
    ran = joblane("keys", "clear", "command", "customer", "acme", "--reason", "wrong one")
    assert (0, b"3 jobs were cancelled\n") == (ran.code, ran.stdout)
    expected = ("DELETE", f"{ACME}/queued", {"reason": "wrong one"})
    assert [expected] * 2 == [(r.method, r.path, r.body) for r in api.requests]


def test_a_key_that_no_job_has_is_said_so(api: FakeApi, joblane: Joblane) -> None:
    api.answers[ACME] = problem(404, "Not Found", detail="no job has or had this key within a day")
    ran = joblane("keys", "get", "command", "customer", "acme")
    assert 0 != ran.code
    assert "no job has or had this key" in ran.said


def test_what_is_no_segment_is_refused_before_a_request(
    api: FakeApi, joblane: Joblane, connect: Connect
) -> None:
    ran = joblane("keys", "get", "command", "x" * 201)
    assert 2 == ran.code
    assert "at most 200 bytes" in ran.said
    with connect(api.url, "secret") as client, pytest.raises(InputError, match="1 to 10"):
        client.key("command")
    with (
        connect(api.url, "secret") as client,
        pytest.raises(InputError, match="a number or a boolean"),
    ):
        client.key("command", None)
    assert not api.requests
