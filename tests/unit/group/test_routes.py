"""The routes of groups: members as they stand, cancel, retry and delete, and who is refused."""

from dataclasses import replace

import pytest

from functions.admin import handler as admin
from functions.requeue import handler as requeue
from joblane.aws.job.groups import with_group
from joblane.formats.times import rfc3339
from joblane.group.record import retry_members
from joblane.job.disk import OUTPUT_MB
from joblane.job.member import member_job
from joblane.job.moves import AttemptFacts
from joblane.service.group.progress import advance
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import DESCRIPTOR, configure
from tests.support.broadcast import NOW, NOW_MS, Broadcast
from tests.support.fleet import every_message
from tests.support.requests import Api

ABSENT = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def test_a_group_shows_its_members_in_order():
    at = Broadcast(3)
    at.end(1, State.DEAD)
    status, answer = at.api("GET", at.path)
    assert (200, "processing", 3, None) == (
        status,
        answer["group"]["state"],
        answer["group"]["members"],
        answer["next"],
    )
    first, second, _ = answer["entries"]
    assert ("web-000", 0, "pending", at.group().id_of(0), 0) == (
        first["agent"],
        first["index"],
        first["state"],
        first["id"],
        first["attempt"],
    )
    assert ("dead", 1, rfc3339(NOW_MS)) == (
        second["state"],
        second["attempt"],
        second["ended_at"],
    )


def test_members_have_their_results_and_the_group_says_whether_something_changed():
    at = Broadcast(4)
    at.end(0, result='{"changed":false,"kernel":"6.1"}')
    at.end(1, State.SKIPPED)
    _, answer = at.api("GET", at.path)
    assert answer["changed"] is False
    at.end(2, result='{"changed":true}')
    _, answer = at.api("GET", at.path)
    results = [entry["result"] for entry in answer["entries"]]
    assert [{"changed": False, "kernel": "6.1"}, None, {"changed": True}, None] == results
    assert answer["changed"] is True
    at.end(3)
    at.deliver()
    _, answer = at.api("GET", at.path, query={"limit": "1"})
    assert ("completed", "3 of 4 completed; 1 skipped", True) == (
        answer["group"]["state"],
        answer["group"]["reason"],
        answer["changed"],
    )


def test_pages_of_members_cross_those_of_the_roster():
    at = Broadcast(130)
    found, query = [], {"limit": "70"}
    while True:
        _, answer = at.api("GET", at.path, query=query)
        found += answer["entries"]
        if answer["next"] is None:
            break
        query["next"] = answer["next"]
    assert [(n, name) for n, name in enumerate(at.names)] == [
        (entry["index"], entry["agent"]) for entry in found
    ]


def test_a_member_that_was_not_claimed_in_time_is_shown_as_failed_at_once():
    at = Broadcast(2, reply_timeout_s=5)
    at.claim(0)
    at.now = NOW + 6
    states = [(entry["state"], entry["reason"]) for entry in at.entries()]
    assert ("active", "failed") == (states[0][0], states[1][0])
    assert "agent web-001 did not respond within 5 s" == states[1][1]


def test_members_that_have_not_begun_or_have_expired_are_shown_as_such():
    at = Broadcast(3, max_concurrency=1, max_failures=0)
    assert ["pending", "waiting", "waiting"] == at.states()
    at.end(0, State.FAILED)
    at.deliver()
    entries = at.entries()
    assert ["failed", "skipped", "skipped"] == [entry["state"] for entry in entries]
    assert [None, None] == [entry["id"] for entry in entries[1:]]
    assert "not begun: 1 member has failed, and max_failures is 0" == entries[1]["reason"]
    at.now = NOW + 2_000_000
    head = at.head
    at.store.write_group(head, replace(head, group=replace(at.group(), version=9)))
    at.aws.jobs.delete(at.group().id_of(0))
    at.now = NOW
    (first, *_) = at.entries()
    assert (None, "it has ended, and its row has expired") == (first["state"], first["reason"])


def test_what_is_no_group_of_the_caller_is_not_found():
    at = Broadcast(1)
    job = at.api("POST", "/v1/jobs", {"command": ["a"]})[1]["id"]
    other = at.api_by(at.aws.clients, "client-other")
    for method, suffix in (("GET", ""), ("POST", "/cancel"), ("POST", "/retry")):
        for api, group in ((other, at.id), (at.api, ABSENT), (at.api, "x")):
            status, answer = api(method, f"/v1/groups/{group}{suffix}")
            assert (404, "there is no such group") == (status, answer["detail"])
        status, answer = at.api(method, f"/v1/groups/{job}{suffix}")
        assert (404, f"job {job} is no group; see /v1/jobs") == (status, answer["detail"])
    status, answer = at.api("GET", at.path, query={"next": "zzzz"})
    assert 400 == status


