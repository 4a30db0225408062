"""Arrays: their members are placed in lanes, run on any agents, and end as their group says."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from functions.requeue.handler import Settings as RequeueSettings
from functions.requeue.handler import build as build_requeue
from functions.sequel.handler import Settings as SequelSettings
from functions.sequel.handler import build as build_sequel
from joblane.aws.clients import Clients
from joblane.aws.job.groups import with_group
from joblane.aws.queue.lanes import LaneQueue
from joblane.deployment.names import Lane
from joblane.formats.times import rfc3339
from joblane.group.record import PAGE
from joblane.job.message import Message
from joblane.state.lifecycle import State
from joblane.testing.inline import Inline
from tests.support.aws import DESCRIPTOR, configure, payload_store
from tests.support.broadcast import NOW, NOW_MS, Broadcast


def sent(at: Broadcast, lane: Lane = "default") -> list[str]:
    """Jobs whose messages are in a lane, once for each; takes them out."""
    queue = LaneQueue(at.aws.clients.make("sqs"), DESCRIPTOR.lane_url("default", lane))
    found: list[str] = []
    while received := queue.receive(10, 0):
        found += [Message.decode(each.body).job_id for each in received]
        queue.delete_batch([each.receipt for each in received])
    return sorted(found)


def at_once(at: Broadcast) -> list[str]:
    """Jobs of all messages that are in the lane, once for each message."""
    entries = at.memory.queues.entries[DESCRIPTOR.lane_url("default", "default")].values()
    return sorted(Message.decode(entry.body).job_id for entry in entries)


def ids(at: Broadcast, *indices: int) -> list[str]:
    return [at.group().id_of(index) for index in indices]


def look(at: Broadcast, after_s: float) -> None:
    """Requeue runs so long after the submission."""
    at.now = NOW + after_s
    build_requeue(configure(RequeueSettings), at.aws.clients, lambda: at.now).run(lambda: 60.0)


def show(at: Broadcast, **query: str) -> dict[str, Any]:
    status, answer = at.api("GET", at.path, query=query)
    assert 200 == status, answer
    return dict(answer)


def test_members_of_an_array_are_jobs_of_a_lane():
    at = Broadcast(1, array={"size": 23}, priority="low")
    assert sorted(ids(at, *range(23))) == sent(at, "low")
    member = at.member(7)
    assert (State.PENDING, None, None) == (member.state, member.assigned, member.reply_by_ms)
    assert "waits in lane low of queue default for an agent with a free slot" == member.reason
    _, job = at.api("GET", f"/v1/jobs/{member.job_id}")
    assert (at.id, 7, None) == (job["group"], job["index"], job["array"])
    answer = show(at, limit="2")
    assert ("array", {"pending": 23}, "", [0, 1]) == (
        answer["kind"],
        answer["counts"],
        answer["failed_indices"],
        [entry["index"] for entry in answer["entries"]],
    )


def test_an_array_ends_with_its_members_and_says_which_failed():
    at = Broadcast(1, array={"first": 1, "last": 19, "step": 2})
    for index in range(10):
        at.end(index, State.FAILED if index in {2, 3, 7} else State.COMPLETED)
    at.deliver()
    answer = show(at)
    assert ("partial_failure", "7 of 10 completed; 3 failed") == (
        answer["group"]["state"],
        answer["group"]["reason"],
    )
    assert ({"completed": 7, "failed": 3}, "5,7,15") == (
        answer["counts"],
        answer["failed_indices"],
    )
    assert {"completed": "1,3,9,11,13,17,19", "failed": "5,7,15"} == answer["indices"]
    entries = show(at, state="failed")["entries"]
    assert [5, 7, 15] == [entry["index"] for entry in entries]
    assert "web-000" == entries[0]["agent"]


@pytest.mark.parametrize(
    ("tolerate", "state", "reason"),
    [
        (2, "completed", "8 of 10 completed; 2 failed, and 2 may fail"),
        ("20 %", "completed", "8 of 10 completed; 2 failed, and 2 may fail"),
        (1, "partial_failure", "8 of 10 completed; 2 failed, and 1 may fail"),
    ],
)
def test_a_group_that_tolerates_failures_is_completed(tolerate: int | str, state: str, reason: str):
    at = Broadcast(1, array={"size": 10}, tolerate=tolerate)
    for index in range(10):
        at.end(index, State.FAILED if index in {2, 3} else State.COMPLETED)
    at.deliver()
    group = show(at)["group"]
    assert (state, reason) == (group["state"], group["reason"])


def test_each_member_has_its_value_and_the_group_has_all():
    values = [{"n": n} for n in range(250)]
    at = Broadcast(1, array={"values": values})
    _, job = at.api("GET", f"/v1/jobs/{at.id}")
    assert (values, False) == (job["array"]["values"], job["abridged"])
    _, listed = at.api("GET", "/v1/jobs")
    assert ({"size": 250}, True) == (
        {name: value for name, value in listed["entries"][0]["array"].items() if value is not None},
        listed["entries"][0]["abridged"],
    )
    _, member = at.api("GET", f"/v1/jobs/{at.group().id_of(137)}")
    assert ({"n": 137}, 137) == (member["value"], member["index"])
    whole = payload_store(at.aws).read_whole(at.member(249))
    assert '{"n":249}' == whole.value


def test_values_of_a_type_are_the_params_of_its_jobs():
    at = Broadcast(1, type="sleep", array={"values": [{"ms": 1}, {"ms": 20, "fail_first": 1}]})
    whole = payload_store(at.aws).read_whole(at.member(1))
    assert {"ms": 20, "fail_first": 1} == whole.spec.params
    assert ("0.020", "1") == whole.spec.command[-2:]


def test_values_that_are_no_params_are_refused_by_index():
    at = Broadcast(1)
    values = [{"ms": 1}, {"ms": "x"}, 7]
    status, answer = at.api("POST", "/v1/jobs", {"type": "sleep", "array": {"values": values}})
    assert 400 == status
    assert ["array.values.1.ms", "array.values.2"] == [each["field"] for each in answer["errors"]]


def test_an_array_with_a_later_start_begins_when_it_is_due():
    at = Broadcast(1, array={"values": ["a", "b"]}, run_at=rfc3339(NOW_MS + 60_000))
    assert (State.SCHEDULED, None) == (at.head.state, at.head.group)
    assert [] == list(at.memory.queues.bodies()), "no message, delayed ones included"
    look(at, 61)
    assert (State.PROCESSING, ids(at, 0, 1)) == (at.head.state, sent(at))
    assert '"b"' == payload_store(at.aws).read_whole(at.member(1)).value


def test_a_large_array_runs_a_thousand_at_once():
    at = Broadcast(1, array={"size": 1001})
    group = at.group()
    assert (1000, 1000, 1000) == (at.head.spec.max_concurrency, group.begun, len(group.open))
    assert {"pending": 1000, "waiting": 1} == show(at)["counts"]


def test_a_member_that_waits_is_sent_again_at_every_doubling_of_its_age():
    at = Broadcast(1, array={"size": 3})
    look(at, 0.5)
    assert ids(at, 0, 1, 2) == sent(at)
    again: list[int] = []
    for minute in range(1, 90):
        look(at, minute * 60)
        found = sent(at)
        assert found in ([], ids(at, 0, 1, 2))
        again += [minute] if found else []
    assert 5 == len(again), again
    assert [5, 10, 20, 40, 80] == [round(each / 5) * 5 for each in again]


def test_only_members_that_nobody_claimed_are_sent_again():
    at = Broadcast(1, array={"size": 3})
    sent(at)
    at.claim(1)
    at.end(2)
    look(at, 400)
    assert ids(at, 0) == sent(at)


def test_a_member_whose_row_is_gone_never_runs_again():
    """Requeue stands still for longer than rows of ended jobs live."""
    at = Broadcast(1, array={"size": 3}, max_concurrency=3)
    sent(at)
    look(at, 1)
    at.end(0)
    at.end(1)
    for index in (0, 1):
        at.memory.tables.rows[DESCRIPTOR.jobs_table].pop((at.group().id_of(index), "JOB"))
    look(at, 9 * 86_400)
    assert set(ids(at, 2)) == set(sent(at)), "by the watch, and by the pass that renews"
    at.end(2)
    at.deliver()
    assert (State.COMPLETED, []) == (at.head.state, sent(at))


@pytest.mark.parametrize(("hours", "states"), [(19.9, ["pending"] * 3), (20.1, ["failed"] * 3)])
def test_what_was_never_placed_is_put_for_a_day_and_then_as_failed(hours: float, states: list[str]):
    """Requeue stood still, so nobody knows whether a row without a member has been and expired."""
    at = Broadcast(1, array={"size": 3})
    sent(at)
    for index in range(3):  # the function died once it had put the group
        at.memory.tables.rows[DESCRIPTOR.jobs_table].pop((at.group().id_of(index), "JOB"))
    head = at.head
    at.store.write_group(head, replace(head, group=replace(at.group(), placed=0)))
    look(at, hours * 3600)
    assert states == at.states()
    if states[0] == "pending":
        assert ids(at, 0, 1, 2) == sent(at)
        return
    assert [] == sent(at)
    assert "it was not placed within a day after it was begun; retry it" == at.member(1).reason
    at.deliver()
    assert State.FAILED is at.head.state
    at.sweep("retry")
    assert ids(at, 0, 1, 2) == sent(at)


@pytest.mark.parametrize(("most", "whole"), [(None, 350), (320, 320), (60, 60)])
def test_what_a_request_left_is_placed_as_the_groups_row_comes(
    monkeypatch: pytest.MonkeyPatch, most: int | None, whole: int
):
    monkeypatch.setattr("joblane.compose.sequel.GO_ON_S", 0.0)  # a page each time
    limit: dict[str, Any] = {} if most is None else {"max_concurrency": most}
    at = Broadcast(1, placed=False, array={"size": 350}, **limit)
    first = min(100, whole)
    assert (first, whole > 100) == (at.group().placed, at.group().goes_on)
    times = 0
    while at.group().goes_on:
        at.deliver()
        times += 1
    assert (whole, whole) == (at.group().begun, at.group().placed)
    assert sorted(ids(at, *range(whole))) == at_once(at), "one message each"
    sent(at)
    assert -(-whole // PAGE) - 1 == times
    at.deliver()
    assert [] == sent(at)


def test_what_a_request_left_is_placed_as_members_end_if_sequel_is_killed():
    at = Broadcast(1, placed=False, array={"size": 350})
    at.stream.take()  # nobody went on
    group = at.group()
    at.store.write_group(at.head, with_group(at.head, group.next(goes_on=False)))
    at.end(7)
    at.deliver()
    assert 100 == at.group().placed, "somebody may be placing the others"
    at.now += 11
    at.end(8)
    at.deliver()
    assert (350, 350) == (at.group().begun, at.group().placed)
    assert sorted(ids(at, *range(350))) == sent(at)


def test_one_goes_on_with_a_group_whose_row_comes_to_two():
    at = Broadcast(1, placed=False, array={"size": 350})
    records, settings, session = at.stream.take(), configure(SequelSettings), at.aws.session()
    others = [build_sequel(settings, at.aws.clients, lambda: NOW, Inline)]
    seen: list[tuple[int, int]] = []

    def come_again(**_: object) -> None:
        """The same records come to another one, when the first begins to put members."""
        while others:
            others.pop().handle(records)
            seen.append((at.group().begun, at.group().placed))

    session.get_component("event_emitter").register("before-call.dynamodb.PutItem", come_again)
    build_sequel(settings, Clients(session), lambda: NOW, Inline).handle(records)
    assert [(200, 100)] == seen, "the other one has placed nothing"
    assert sorted(ids(at, *range(350))) == at_once(at), "one message each"


def test_a_group_that_is_cancelled_before_sequel_sees_it_places_no_more():
    at = Broadcast(1, placed=False, array={"size": 350})
    at.sweep("cancel")
    at.deliver()
    assert State.FAILED is at.head.state
    assert 100 == at.group().begun


def test_arrays_of_two_tenants_are_served_in_turn_and_a_later_urgent_job_is_before_both():
    """SQS takes the message group of each tenant in turn, and agents the lane `high` first."""
    at = Broadcast(1, array={"size": 30}, max_concurrency=20)
    other = at.api_by(at.aws.clients, "client-other")
    assert 202 == other("POST", "/v1/jobs", {"command": ["a"], "array": {"size": 20}})[0]
    lane = DESCRIPTOR.lane_url("default", "default")
    groups = Counter(entry.group for entry in at.memory.queues.entries[lane].values())
    assert {"acme": 20, "other": 20} == groups, "what has not begun has no message: no agent for it"
    _, urgent = at.api("POST", "/v1/jobs", {"command": ["a"], "priority": "high"})
    assert [urgent["id"]] == sent(at, "high")
