"""Edits of jobs that wait: what may change, who is refused, and which message starts the job."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from joblane.aws.job.jobs import Refused
from joblane.aws.job.table import JobTable
from joblane.aws.queue.lanes import LaneQueue
from joblane.formats.times import rfc3339
from joblane.job.disk import OUTPUT_MB
from joblane.job.edit import EDITABLE
from joblane.job.head import Head, make_head
from joblane.job.message import Message
from joblane.job.moves import AttemptFacts
from joblane.service.job.wake_up import wake_up_message
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import TIMELINE_LINES, Step
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.jobs import JOB, named, submission
from tests.support.requests import Api

NOW_MS = int(time.time() * 1000)
PATH = f"/v1/jobs/{JOB}"


def put(aws: Cloud, state: State | None = None, files_mb: int = 0, **fields: Any) -> Head:
    """Store a job in a state, without a message."""
    head = make_head(JOB, "acme", submission(**fields), NOW_MS - 60_000)
    head = replace(head, files_mb=files_mb)
    if state not in {None, head.state}:
        step = Step(State(state), NOW_MS - 50_000, 0, "as the test wants")
        head = replace(head, state=step.state, timeline=(*head.timeline, step))
    aws.jobs.put_new(head)
    return head


def edit(api: Api, **changes: object) -> tuple[int, dict[str, Any]]:
    status, body = api("PATCH", PATH, changes)
    return status, dict(body)


def sent(aws: Cloud, queue: str = "default", lane: Any = "default") -> list[Message]:
    """The messages of a lane that can be seen."""
    url = DESCRIPTOR.lane_url(queue, lane)
    received = LaneQueue(aws.clients.make("sqs"), url).receive(10, 0)
    return [message for each in received if (message := each.message) is not None]


def test_an_edit_moves_a_job_to_another_lane_of_another_queue(aws: Cloud, api: Api):
    put(aws)
    status, job = edit(api, queue="bulk", priority="high", reason="it is urgent")
    assert (200, "bulk", "high", "pending", 1) == (
        status,
        *(job[name] for name in ("queue", "priority", "state", "edit")),
    )
    expected = (
        "edited by machine ci: queue default -> bulk, priority default -> high; "
        "waits in lane high of queue bulk for an agent with a free slot"
    )
    assert expected == job["reason"] == job["timeline"][-1]["reason"]
    (message,) = sent(aws, "bulk", "high")
    assert named(JOB, "bulk/high", 1) == message
    head = aws.job(JOB)
    assert (None, 1) == (head.wake_at_ms, head.edit)
    assert 1 == aws.jobs.claim(message, "agent-1", NOW_MS).attempt


def test_the_message_of_an_edit_says_what_the_job_asks_of_the_disk_now(aws: Cloud, api: Api):
    put(aws, files_mb=70, resources={"disk_mb": 300})
    assert 200 == edit(api, resources={"disk_mb": 900})[0]
    assert 200 == edit(api, resources={"disk_mb": None})[0]
    asked = [(m.edit, m.disk_mb, m.work_mb) for m in sent(aws)]
    assert [(1, 70 + 900 + OUTPUT_MB, 900), (2, 70 + OUTPUT_MB, 0)] == sorted(asked)


def test_all_that_may_change(aws: Cloud, api: Api):
    put(
        aws,
        labels={"a": "1", "b": "2"},
        resources={"cpus": 2.0, "memory_mb": 256},
        deadline=rfc3339(NOW_MS + 10**9),
    )
    resources = {"memory_mb": 1024, "cpus": None, "pids": 9}
    changes = {"labels": {"b": None, "c": "3"}, "resources": resources}
    status, job = edit(api, **changes, deadline=None, timeout_s=30)
    assert 200 == status, job
    assert {"a": "1", "c": "3"} == job["labels"]
    assert (1024, None, 9) == tuple(job["resources"][n] for n in ("memory_mb", "cpus", "pids"))
    assert (None, 30) == (job["deadline"], job["timeout_s"])
    told = (
        "label b no longer 2, label c 3, cpus no longer 2, memory_mb 256 -> 1024, pids 9, "
        "timeout_s 600 -> 30"
    )
    assert told in job["timeline"][-1]["reason"]
    (message,) = sent(aws)
    assert (1024, 1) == (message.memory_mb, message.edit)
    head = aws.job(JOB)
    assert (None, None) == (head.wake_at_ms, head.deadline_ms)
    assert job["labels"] == head.spec.labels


def test_an_edit_that_changes_nothing_writes_nothing(aws: Cloud, api: Api):
    put(aws, priority="low")
    status, job = edit(api, priority="low")
    assert (200, 0, 1) == (status, job["edit"], len(job["timeline"]))
    assert [] == sent(aws, lane="low")


def test_an_edit_is_answered_again_when_its_answer_was_lost(aws: Cloud, api: Api):
    """Also if the job has been started meanwhile: the edit is what it was started with."""
    put(aws)
    first, _ = edit(api, priority="low")
    assert 1 == aws.jobs.claim(named(JOB, "default/low", 1), "agent-1", NOW_MS).epoch
    again, job = edit(api, priority="low")
    assert (200, 200, "active", 1) == (first, again, job["state"], job["edit"])
    assert 409 == edit(api, priority="high")[0]


def test_the_earlier_message_starts_nothing(aws: Cloud, api: Api):
    """Also if the agent of the old fleet receives it first, and before the new one is sent."""
    earlier = wake_up_message(put(aws))
    assert 200 == edit(api, queue="bulk")[0]
    assert 200 == edit(api, queue="default")[0]  # back in its first lane
    for stale in (earlier, named(JOB, "bulk/default", 1), named(JOB, "default/default", 1)):
        with pytest.raises(Refused):
            aws.jobs.claim(stale, "agent-1", NOW_MS)
    with pytest.raises(Refused):
        aws.jobs.note_wait(earlier, "waits for what it asked for then")
    assert "lane default of queue default" in aws.job(JOB).reason
    assert 1 == aws.jobs.claim(named(JOB, "default/default", 2), "agent-1", NOW_MS).epoch


@pytest.mark.parametrize("state", sorted(set(State) - EDITABLE))
def test_a_job_that_does_not_wait_is_refused(aws: Cloud, api: Api, state: State):
    put(aws, state)
    status, problem = edit(api, priority="low")
    assert 409 == status
    assert f"a job that is {state} cannot be edited" in problem["detail"]
    instead = "cancel" if state in {State.ACTIVE, State.PROCESSING} else "resubmit it with changes"
    assert instead in problem["detail"]
    assert 0 == aws.job(JOB).edit


@pytest.mark.parametrize("state", sorted(EDITABLE - {State.SCHEDULED}))
def test_each_state_stays_as_it_is_and_keeps_its_time(aws: Cloud, api: Api, state: State):
    deadline = rfc3339(NOW_MS + 10**9)
    head = put(aws, state, deadline=deadline)
    aws.jobs.rearm(head, NOW_MS)
    status, job = edit(api, timeout_s=30)
    assert (200, state) == (status, job["state"])
    assert deadline == rfc3339(aws.job(JOB).wake_at_ms or 0)
    assert ([] if state is State.WAITING else [1]) == [m.edit for m in sent(aws)]


def test_a_scheduled_job_keeps_its_start(aws: Cloud, api: Api):
    head = put(aws, run_at=rfc3339(NOW_MS + 10**8))
    status, job = edit(api, deadline=rfc3339(NOW_MS + 10**9), priority="high")
    assert (200, head.spec.run_at) == (status, job["next_at"])
    found = aws.job(JOB)
    assert (head.next_at_ms, head.next_at_ms) == (found.wake_at_ms, found.next_at_ms)
    assert [] == sent(aws, lane="high")


@pytest.mark.parametrize("state", sorted(EDITABLE))
def test_the_reason_has_the_latest_edit_and_what_the_job_waits_for(
    aws: Cloud, api: Api, state: State
):
    """However often it is edited: earlier edits are in the timeline."""
    run_at = rfc3339(NOW_MS + 10**8) if state is State.SCHEDULED else None
    head = put(aws, state, run_at=run_at)
    for priority in ("low", "high", "low"):
        status, job = edit(api, priority=priority)
        assert 200 == status
    waits = "waits in lane low of queue default for an agent with a free slot"
    still = waits if state is State.PENDING else head.reason
    assert f"edited by machine ci: priority high -> low; {still}" == job["reason"]


@pytest.mark.parametrize(
    ("changes", "field", "what"),
    [
        ({"queue": "nowhere"}, "queue", "is unknown; this tenant may use default, bulk"),
        ({"queue": None}, "queue", "must not be null; leave it out to keep what the job has"),
        ({"priority": "urgent"}, "priority", "should be 'high', 'default' or 'low'"),
        ({"command": ["false"]}, "command", "unknown field"),
        ({"deadline": "2020-01-01T00:00:00Z"}, "deadline", "must be in the future; it is "),
        ({"labels": {"a b": "c"}}, "labels.a b", "string should match pattern"),
        ({"resources": {"memory_mb": 0}}, "resources.memory_mb", "should be greater than or"),
        ({"timeout_s": 0}, "timeout_s", "should be greater than 0"),
    ],
)
def test_what_is_wrong_is_named(
    aws: Cloud, api: Api, changes: dict[str, Any], field: str, what: str
):
    put(aws)
    status, problem = edit(api, **changes)
    assert (400, [field]) == (status, [error["field"] for error in problem["errors"]])
    assert what in problem["errors"][0]["problem"]
    assert (0, []) == (aws.job(JOB).edit, sent(aws))


def test_what_does_not_fit_together_is_named(aws: Cloud, api: Api):
    put(aws, run_at=rfc3339(NOW_MS + 10**8))
    status, problem = edit(api, deadline=rfc3339(NOW_MS + 10**7))
    assert (400, "must be after run_at") == (status, problem["errors"][0]["problem"])


def test_nothing_to_change_is_an_error(aws: Cloud, api: Api):
    put(aws)
    assert 400 == edit(api, reason="no field")[0]
    assert 404 == api("PATCH", PATH[:-1] + "Z", {"priority": "low"})[0]


def racing(
    monkeypatch: pytest.MonkeyPatch, aws: Cloud, other: Callable[[], object]
) -> Callable[[], bool]:
    """Let `other` happen right before the write of the next edit. Returns whether it did."""
    written = type(aws.jobs).edit
    met: list[bool] = []

    def edit_late(store: Any, head: Head, after: Head, now_ms: int) -> None:
        if not met:
            met.append(True)
            other()
        written(store, head, after, now_ms)

    monkeypatch.setattr(type(aws.jobs), "edit", edit_late)
    return lambda: bool(met)


def test_an_edit_that_loses_to_a_claim_is_refused(
    aws: Cloud, api: Api, monkeypatch: pytest.MonkeyPatch
):
    head = put(aws)
    claim = racing(
        monkeypatch,
        aws,
        lambda: aws.jobs.claim(wake_up_message(head), "agent-1", NOW_MS),
    )
    status, problem = edit(api, priority="high")
    assert claim()
    assert (409, "it runs; cancel it") == (status, problem["detail"].split(": ")[1][:18])
    assert (0, State.ACTIVE) == (aws.job(JOB).edit, aws.job(JOB).state)


@pytest.mark.parametrize(
    ("other", "status"), [({"labels": {"a": "b"}}, 200), ({"priority": "low"}, 409)]
)
def test_of_two_edits_the_second_is_told_the_field(
    aws: Cloud, api: Api, monkeypatch: pytest.MonkeyPatch, other: dict[str, Any], status: int
):
    put(aws)
    met = racing(monkeypatch, aws, lambda: edit(api, **other))
    answered, body = edit(api, priority="high")
    assert met()
    assert status == answered, body
    if status == 409:
        assert ["priority"] == [error["field"] for error in body["errors"]]
        assert ("low", 1) == (aws.job(JOB).lane, aws.job(JOB).edit)
    else:
        assert (other["labels"], "high", 2) == (body["labels"], body["priority"], body["edit"])


def test_an_edit_of_a_version_that_is_gone_is_refused(aws: Cloud, api: Api):
    put(aws)
    tag = api.raw("GET", PATH)["headers"]["ETag"]
    assert 200 == edit(api, labels={"a": "b"})[0]
    answer = api.raw("PATCH", PATH, {"priority": "low"}, headers={"if-match": tag})
    assert 412 == answer["statusCode"]
    tag = api.raw("GET", PATH)["headers"]["ETag"]
    answer = api.raw("PATCH", PATH, {"priority": "low"}, headers={"if-match": tag})
    assert 200 == answer["statusCode"], answer


@pytest.mark.parametrize("lines", [1, TIMELINE_LINES])
def test_a_decision_from_before_an_edit_is_not_carried_out(aws: Cloud, api: Api, lines: int):
    """The deadline of a job is moved while the requeue function is about to expire it.

    Also if its timeline is as long then as it was, because it was folded.
    """
    from joblane.job.moves import plan
    from joblane.state.lifecycle import Event

    head = make_head(JOB, "acme", submission(deadline=rfc3339(NOW_MS + 10**6)), NOW_MS - 60_000)
    steps = (Step(State.PENDING, NOW_MS - 9_000 + n, 0, f"step {n}") for n in range(lines - 1))
    seen = replace(head, timeline=(*head.timeline, *steps))
    aws.jobs.put_new(seen)
    assert 200 == edit(api, deadline=rfc3339(NOW_MS + 10**9))[0]
    while 1 < lines != len(aws.job(JOB).timeline):
        assert 200 == edit(api, labels={"n": str(aws.job(JOB).edit)})[0]
    with pytest.raises(Refused):
        aws.jobs.move(seen, Event.EXPIRE, plan(seen, Event.EXPIRE, NOW_MS + 10**6, "over"))
    assert State.PENDING is aws.job(JOB).state


LONG: dict[str, Any] = {"env": {"LONG": "x" * 5_000}}
MANY = {f"label-{n}": "x" * 60 for n in range(12)}


@pytest.mark.parametrize(
    ("fields", "changes"),
    [
        ({}, {"labels": MANY}),
        ({"labels": MANY}, {"labels": None}),
        (LONG, {"labels": {"a": "b"}}),
        (LONG, {"labels": MANY}),
    ],
    ids=["leaves its row", "comes into its row", "stays in DATA", "grows in DATA"],
)
def test_the_submission_of_each_edit_is_an_item_of_its_own(
    aws: Cloud, api: Api, fields: dict[str, Any], changes: dict[str, Any]
):
    """Who read the head before an edit still finds what it names."""
    before = put(aws, **fields)
    image = JobTable.head_of_image
    rows = aws.clients.make("dynamodb")
    key = {"job_id": {"S": JOB}, "sk": {"S": "JOB"}}
    seen = rows.get_item(TableName=DESCRIPTOR.jobs_table, Key=key)["Item"]
    status, job = edit(api, **changes)
    assert 200 == status, job
    after = aws.job(JOB)
    assert (after.spec.labels, 1) == (job["labels"], after.edit)
    assert before.spec.env == after.spec.env
    from joblane.aws.table import decode

    assert before.spec == (image(aws.jobs, decode(seen)) or before).spec
    assert [after] == aws.jobs.heads([JOB])
    assert 204 == api.raw("DELETE", PATH)["statusCode"]
    left = rows.query(
        TableName=DESCRIPTOR.jobs_table,
        KeyConditionExpression="job_id = :j",
        ExpressionAttributeValues={":j": {"S": JOB}},
    )["Items"]
    soon = time.time() + 86_400 + 60
    assert all(int(item["expires_at"]["N"]) < soon for item in left), "it would stay for a year"


def test_a_blocked_job_goes_on_to_the_lane_of_its_edit(aws: Cloud, api: Api):
    head = aws.jobs.claim(wake_up_message(put(aws)), "agent-1", NOW_MS)
    step = Step(State.BLOCKED, NOW_MS + 1, 0, "exit code 75")
    aws.jobs.block(head, step, "app:x", AttemptFacts(Outcome.BLOCKED))
    status, job = edit(api, priority="low")
    assert (200, "blocked", "app:x") == (status, job["state"], job["condition"])
    released = aws.jobs.unblock(JOB, "app:x", Step(State.PENDING, NOW_MS + 3, 0, "released"))
    assert named(JOB, "default/low", 1) == wake_up_message(released)


def test_its_retry_is_not_earlier_than_its_backoff(aws: Cloud, api: Api):
    head = aws.jobs.claim(wake_up_message(put(aws)), "agent-1", NOW_MS)
    due = int(time.time() * 1000) + 600_000  # NOW_MS is of the start of the run
    facts = AttemptFacts(Outcome.FAILED, next_at_ms=due)
    aws.jobs.settle(head, Step(State.RETRY, NOW_MS + 1, 1, "exit code 1"), facts)
    status, job = edit(api, priority="high")
    assert (200, "retry", rfc3339(due)) == (status, job["state"], job["next_at"])
    assert [] == sent(aws, lane="high")  # it is delayed
    lengths = LaneQueue(aws.clients.make("sqs"), DESCRIPTOR.lane_url("default", "high")).lengths()
    assert 1 == lengths.delayed


def test_the_trail_has_what_was_asked(aws: Cloud, api: Api):
    put(aws, deadline=rfc3339(NOW_MS + 10**9))
    assert 200 == edit(api, deadline=None, labels={"a": None}, reason="no hurry")[0]
    (entry, *_) = api("GET", f"{PATH}/audit")[1]["entries"]
    assert ("edit", "no hurry", {"deadline": None, "labels": {"a": None}}) == (
        entry["action"],
        entry["reason"],
        entry["asked"],
    )
    assert json.dumps(entry["target"]) == json.dumps({"job_id": JOB})