# --- cancel


def test_a_group_is_cancelled_with_its_members():
    at = Broadcast(3)
    at.claim(2)
    every_message(at.aws, *at.names)
    (answer,) = at.sweep("cancel")
    assert {"examined": 3, "cancelled": 3, "refused": [], "next": None} == answer
    assert ["cancelled", "cancelled", "active"] == at.states()
    ((agent, command),) = every_message(at.aws, *at.names)
    assert ("web-002", "cancel") == (agent, command["command"])
    at.now += 1
    (again,) = at.sweep("cancel")
    assert "already being stopped" in again["refused"][0]["detail"]
    head = at.member(2)
    step = Step(State.CANCELLED, NOW_MS, 1, "stopped")
    at.aws.jobs.settle(head, step, AttemptFacts(Outcome.CANCELLED, expires_at=int(NOW) + 9_999))
    at.deliver()
    assert State.FAILED is at.head.state
    assert at.head.reason.startswith("0 of 3 completed; 3 cancelled: cancelled by machine")
    status, answer = at.api("POST", f"{at.path}/cancel")
    refused = (
        "a group that is failed cannot be cancelled, only one that is processing; it has ended"
    )
    assert (409, refused) == (status, answer["detail"])


def test_a_large_group_is_cancelled_page_by_page():
    at = Broadcast(250)
    answers = at.sweep("cancel")
    assert [100, 100, 50] == [answer["cancelled"] for answer in answers]
    assert State.FAILED is at.head.state, "members that did not run need no event"


def test_what_has_not_begun_never_begins_after_a_cancel():
    at = Broadcast(5, max_concurrency=2)
    at.claim(0)
    at.sweep("cancel")
    assert ["active", "cancelled", "cancelled", "cancelled", "cancelled"] == at.states()
    assert 2 == at.group().begun


@pytest.mark.parametrize("first", ["cancel", "place"])
def test_a_member_that_is_placed_while_its_group_is_cancelled_never_starts(first: str):
    """The group has begun it, and who is to place it read the group before it was stopped."""
    at = Broadcast(3)
    at.aws.jobs.delete(at.member(1).job_id)
    head = at.head
    at.store.write_group(head, with_group(head, at.group().next(placed=1)))
    late = member_job(head, 1, "web-001", NOW_MS, inline=True)
    if first == "place":
        assert at.store.put_member(late)
    at.sweep("cancel")
    assert not at.store.put_member(late)
    assert (State.CANCELLED, State.FAILED) == (at.member(1).state, at.head.state)


# --- retry


def test_failed_members_are_retried_and_the_group_is_open_again():
    at = Broadcast(3)
    for index, state in enumerate((State.DEAD, State.COMPLETED, State.FAILED)):
        at.end(index, state)
    at.deliver()
    assert State.PARTIAL_FAILURE is at.head.state
    every_message(at.aws, *at.names)
    (answer,) = at.sweep("retry")
    assert {"examined": 3, "retried": 2, "refused": [], "next": None} == answer
    assert ["pending", "completed", "pending"] == at.states()
    assert "processing" == at.api("GET", at.path)[1]["group"]["state"]
    assert ["web-000", "web-002"] == [agent for agent, _ in every_message(at.aws, *at.names)]
    assert (NOW_MS + 60_000, None) == (at.member(0).reply_by_ms, at.member(0).wake_at_ms)


def test_a_group_without_failures_has_nothing_to_retry():
    at = Broadcast(1)
    at.end(0)
    at.deliver()
    status, answer = at.api("POST", f"{at.path}/retry")
    refused = "a group that is completed has no members that failed; resubmit it instead"
    assert (409, refused) == (status, answer["detail"])


def test_a_member_that_cannot_be_retried_is_left_out_with_the_reason():
    at = Broadcast(2, restartable=False)
    at.end(0, State.FAILED)
    (answer,) = at.sweep("retry")
    assert 0 == answer["retried"]
    (refused,) = answer["refused"]
    assert at.member(0).job_id == refused["id"]
    assert "not restartable" in refused["detail"]


