"""`joblane cancel` and `retry` with filters: what is counted, asked, sent and said."""

import json
import os
import pty
from typing import Any

import pytest
from ulid import ULID

from joblane.formats.times import rfc3339
from joblane.state.lifecycle import ENDED, State
from tests.support.client.command import Joblane, Spawn
from tests.support.client.fake_api import FakeApi, Fault, Request, ok

NEWEST_MS = 1_800_000_000_123

CANCEL = ("cancel", "--state", "pending", "--label", "team=web", "--label", "a=b")
FILTERS = {"state": "pending", "label": "team=web,a=b"}


def fill(api: FakeApi, jobs: int) -> None:
    """So many jobs, the newest of `NEWEST_MS`."""
    for number in range(jobs):
        api.add(str(ULID.from_timestamp((NEWEST_MS - jobs + 1 + number) / 1000)))


def sweep(api: FakeApi, verb: str, done: str, pages: int = 1) -> list[Request]:
    """Let the API answer a bulk operation; returns its requests as they come."""
    seen: list[Request] = []

    def answer(request: Request) -> Fault | None:
        if (request.method, request.path) != ("POST", f"/v1/jobs/{verb}"):
            return None
        seen.append(request)
        following = f"c{len(seen)}" if len(seen) < pages else None
        return ok({"examined": 3, done: 2, "refused": [], "next": following})

    api.more = answer
    return seen


def counts(api: FakeApi) -> list[Request]:
    return [request for request in api.requests if request.method == "GET"]


def test_all_that_match_are_cancelled_but_nothing_that_is_submitted_meanwhile(
    api: FakeApi, joblane: Joblane
) -> None:
    fill(api, 5)
    sent = sweep(api, "cancel", "cancelled", pages=2)
    ran = joblane(*CANCEL, "--yes", "--reason", "wrong input")
    assert (0, b"cancelled 4 of 6 jobs examined\n", "") == (ran.code, ran.stdout, ran.said)
    (first,) = counts(api)
    assert {**FILTERS, "limit": "1"} == first.query
    until = rfc3339(NEWEST_MS + 1)
    assert [{**FILTERS, "until": until}, {**FILTERS, "until": until, "next": "c1"}] == [
        request.query for request in sent
    ]
    assert {"reason": "wrong input"} == sent[0].body


def test_all_that_match_are_deleted(api: FakeApi, joblane: Joblane) -> None:
    fill(api, 5)
    sent = sweep(api, "delete", "deleted", pages=2)
    ran = joblane("delete", "--state", "completed", "--yes", "--reason", "done with")
    assert (0, b"deleted 4 of 6 jobs examined\n", "") == (ran.code, ran.stdout, ran.said)
    assert {"state": "completed", "until": rfc3339(NEWEST_MS + 1)} == sent[0].query
    assert {"reason": "done with"} == sent[1].body


def test_jobs_that_cannot_be_changed_are_named(api: FakeApi, joblane: Joblane) -> None:
    fill(api, 1)
    refused = [{"id": "01J", "detail": "the job is not restartable"}]
    api.answers["/v1/jobs/retry"] = ok(
        {"examined": 2, "retried": 1, "refused": refused, "next": None}
    )
    ran = joblane("retry", "--queue", "bulk", "-y", "--json")
    assert 64 == ran.code
    assert {"examined": 2, "retried": 1, "refused": refused} == json.loads(ran.stdout)


@pytest.mark.parametrize(
    ("verb", "states"),
    [
        ("cancel", set(State) - ENDED),
        ("retry", {State.FAILED, State.DEAD, State.PARTIAL_FAILURE}),
        ("delete", set(ENDED)),
    ],
)
def test_without_a_state_those_are_counted_that_can_be_changed(
    api: FakeApi, joblane: Joblane, verb: str, states: set[State]
) -> None:
    fill(api, 1)
    sent = sweep(api, verb, {"cancel": "cancelled", "retry": "retried"}.get(verb, "deleted"))
    joblane(verb, "--type", "sleep", "--yes")
    (counted,), (changed,) = counts(api), sent
    assert states == set(counted.query["state"].split(","))
    assert counted.query["state"] == changed.query["state"]


