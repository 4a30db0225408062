"""Keys as operators see them: which are in use, who has and who waits for a slot, clearing."""

import json
import time
from typing import Any

import pytest

from functions.admin.handler import Settings as AdminSettings
from functions.admin.handler import build as build_admin
from joblane.formats.times import rfc3339
from joblane.key.segments import Constant, from_argument, key_hash, parse_segments, to_argument
from joblane.service.key import clear as key_clear
from joblane.state.lease import Heartbeat
from tests.support.aws import Cloud, configure
from tests.support.jobs import named
from tests.support.requests import Api

KEY = ["customer", "acme"]
ID = key_hash(KEY)
PATH = f"/v1/keys/command/{ID}"


@pytest.fixture(name="admin")
def _admin(aws: Cloud) -> Api:
    return admin_of(aws)


def admin_of(aws: Cloud, client: str = "client-acme") -> Api:
    return Api(build_admin(configure(AdminSettings), aws.clients, time.time), client)


def submit(api: Api, key: list[object] | None = None, **concurrency: object) -> str:
    limits = {"max_queued": 200, **concurrency}
    body = {"command": ["true"], "concurrency": {"key": key or KEY, **limits}}
    status, job = api("POST", "/v1/jobs", body)
    assert 202 == status
    return str(job["id"])


def audit(aws: Cloud) -> list[dict[str, Any]]:
    _, page = admin_of(aws)("GET", "/v1/audit")
    return list(page["entries"])


def test_a_key_shows_who_has_a_slot_and_who_waits(aws: Cloud, api: Api, admin: Api):
    holder, second, third = submit(api), submit(api), submit(api)
    aws.jobs.claim(named(holder), "agent-1", int(time.time() * 1000))
    status, key = admin("GET", PATH)
    assert 200 == status
    assert {
        "type": "command",
        "id": ID,
        "segments": KEY,
        "active": 1,
        "queued": 2,
        "max_active": 1,
        "max_queued": 200,
        "when_full": "reject",
        "stale_policy": "block",
        "queued_total": 2,
        "replaced": 0,
        "stale": 0,
    } == {name: value for name, value in key.items() if name not in {"holders", "queue"}}
    (shown,) = key["holders"]
    head = aws.job(holder)
    assert (holder, head.slot, "active", "agent-1", "claimed") == tuple(
        shown[name] for name in ("id", "slot", "state", "agent", "reason")
    )
    assert [(second, 1, "waiting"), (third, 2, "waiting")] == [
        (entry["id"], entry["position"], entry["state"]) for entry in key["queue"]
    ]
    assert "0 waited" in key["queue"][0]["reason"]
    assert "1 waited" in key["queue"][1]["reason"]
    assert all(entry["since_at"] for entry in [shown, *key["queue"]])


def test_ended_and_deleted_jobs_of_a_key_are_shown_until_they_have_left_it(
    aws: Cloud, api: Api, admin: Api
):
    holder, waiter = submit(api), submit(api)
    api("POST", f"/v1/jobs/{holder}/cancel")
    aws.jobs.delete(waiter)
    _, key = admin("GET", PATH)
    assert [("cancelled", True)] == [
        (entry["state"], entry["since_at"] is not None) for entry in key["holders"]
    ]
    assert [(None, None, "deleted")] == [
        (entry["state"], entry["since_at"], entry["reason"]) for entry in key["queue"]
    ]


def test_a_key_lists_a_hundred_of_those_that_wait(api: Api, admin: Api):
    for _ in range(104):
        submit(api)
    _, key = admin("GET", PATH)
    assert (103, 100) == (key["queued"], len(key["queue"]))


def test_keys_in_use_are_listed_by_type_a_page_at_a_time(api: Api, admin: Api):
    for number in range(5):
        submit(api, ["customer", number])
    ended = submit(api, ["customer", "gone"])
    api("POST", f"/v1/jobs/{ended}/cancel")
    admin("DELETE", f"/v1/keys/command/{key_hash(['customer', 'gone'])}/queued")
    found: list[Any] = []
    query = {"limit": "2"}
    for _ in range(9):
        status, page = admin("GET", "/v1/keys/command", query=query)
        assert 200 == status
        found += page["entries"]
        if page["next"] is None:
            break
        query = {"limit": "2", "next": page["next"]}
    assert [0, 1, 2, 3, 4] == sorted(entry["segments"][1] for entry in found)
    assert {(1, 0)} == {(entry["active"], entry["queued"]) for entry in found}
    assert [] == admin("GET", "/v1/keys/sync")[1]["entries"]


def test_a_key_is_found_by_its_segments(api: Api, admin: Api):
    submit(api)
    submit(api, ["customer", 1])
    submit(api, ["customer", True])
    wanted: list[list[Constant]] = [["customer", "acme"], ["customer", 1], ["customer", True]]
    for segments in wanted:
        query = {"segments": json.dumps(segments)}
        _, page = admin("GET", "/v1/keys/command", query=query)
        assert [(segments, key_hash(segments))] == [
            (entry["segments"], entry["id"]) for entry in page["entries"]
        ]
    _, page = admin("GET", "/v1/keys/command", query={"segments": '["customer", "1"]'})
    assert [] == page["entries"]
    for wrong in ("acme", "{}", "[]", "[null]", '["' + "x" * 201 + '"]', "[" * 5000):
        status, problem = admin("GET", "/v1/keys/command", query={"segments": wrong})
        assert (400, "segments") == (status, problem["errors"][0]["field"])


