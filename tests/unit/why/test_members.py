"""Why a member of a group waits, also one that has not begun and has no row; and why its group."""

from dataclasses import replace
from typing import Any

import pytest

from functions.status.handler import Settings, build
from joblane.formats.times import rfc3339
from joblane.group.array import InArray, Indices
from joblane.group.record import Group, MemberOf, Stop
from joblane.job.head import Head
from joblane.state.lifecycle import State
from joblane.why.explain import explain, explain_member
from joblane.why.reason import Reason
from joblane.why.situation import Situation
from tests.support.aws import configure
from tests.support.broadcast import NOW_MS, Broadcast
from tests.support.jobs import JOB
from tests.support.requests import Api
from tests.support.situations import FULL, NOW, OTHER, codes, job, waits


def ask(at: Broadcast, path: str, client: str = "client-acme", **query: str) -> tuple[int, Any]:
    api = Api(build(configure(Settings), at.aws.clients, lambda: at.now), client)
    return api("GET", f"/v1/jobs/{path}/why", query=query)


def why(at: Broadcast, index: int) -> dict[str, Any]:
    code, found = ask(at, at.id, index=str(index))
    assert 200 == code, found
    assert found["reasons"][0]["text"] in found["summary"]
    return dict(found)


def parent(begun: int, most: int | None = None, **of_group: Any) -> Head:
    """An array of 300 jobs, of which some have begun."""
    group = Group(300, OTHER, begun=begun, begun_ms=NOW - 60_000, array=Indices(), **of_group)
    return replace(job(State.PROCESSING, array={"size": 300}, max_concurrency=most), group=group)


def first(head: Head, number: int) -> Reason:
    return explain_member(Situation(head, NOW), number)[0]


def test_a_member_that_has_not_begun_says_what_lets_it_begin():
    at = Broadcast(1, array={"first": 1, "last": 399, "step": 2}, max_concurrency=64)
    found = why(at, 201)
    assert (None, at.id, 201, "waiting") == (
        found["id"],
        found["group"],
        found["index"],
        found["state"],
    )
    assert found["summary"].endswith(
        "waits for its turn: at most 64 run at once (max_concurrency), and 36 begin before it; "
        "64 of 200 members have begun, and further ones begin when 4 places are free"
    )
    reason, group, member = found["reasons"][:3]
    assert ("member_not_begun", 36, 64) == (
        reason["code"],
        reason["facts"]["before"],
        reason["facts"]["begun"],
    )
    assert [f"joblane why {at.id}"] == reason["commands"]
    assert ("group_members", True) == (group["code"], "64 pending" in group["text"])
    assert ("jobs_ahead", True) == (member["code"], member["text"].startswith("index 1: "))


def test_a_member_that_has_begun_is_explained_as_its_job():
    at = Broadcast(1, array={"first": 1, "last": 9, "step": 2})
    at.claim(2)
    found = why(at, 5)
    assert (at.group().id_of(2), at.id, 5, "active") == (
        found["id"],
        found["group"],
        found["index"],
        found["state"],
    )
    _, same = ask(at, str(found["id"]))
    assert same == found


def test_a_member_of_a_group_that_starts_later_waits_for_its_group():
    at = Broadcast(1, array={"size": 9}, run_at=rfc3339(NOW_MS + 60_000))
    found = why(at, 8)
    assert ("waiting", ["member_not_begun", "run_at"]) == (
        found["state"],
        [each["code"] for each in found["reasons"]],
    )
    assert "; it begins within a minute after that" in found["reasons"][1]["text"]
    at.api("POST", f"/v1/jobs/{at.id}/cancel")
    found = why(at, 8)
    assert "cancelled" == found["state"]
    assert found["summary"].startswith("not begun: cancelled by machine ci")
    assert ["member_not_begun"] == [each["code"] for each in found["reasons"]]


def test_a_member_of_a_cancelled_group_is_not_begun_any_more():
    at = Broadcast(1, array={"size": 9}, max_concurrency=2)
    at.sweep("cancel")
    found = why(at, 8)
    assert ("cancelled", ["member_not_begun"]) == (
        found["state"],
        [each["code"] for each in found["reasons"]],
    )
    assert found["summary"].startswith("not begun: cancelled by machine ci")


def test_a_member_whose_row_has_expired_is_not_found():
    at = Broadcast(1, array={"size": 2})
    at.end(1)
    at.now += 9_999_999
    status, answer = ask(at, at.id, index="1")
    assert (404, "the job of index 1 has ended, and its row has expired") == (
        status,
        answer["detail"],
    )


