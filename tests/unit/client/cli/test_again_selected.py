"""`joblane resubmit`, `dlq replay` and `dlq dismiss` with filters."""

import json
from typing import Any

import pytest
from ulid import ULID

from joblane import RequestError
from joblane.formats.times import rfc3339
from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi, Fault, Request, ok, problem
from tests.unit.client.cli.test_change_selected import NEWEST_MS, counts, fill

RESUBMIT = ("resubmit", "--state", "failed", "--label", "team=web")
UNTIL = rfc3339(NEWEST_MS + 1)


def answer(api: FakeApi, path: str, *pages: dict[str, Any]) -> list[Request]:
    """Let the API answer a bulk operation; returns its requests as they come."""
    seen: list[Request] = []

    def more(request: Request) -> Fault | None:
        if (request.method, request.path) != ("POST", path):
            return None
        seen.append(request)
        following = f"c{len(seen)}" if len(seen) < len(pages) else None
        return ok({"refused": [], "next": following, **pages[len(seen) - 1]})

    api.more = more
    return seen


def made(number: int) -> dict[str, str]:
    return {"id": f"01J{number}", "resubmitted_as": f"01K{number}"}


PAGES = (
    {"examined": 3, "resubmitted": 2, "already": 1, "jobs": [made(1), made(2)]},
    {"examined": 2, "resubmitted": 1, "already": 1, "jobs": [made(3)]},
)


def test_all_that_match_are_resubmitted_and_those_from_before_are_told(
    api: FakeApi, joblane: Joblane
) -> None:
    fill(api, 5)
    sent = answer(api, "/v1/jobs/resubmit", *PAGES)
    ran = joblane(*RESUBMIT, "--yes", "--set", "resources.memory_mb=2048", "--reason", "OOM")
    said = b"resubmitted 3 of 5 jobs examined, 2 were resubmitted before\n"
    assert (0, said, "") == (ran.code, ran.stdout, ran.said)
    query = {"state": "failed", "label": "team=web", "until": UNTIL}
    assert [query, {**query, "next": "c1"}] == [request.query for request in sent]
    body = {"changes": {"resources": {"memory_mb": 2048}}, "reason": "OOM"}
    assert [body, body] == [request.body for request in sent]


def test_the_new_ids_are_in_the_json(api: FakeApi, joblane: Joblane) -> None:
    fill(api, 1)
    answer(api, "/v1/jobs/resubmit", *PAGES)
    expected = {
        "examined": 5,
        "resubmitted": 3,
        "already": 2,
        "refused": [],
        "jobs": [made(1), made(2), made(3)],
    }
    assert expected == json.loads(joblane(*RESUBMIT, "--yes", "--json").stdout)


def test_the_json_has_the_same_fields_if_no_job_matches(api: FakeApi, joblane: Joblane) -> None:
    answer(api, "/v1/jobs/resubmit", *PAGES)
    none = {"examined": 0, "resubmitted": 0, "already": 0, "refused": [], "jobs": []}
    assert none == json.loads(joblane(*RESUBMIT, "--yes", "--json").stdout)


def test_a_dry_run_counts_those_that_would_be_left_out(api: FakeApi, joblane: Joblane) -> None:
    for number in range(4):
        job_id = str(ULID.from_timestamp((NEWEST_MS + number) / 1000))
        api.add(job_id, resubmitted_as="01K" if number == 1 else None)
    ran = joblane(*RESUBMIT, "--dry-run")
    assert b"would resubmit 3 jobs (1 was resubmitted before)\n" == ran.stdout
    told = json.loads(joblane(*RESUBMIT, "--dry-run", "--json").stdout)
    assert {"selected": 3, "more": False, "already": 1} == told


def test_without_a_state_those_that_did_not_succeed_are_resubmitted(
    api: FakeApi, joblane: Joblane
) -> None:
    fill(api, 1)
    (sent,) = (answer(api, "/v1/jobs/resubmit", *PAGES[1:]),)
    joblane("resubmit", "--queue", "bulk", "--yes")
    states = {"failed", "dead", "stale", "expired", "cancelled", "partial_failure"}
    assert states == set(sent[0].query["state"].split(","))