def test_a_holder_that_runs_has_the_heartbeat_of_its_agent_and_the_end_of_its_lease(
    api: Api, admin: Api, aws: Cloud
):
    holder = submit(api)
    now_ms = int(time.time() * 1000)
    row = Heartbeat("agent-1", 0, now_ms, 1, 1, ("default",), "full", "1", lease_s=60)
    aws.agents.beat(row)
    names = ("heartbeat_at", "lease_ends_at")

    def shown() -> list[str | None]:
        (entry,) = admin("GET", PATH)[1]["holders"]
        return [entry[name] for name in names]

    assert [None, None] == shown()  # pending: nobody has a lease on it
    aws.jobs.claim(named(holder), "agent-1", now_ms)
    assert [rfc3339(now_ms), rfc3339(now_ms + 60_000)] == shown()
    aws.agents.delete("agent-1")
    assert [None, None] == shown()


def test_what_is_no_key_is_not_found_or_refused(api: Api, admin: Api, aws: Cloud):
    submit(api)
    assert 404 == admin("GET", f"/v1/keys/command/{'0' * 32}")[0]
    assert 404 == admin("DELETE", f"/v1/keys/command/{'0' * 32}/queued")[0]
    assert 404 == admin_of(aws, "client-other")("GET", PATH)[0]
    for path in ("/v1/keys/command/acme", f"/v1/keys/Command/{ID}", "/v1/keys/a%23b"):
        assert 400 == admin("GET", path)[0]


def test_a_key_of_another_tenant_is_not_there(aws: Cloud, api: Api, admin: Api):
    submit(api)
    waiter = submit(api)
    other = admin_of(aws, "client-other")
    assert 404 == other("GET", PATH)[0]
    assert [] == other("GET", "/v1/keys/command")[1]["entries"]
    assert [] == other("GET", "/v1/keys/command", query={"segments": json.dumps(KEY)})[1]["entries"]
    other("DELETE", f"{PATH}/queued")
    head = aws.job(waiter)
    assert "waiting" == head.state
    assert 1 == admin("GET", PATH)[1]["queued"]


def test_clearing_cancels_those_that_wait_and_is_audited(aws: Cloud, api: Api, admin: Api):
    holder, *waiting = [submit(api) for _ in range(4)]
    status, answer = admin("DELETE", f"{PATH}/queued", {"reason": "wrong customer"})
    assert (200, {"cancelled": waiting, "left": 0}) == (status, answer)
    _, key = admin("GET", PATH)
    assert ([holder], []) == ([entry["id"] for entry in key["holders"]], key["queue"])
    head = aws.job(waiting[0])
    assert "cancelled with all that wait for the key by machine" in head.reason
    entry = next(entry for entry in audit(aws) if entry["action"] == "clear")
    assert ("wrong customer", {"scope": "command", "key": ID}) == (
        entry["reason"],
        entry["target"],
    )


def test_clearing_goes_on_where_it_stopped(api: Api, admin: Api, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(key_clear, "PAGE", 2)
    _, *waiting = [submit(api) for _ in range(6)]
    answers = [admin("DELETE", f"{PATH}/queued")[1] for _ in range(3)]
    assert [3, 1, 0] == [answer["left"] for answer in answers]
    assert waiting == [job_id for answer in answers for job_id in answer["cancelled"]]


def test_clearing_is_for_operators(aws: Cloud, api: Api):
    submit(api)
    settings = configure(AdminSettings)
    reading = Api(
        build_admin(settings, aws.clients, time.time), claims={"scope": "joblane/jobs.read"}
    )
    assert 403 == reading("DELETE", f"{PATH}/queued")[0]
    assert 200 == reading("GET", PATH)[0]


@pytest.mark.parametrize(
    ("argument", "segment"),
    [
        ("acme", "acme"),
        ("7", 7),
        ('"7"', "7"),
        ("-1.5", -1.5),
        ("true", True),
        ('"true"', "true"),
        ("null", "null"),
        ("[1]", "[1]"),
        ("NaN", "NaN"),
        ("1e999", "1e999"),
        ('""', ""),
        ("a b", "a b"),
        ('"\\"x\\""', '"x"'),
    ],
)
def test_segments_are_written_as_arguments_and_read_again(argument: str, segment: Constant):
    assert segment == from_argument(argument)
    assert type(segment) is type(from_argument(argument))
    written = to_argument(segment)
    assert segment == from_argument(written)
    assert type(segment) is type(from_argument(written))


def test_segments_are_read_from_a_json_array():
    assert ("a", 1, 1.5) == parse_segments('["a", 1, 1.5]')