def test_one_member_is_retried_and_cancelled_as_any_job():
    at = Broadcast(2)
    at.end(0, State.DEAD)
    at.end(1)
    at.deliver()
    member = f"/v1/jobs/{at.member(0).job_id}"
    status, answer = at.api("POST", f"{member}/retry")
    assert (202, "pending") == (status, answer["state"])
    assert "processing" == at.api("GET", at.path)[1]["group"]["state"]
    status, answer = at.api("POST", f"{member}/cancel")
    assert (202, "cancelled") == (status, answer["state"])
    at.deliver()
    assert "1 of 2 completed; 1 cancelled" == at.head.reason


def test_a_retry_of_a_member_that_has_changed_is_refused_by_its_version():
    at = Broadcast(1)
    at.end(0, State.FAILED)
    member = f"/v1/jobs/{at.member(0).job_id}"
    tag = at.api.raw("GET", member)["headers"]["ETag"]
    assert 202 == at.api("POST", f"{member}/retry", headers={"if-match": tag})[0]
    assert 412 == at.api("POST", f"{member}/retry", headers={"if-match": tag})[0]


# --- what is refused, and where to go


@pytest.mark.parametrize("verb", ["cancel", "retry"])
def test_a_group_is_not_changed_as_a_job(verb: str):
    at = Broadcast(1)
    status, answer = at.api("POST", f"/v1/jobs/{at.id}/{verb}")
    assert 409 == status
    assert f"/v1/groups/{at.id}" in answer["detail"]


def test_a_group_has_no_output_of_its_own():
    at = Broadcast(1)
    status, answer = at.api("GET", f"/v1/jobs/{at.id}/logs")
    assert (409, True) == (status, f"GET /v1/groups/{at.id}" in answer["detail"])


@pytest.mark.parametrize(
    ("method", "suffix"), [("DELETE", ""), ("POST", "/hide"), ("POST", "/resubmit")]
)
def test_a_member_is_not_deleted_hidden_or_resubmitted_by_itself(method: str, suffix: str):
    at = Broadcast(1)
    at.end(0)
    status, answer = at.api(method, f"/v1/jobs/{at.member(0).job_id}{suffix}")
    assert (409, True) == (status, at.id in answer["detail"])


@pytest.mark.parametrize("verb", ["replay", "dismiss"])
def test_a_dead_member_is_retried_and_not_replayed(verb: str):
    at = Broadcast(1)
    at.end(0, State.DEAD)
    operator = Api(admin.build(configure(admin.Settings), at.aws.clients, lambda: NOW))
    assert [] == operator("GET", "/v1/dlq")[1]["entries"]
    status, answer = operator("POST", f"/v1/dlq/{at.member(0).job_id}/{verb}")
    assert (409, True) == (status, "retry it" in answer["detail"])


def test_a_group_that_has_ended_is_hidden_as_a_job():
    at = Broadcast(1)
    at.end(0)
    at.deliver()
    assert 200 == at.api("POST", f"/v1/jobs/{at.id}/hide")[0]
    assert [] == at.api("GET", "/v1/jobs")[1]["entries"]


def test_what_is_done_with_a_group_is_in_its_audit_trail():
    at = Broadcast(1)
    at.api("POST", f"{at.path}/cancel", {"reason": "wrong hosts"})
    operator = Api(admin.build(configure(admin.Settings), at.aws.clients, lambda: NOW))
    entry = operator("GET", "/v1/audit")[1]["entries"][0]
    assert ("cancel-group", "wrong hosts", at.head.trace_id, {"group": at.id}) == (
        entry["action"],
        entry["reason"],
        entry["trace_id"],
        entry["target"],
    )


# --- delete


def test_requeue_goes_on_with_a_retry_that_died_before_it_let_members_go():
    at = Broadcast(2, max_concurrency=1)
    at.end(0, State.FAILED)
    at.deliver()
    at.end(1)
    at.deliver()
    head = at.head
    group = retry_members(at.group(), [0], rolling=True)
    at.store.write_group(head, advance(head, group, NOW_MS, DESCRIPTOR.retention, "retried"))
    assert (State.FAILED, State.PROCESSING) == (at.member(0).state, at.head.state)
    requeue.build(configure(requeue.Settings), at.aws.clients, lambda: NOW + 60).run(lambda: 60.0)
    assert (State.PENDING, ()) == (at.member(0).state, at.group().again)


def test_members_ask_for_the_disk_that_their_group_was_admitted_with():
    group = replace(Broadcast(1).head, files_mb=7, bundle_mb=5)
    member = member_job(group, 0, "web-000", NOW_MS, inline=False)
    assert group.disk_mb == member.disk_mb == 7 + 5 + OUTPUT_MB