@pytest.mark.parametrize(
    ("index", "detail"),
    [
        ("9", "9 is outside of the array, whose indices are 0 to 8"),
        ("-1", "must be between 0 and 999999999"),
        ("x", "must be a whole number between 0 and 999999999"),
    ],
)
def test_an_index_that_the_array_lacks_is_refused(index: str, detail: str):
    at = Broadcast(1, array={"size": 9}, max_concurrency=1)
    status, answer = ask(at, at.id, index=index)
    assert (400, [{"field": "index", "problem": detail}]) == (status, answer["errors"])


def test_an_index_is_for_groups_of_the_own_tenant():
    at = Broadcast(1, array={"size": 9}, max_concurrency=1)
    member = at.group().id_of(0)
    status, answer = ask(at, member, index="0")
    assert (400, f"is for members of groups, and job {member} is no group") == (
        status,
        answer["errors"][0]["problem"],
    )
    assert 404 == ask(at, at.id, "client-other", index="0")[0]


@pytest.mark.parametrize(
    ("head", "number", "text"),
    [
        (parent(100), 250, "is about to be placed; 100 of 300 members have begun"),
        (
            parent(100, placed=30),
            40,
            "since 2027-01-15T07:59:00Z (60 s ago); if that was interrupted, requeue completes it",
        ),
        (parent(20, 20, again=(3, 7), open=frozenset({1})), 20, "and 2 begin before it"),
        (
            parent(100, stop=Stop(State.SKIPPED, "3 members have failed, and max_failures is 2")),
            250,
            "not begun: 3 members have failed, and max_failures is 2",
        ),
    ],
)
def test_a_member_without_a_row_says_why(head: Head, number: int, text: str):
    assert text in first(head, number).text


def test_a_member_that_was_not_placed_for_a_day_is_about_to_fail():
    head = parent(100)
    assert head.group is not None
    old = replace(head, group=replace(head.group, begun_ms=NOW - 90_000_000))
    assert "was not placed within a day: it is about to fail" in first(old, 40).text


def test_what_its_group_waits_for_says_nothing_of_a_member_that_is_not_to_begin():
    stop = Stop(State.SKIPPED, "3 members have failed, and max_failures is 2")
    head = parent(100, 5, stop=stop, open=frozenset({1}))
    assert ["member_not_begun"] == [each.code for each in explain_member(Situation(head, NOW), 250)]


def test_what_was_skipped_because_of_failures_begins_with_a_retry():
    stop = Stop(State.SKIPPED, "3 members have failed, and max_failures is 2")
    head = replace(parent(100, 5, stop=stop), state=State.PARTIAL_FAILURE)
    reason = first(head, 250)
    assert reason.text.endswith("; it begins with a retry of those that failed")
    assert (f"joblane retry {JOB}",) == reason.commands


def test_a_member_that_is_retried_says_that_it_waits_for_room():
    at = Broadcast(1, array={"size": 9}, max_concurrency=2)
    at.end(0, State.FAILED)
    at.deliver()
    status, answer = at.api("POST", f"{at.path}/retry", {"indices": "0"})
    assert (200, 1, (0,)) == (status, answer["retried"], at.group().again)
    found = why(at, 0)
    assert ("failed", ["member_retry", "ended"]) == (
        found["state"],
        [each["code"] for each in found["reasons"]][:2],
    )


def test_a_member_that_was_retried_waits_for_room():
    head = replace(job(State.DEAD), member_of=MemberOf(JOB, 7))
    group = parent(300, 5, again=(3, 7, 9))
    reasons = explain(Situation(head, NOW, parent=group))
    assert ["member_retry", "ended"] == [each.code for each in reasons]
    assert "at most 5 run at once (max_concurrency), and 1 is retried before it" in reasons[0].text
    other = replace(head, member_of=MemberOf(JOB, 8))
    assert ["ended"] == codes(Situation(other, NOW, parent=group))


def test_a_group_says_why_its_members_wait():
    deadline = rfc3339(NOW + 60_000)
    member = job(State.PENDING, deadline=deadline)
    member = replace(member, in_array=InArray(4, 300), member_of=MemberOf(JOB, 4))
    head = replace(job(State.PROCESSING, deadline=deadline), group=parent(100).group)
    reasons = explain(Situation(head, NOW, waiting=waits(FULL, head=member)))
    assert ["group_members", "no_free_slot", "deadline"] == [each.code for each in reasons]
    assert reasons[1].text.startswith("index 4: all 4 slots of 1 agent")