@pytest.mark.parametrize(
    ("jobs", "said", "told"),
    [
        (0, "would cancel 0 jobs", {"selected": 0, "more": False}),
        (1, "would cancel 1 job", {"selected": 1, "more": False}),
        (250, "would cancel 250 jobs", {"selected": 250, "more": False}),
        (1000, "would cancel 1,000 jobs", {"selected": 1000, "more": False}),
        (1234, "would cancel at least 1,000 jobs", {"selected": 1000, "more": True}),
    ],
)
def test_a_dry_run_only_counts(
    api: FakeApi, joblane: Joblane, jobs: int, said: str, told: dict[str, object]
) -> None:
    fill(api, jobs)
    ran = joblane(*CANCEL, "--dry-run")
    assert (0, f"{said}\n", "") == (ran.code, ran.stdout.decode(), ran.said)
    assert {"GET"} == {request.method for request in api.requests}
    assert len(api.requests) <= 10
    assert told == json.loads(joblane(*CANCEL, "--dry-run", "--yes", "--json").stdout)
    assert {"GET"} == {request.method for request in api.requests}


def test_nothing_is_sent_for_nothing(api: FakeApi, joblane: Joblane) -> None:
    ran = joblane(*CANCEL, "--yes")
    assert (0, b"cancelled 0 of 0 jobs examined\n") == (ran.code, ran.stdout)
    assert 1 == len(api.requests)


def test_without_a_terminal_it_must_be_confirmed_by_an_option(api: FakeApi, joblane: Joblane):
    ran = joblane(*CANCEL)
    assert (2, b"") == (ran.code, ran.stdout)
    assert "add --yes to cancel without a terminal, or --dry-run to count" in ran.said
    assert [] == api.requests


@pytest.mark.parametrize(("answer", "done"), [("y", True), ("n", False), ("", False)])
def test_a_person_is_asked_with_the_number(api: FakeApi, fork: Spawn, answer: str, *, done: bool):
    fill(api, 1200)
    sent = sweep(api, "cancel", "cancelled")
    main, side = pty.openpty()
    process = fork(*CANCEL, stdin=side, stdout=side, stderr=side, start_new_session=True)
    os.close(side)
    seen = b""
    while b"[y/N]" not in seen:
        seen += os.read(main, 4096)
    assert b"cancel at least 1,000 jobs (state pending, label team=web and a=b)? [y/N]" in seen
    assert [] == sent
    os.write(main, f"{answer}\n".encode())
    expected = b"cancelled 2 of 3 jobs examined" if done else b"nothing was cancelled"
    while expected not in seen:
        seen += os.read(main, 4096)
    assert 0 == process.wait()
    assert done == bool(sent)
    os.close(main)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "give the ids of jobs, or filters"),
        (("--until", "2026-01-01T00:00:00Z", "--yes"), "give the ids of jobs, or filters"),
        (("--hidden", "--dry-run"), "give the ids of jobs, or filters"),
        (("01J", "--state", "pending"), "give the ids of jobs or filters, not both"),
        (("01J", "02J", "--dry-run"), "give the ids of jobs or filters, not both"),
    ],
)
@pytest.mark.parametrize("verb", ["cancel", "retry", "delete"])
def test_it_is_one_job_or_a_selection(
    api: FakeApi, joblane: Joblane, verb: str, args: tuple[str, ...], said: str
) -> None:
    ran = joblane(verb, *args)
    assert 2 == ran.code
    assert said in ran.said
    assert [] == api.requests


def test_the_sdk_goes_page_by_page(api: FakeApi, client: Any) -> None:
    sent = sweep(api, "retry", "retried", pages=2)
    done = [
        page.retried
        for page in client.retry_jobs(
            state=["failed", "dead"], groups=True, hidden=False, reason="fixed"
        )
    ]
    assert [2, 2] == done
    assert {"state": "failed,dead", "groups": "true"} == sent[0].query
    assert {"reason": "fixed"} == sent[1].body
    sent = sweep(api, "delete", "deleted")
    assert 2 == next(iter(client.delete_jobs(state="failed", reason="old"))).deleted
    assert [({"state": "failed"}, {"reason": "old"})] == [(r.query, r.body) for r in sent]
    sent = sweep(api, "cancel", "cancelled")
    assert 3 == next(iter(client.cancel_jobs(label="team=web"))).examined
    assert [{"label": "team=web"}] == [request.query for request in sent]