def test_an_idempotency_key_is_for_one_job(api: FakeApi, joblane: Joblane) -> None:
    ran = joblane(*RESUBMIT, "--yes", "--idempotency-key", "k")
    assert 2 == ran.code
    assert "--idempotency-key is for one job; with filters none is needed" in ran.said
    assert [] == api.requests


def test_what_was_done_before_an_error_is_told(api: FakeApi, joblane: Joblane) -> None:
    fill(api, 1)
    seen: list[Request] = []

    def more(request: Request) -> Fault | None:
        if request.path != "/v1/jobs/resubmit":
            return None
        seen.append(request)
        if len(seen) == 2:
            return problem(429, "Too Many Requests", detail="jobs_waiting is 5")
        return ok({**PAGES[0], "refused": [], "next": "c1"})

    api.more = more
    ran = joblane(*RESUBMIT, "--yes")
    assert 0 != ran.code
    assert "resubmitted 2 of 3 jobs examined, 1 was resubmitted before" in ran.said
    assert "before this error" in ran.said
    assert "jobs_waiting is 5" in ran.said


@pytest.mark.parametrize(("verb", "done"), [("replay", "replayed"), ("dismiss", "dismissed")])
def test_dead_jobs_that_match_are_changed(
    api: FakeApi, joblane: Joblane, verb: str, done: str
) -> None:
    fill(api, 5)
    sent = answer(api, f"/v1/dlq/{verb}", {"examined": 5, done: 4})
    ran = joblane("dlq", verb, "--queue", "bulk", "--since", "1h", "--yes", "--reason", "fixed")
    expected = f"{done} 4 of 5 jobs examined\n".encode()
    assert (0, expected, "") == (ran.code, ran.stdout, ran.said)
    (counted,) = counts(api)
    assert ("dead", "bulk", "1") == tuple(
        counted.query[name] for name in ("state", "queue", "limit")
    )
    assert {"queue", "since", "until"} == sent[0].query.keys()
    assert ({"reason": "fixed"}, UNTIL) == (sent[0].body, sent[0].query["until"])


@pytest.mark.parametrize("verb", ["replay", "dismiss"])
def test_it_is_one_dead_job_or_a_selection(api: FakeApi, joblane: Joblane, verb: str) -> None:
    for args, said in [
        ((), "give the ids of jobs, or filters such as --queue, --label or --since"),
        (("01J", "--dry-run"), "give the ids of jobs or filters, not both"),
        (("--queue", "bulk"), f"add --yes to {verb} without a terminal"),
    ]:
        ran = joblane("dlq", verb, *args)
        assert 2 == ran.code
        assert said in ran.said
    assert 2 == joblane("dlq", verb, "--state", "failed").code
    assert [] == api.requests


def test_the_sdk_sends_changes_and_goes_page_by_page(api: FakeApi, client: Any) -> None:
    sent = answer(api, "/v1/jobs/resubmit", *PAGES)
    found = list(client.resubmit_jobs(changes={"queue": "bulk"}, state="dead", reason="x"))
    assert [2, 1] == [page.resubmitted for page in found]
    assert {"changes": {"queue": "bulk"}, "reason": "x"} == sent[1].body
    sent = answer(api, "/v1/dlq/replay", {"examined": 1, "replayed": 1})
    assert 1 == next(iter(client.replay_jobs(labels={"team": "web"}))).replayed
    assert [{"label": "team=web"}] == [request.query for request in sent]
    sent = answer(api, "/v1/dlq/dismiss", {"examined": 1, "dismissed": 1})
    assert 1 == next(iter(client.dismiss_jobs(queue="bulk", reason="old"))).dismissed
    assert [{"reason": "old"}] == [request.body for request in sent]


def test_the_sdk_resubmits_a_job_with_changes(api: FakeApi, client: Any) -> None:
    new = {"id": "01K", "state": "pending"}
    api.answers["/v1/jobs/01J/resubmit"] = ok(new, 202)
    assert "01K" == client.resubmit("01J", changes={"deadline": None}, reason="late").id
    assert {"changes": {"deadline": None}, "reason": "late"} == api.requests[-1].body
    client.resubmit("01J")
    assert api.requests[-1].body is None
    refusal = problem(400, "Bad Request", detail="colour: unknown field")
    api.answers["/v1/jobs/01J/resubmit"] = refusal
    with pytest.raises(RequestError, match="colour: unknown field"):
        client.resubmit("01J", changes={"colour": "red"})
