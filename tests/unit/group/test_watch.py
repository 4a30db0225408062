"""Requeue and targets: scheduled jobs get their agents, and groups are watched until they end."""

from collections import Counter
from dataclasses import replace

import pytest

from functions.requeue.handler import Settings as RequeueSettings
from functions.requeue.handler import build as build_requeue
from functions.submission.handler import Settings, build
from joblane.aws.clients import Clients
from joblane.aws.job.groups import GroupStore, with_group
from joblane.formats.times import rfc3339
from joblane.group.record import PAGE, Group, begin_page, cancel_group
from joblane.job.head import Head
from joblane.job.moves import AttemptFacts
from joblane.service.job.requeue import Requeue
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import DESCRIPTOR, Cloud, configure
from tests.support.fleet import beat, every_message, inbox
from tests.support.groups import place_left
from tests.support.jobs import named
from tests.support.memory import Memory
from tests.support.meter import Meter
from tests.support.requests import Api

NOW = 1_800_000_000.0
NOW_MS = int(NOW * 1000)


@pytest.fixture(name="aws")
def _aws() -> Cloud:
    return Memory().cloud()


def requeue(aws: Cloud, at: float, clients: Clients | None = None) -> Requeue:
    return build_requeue(configure(RequeueSettings), clients or aws.clients, lambda: at)


def run(aws: Cloud, at: float, clients: Clients | None = None) -> Counter[str]:
    done = requeue(aws, at, clients).run(lambda: 60.0)
    del done["Shared"]  # limits, as agents come
    return done


def submit(aws: Cloud, at: float = NOW, **fields: object) -> str:
    api = Api(build(configure(Settings), aws.clients, lambda: at))
    status, job = api("POST", "/v1/jobs", {"command": ["a"], **fields})
    assert 202 == status, job
    return str(job["id"])


def submit_placed(aws: Cloud) -> str:
    """Submit a broadcast to all, and place what the request left."""
    job_id = submit(aws, target="_all")
    place_left(aws.clients, job_id, NOW)
    return job_id


def group_of(aws: Cloud, job_id: str) -> Group:
    group = aws.job(job_id).group
    assert group is not None
    return group


def members(aws: Cloud, job_id: str) -> list[Head]:
    group = group_of(aws, job_id)
    return aws.jobs.heads([group.id_of(index) for index in range(group.members)])


def end(aws: Cloud, head: Head, at_ms: int) -> None:
    step = Step(State.COMPLETED, at_ms, head.attempt, "exit code 0")
    aws.jobs.settle(head, step, AttemptFacts(Outcome.SUCCEEDED, expires_at=at_ms // 1000 + 9_999))


# --- scheduled jobs


def test_the_agent_of_a_scheduled_job_is_looked_for_when_it_is_due(aws: Cloud):
    job_id = submit(aws, target="host:web-1", run_at=rfc3339(NOW_MS + 30_000))
    assert {} == run(aws, NOW + 29)
    beat(aws, "web-1", NOW_MS + 30_000)
    assert {"Woken": 1} == run(aws, NOW + 31)
    head = aws.job(job_id)
    assert (State.PENDING, "web-1", NOW_MS + 91_000, NOW_MS + 91_000) == (
        head.state,
        head.assigned,
        head.reply_by_ms,
        head.wake_at_ms,
    )
    assert "its run_at has come; waits for a free slot of agent web-1" in head.reason
    assert [("web-1", job_id)] == [(a, body["job_id"]) for a, body in every_message(aws, "web-1")]
    assert "web-1" == aws.jobs.claim(named(job_id), "web-1", NOW_MS + 32_000).agent


def test_a_scheduled_job_whose_agent_is_gone_is_skipped(aws: Cloud):
    job_id = submit(aws, target="host:web-1", run_at=rfc3339(NOW_MS + 30_000))
    assert {"Skipped": 1} == run(aws, NOW + 31)
    head = aws.job(job_id)
    assert (State.SKIPPED, "its run_at has come; no agent web-1 serves queue default") == (
        head.state,
        head.reason,
    )
    assert (None, True) == (head.wake_at_ms, head.expires_at is not None)


def test_members_of_a_scheduled_broadcast_are_chosen_when_it_is_due(aws: Cloud):
    beat(aws, "early", NOW_MS)
    job_id = submit(aws, target="_all", run_at=rfc3339(NOW_MS + 400_000))
    for name in ("late-1", "late-2"):
        beat(aws, name, NOW_MS + 400_000)
    assert {"Woken": 1} == run(aws, NOW + 401)
    head = aws.job(job_id)
    assert (State.PROCESSING, NOW_MS + 461_000) == (head.state, head.wake_at_ms)
    assert "its run_at has come; waits for its 2 members" == head.reason
    assert ["late-1", "late-2"] == [member.assigned for member in members(aws, job_id)]
    assert 2 == len(every_message(aws, "early", "late-1", "late-2"))


def test_a_scheduled_broadcast_that_matches_nobody_is_skipped_and_of_too_many_fails(
    aws: Cloud, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("joblane.service.target.targets.MOST_MEMBERS", 1)
    job_id = submit(aws, target="_all", run_at=rfc3339(NOW_MS + 1_000))
    assert {"Skipped": 1} == run(aws, NOW + 2)
    head = aws.job(job_id)
    assert (State.SKIPPED, 0) == (head.state, group_of(aws, job_id).members)
    assert "no agent matches _all: no agent serves queue default" in head.reason
    job_id = submit(aws, target="_all", run_at=rfc3339(NOW_MS + 1_000))
    for name in ("a", "b"):
        beat(aws, name, NOW_MS)
    assert {"Skipped": 1} == run(aws, NOW + 2)
    head = aws.job(job_id)
    assert (State.FAILED, None) == (head.state, head.group)
    assert "its target matches 2 agents; a group has at most 1" in head.reason
    api = Api(build(configure(Settings), aws.clients, lambda: NOW))
    status, problem = api("POST", f"/v1/jobs/{job_id}/retry")
    assert (409, True) == (status, "submit it again" in problem["detail"])


# --- jobs for one agent


def test_a_silent_agent_fails_its_job_within_a_minute_of_the_timeout(aws: Cloud):
    beat(aws, "web-1", NOW_MS)
    job_id = submit(aws, target="host:web-1", reply_timeout_s=5)
    assert {} == run(aws, NOW + 4)
    assert {"Expired": 1} == run(aws, NOW + 5)
    head = aws.job(job_id)
    assert State.FAILED is head.state
    assert "agent web-1 did not respond within 5 s" in head.reason


# --- groups


def test_members_not_claimed_in_time_fail_and_those_that_run_go_on(aws: Cloud):
    for number in range(3):
        beat(aws, f"web-{number}", NOW_MS)
    job_id = submit(aws, target="_all")
    first, second, third = members(aws, job_id)
    running = aws.jobs.claim(named(first.job_id), "web-0", NOW_MS + 1_000)
    end(aws, aws.jobs.claim(named(second.job_id), "web-1", NOW_MS + 1_000), NOW_MS + 2_000)
    for number in range(3):
        beat(aws, f"web-{number}", NOW_MS + 60_000)
    assert {"Rearmed": 1} == run(aws, NOW + 60)
    first, second, third = members(aws, job_id)
    assert (State.ACTIVE, State.COMPLETED, State.FAILED) == (
        first.state,
        second.state,
        third.state,
    )
    assert "agent web-2 did not respond within 60 s: it is alive, and" in third.reason
    assert NOW_MS + 360_000 == aws.job(job_id).wake_at_ms
    assert {} == run(aws, NOW + 300)
    # The agent of the first one is lost.
    assert {"Rearmed": 1} == run(aws, NOW + 361)
    lost = aws.job(running.job_id)
    assert (State.FAILED, Outcome.LOST) == (lost.state, lost.outcome)
    assert "agent web-0 was lost while it ran the job, and only it may" in lost.reason


def test_a_deadline_expires_members_that_wait_and_stops_those_that_run(aws: Cloud):
    for number in range(2):
        beat(aws, f"web-{number}", NOW_MS)
    job_id = submit(aws, target="_all", deadline=rfc3339(NOW_MS + 20_000), reply_timeout_s=600)
    assert NOW_MS + 20_000 == aws.job(job_id).wake_at_ms
    first, second = members(aws, job_id)
    aws.jobs.claim(named(first.job_id), "web-0", NOW_MS + 1_000)
    assert {"Rearmed": 1} == run(aws, NOW + 21)
    first, second = members(aws, job_id)
    assert (State.ACTIVE, State.EXPIRED) == (first.state, second.state)
    assert "its deadline 2027-01-15T08:00:20.000Z passed" == first.cancel_requested
    commands = [body for _, body in every_message(aws, "web-0") if "command" in body]
    assert [first.job_id] == [body["job_id"] for body in commands]


def test_members_placed_while_their_group_was_cancelled_are_cancelled(aws: Cloud):
    for number in range(2):
        beat(aws, f"web-{number}", NOW_MS)
    job_id = submit(aws, target="_all")
    store = GroupStore(aws.clients.make("dynamodb"), DESCRIPTOR.jobs_table)
    head = aws.job(job_id)
    group = replace(group_of(aws, job_id), begun=1, placed=1)
    store.write_group(head, with_group(head, group.next()))
    head = aws.job(job_id)
    group = cancel_group(group_of(aws, job_id), "cancelled by ann")
    store.write_group(head, with_group(head, group))
    assert {"Rearmed": 1} == run(aws, NOW + 60)
    first, second = members(aws, job_id)
    assert (State.CANCELLED, "cancelled by ann") == (first.state, first.reason)
    assert State.PENDING is second.state, "it had not begun; nobody looks at it"


def test_a_member_whose_row_has_expired_is_not_put_again(aws: Cloud):
    for number in range(2):
        beat(aws, f"web-{number}", NOW_MS)
    job_id = submit(aws, target="_all")
    first, second = members(aws, job_id)
    aws.jobs.claim(named(second.job_id), "web-1", NOW_MS)
    aws.jobs.delete(first.job_id)
    assert {"Rearmed": 1} == run(aws, NOW + 61)
    assert [second.job_id] == [member.job_id for member in members(aws, job_id)]


def test_an_expansion_that_was_interrupted_goes_on(aws: Cloud):
    names = [f"web-{number:03d}" for number in range(2 * PAGE + 5)]
    for name in names:
        aws.agents.beat(beat(aws, name, NOW_MS))
    job_id = submit_placed(aws)
    head = aws.job(job_id)
    store = GroupStore(aws.clients.make("dynamodb"), DESCRIPTOR.jobs_table)
    group = group_of(aws, job_id)
    # As after a crash: a page was begun, and some of its members were put.
    for index in range(PAGE + 3, len(names)):
        aws.jobs.delete(group.id_of(index))
    for name in names:
        aws.clients.make("sqs").purge_queue(QueueUrl=inbox(name))
    before = begin_page(replace(group, begun=PAGE, placed=PAGE))
    store.write_group(head, replace(with_group(head, before.next()), wake_at_ms=NOW_MS + 10_000))
    claimed = aws.jobs.claim(named(group.id_of(PAGE)), names[PAGE], NOW_MS + 1_000)
    assert {"Rearmed": 1} == run(aws, NOW + 30)
    assert len(names) == len(members(aws, job_id))
    after = group_of(aws, job_id)
    assert (len(names), len(names)) == (after.begun, after.placed)
    sent = {body["job_id"] for _, body in every_message(aws, *names)}
    assert {group.id_of(index) for index in range(PAGE + 1, len(names))} == sent
    assert claimed.job_id not in sent
    # Members that were placed before must reply earlier.
    assert NOW_MS + 60_000 == aws.job(job_id).wake_at_ms


def test_a_run_that_has_no_time_left_leaves_the_group_due(aws: Cloud):
    for number in range(2):
        beat(aws, f"web-{number}", NOW_MS)
    job_id = submit(aws, target="_all")
    watch = requeue(aws, NOW + 61).groups()
    watch.look(aws.job(job_id), NOW_MS + 61_000, lambda: 0.0)
    assert {State.PENDING} == {member.state for member in members(aws, job_id)}
    assert NOW_MS + 71_000 == aws.job(job_id).wake_at_ms
    assert {"Rearmed": 1} == run(aws, NOW + 120)
    assert {State.FAILED} == {member.state for member in members(aws, job_id)}


def test_a_watch_reads_each_member_once_and_the_agents_of_those_that_run(aws: Cloud):
    names = [f"web-{number:03d}" for number in range(3 * PAGE)]
    for name in names:
        beat(aws, name, NOW_MS)
    job_id = submit_placed(aws)
    for head in members(aws, job_id)[: 2 * PAGE]:
        aws.jobs.claim(named(head.job_id), head.assigned or "", NOW_MS + 1_000)
    assert {} == run(aws, NOW)
    session, meter = aws.session(), Meter()
    meter.attach(session, aws.clients.make("dynamodb"))
    asked: Counter[str] = Counter()

    def count(params: dict[str, dict[str, dict[str, list[object]]]], **_: object) -> None:
        for table, wanted in params["RequestItems"].items():
            asked[table] += len(wanted["Keys"])

    session.get_component("event_emitter").register(
        "provide-client-params.dynamodb.BatchGetItem", count
    )
    assert {"Rearmed": 1} == run(aws, NOW + 60, clients=Clients(session))
    # The group itself, and its members. A page of them was not claimed: it is failed, and read once
    # more to settle it, and the group is written and due later.
    assert 1 + 3 * PAGE + PAGE == asked[DESCRIPTOR.jobs_table]
    assert 3 * PAGE == asked[DESCRIPTOR.agents_table]
    assert PAGE + 2 == meter.calls["dynamodb.UpdateItem"]
    assert (1, 0) == (meter.calls["dynamodb.GetItem"], meter.calls["sqs.SendMessage"])
    for name in names:
        beat(aws, name, NOW_MS + 361_000)
    asked.clear()
    assert 1 == run(aws, NOW + 361, clients=Clients(session))["Rearmed"]
    assert (1 + 2 * PAGE, 2 * PAGE) == (
        asked[DESCRIPTOR.jobs_table],
        asked[DESCRIPTOR.agents_table],
    )


def test_the_last_member_settles_its_group_also_without_the_stream(aws: Cloud):
    for number in range(2):
        beat(aws, f"web-{number}", NOW_MS)
    job_id = submit(aws, target="_all")
    first, second = members(aws, job_id)
    end(aws, aws.jobs.claim(named(first.job_id), "web-0", NOW_MS + 1_000), NOW_MS + 2_000)
    assert {"Rearmed": 1} == run(aws, NOW + 61)
    head = aws.job(job_id)
    assert (State.PARTIAL_FAILURE, None) == (head.state, head.wake_at_ms)
    assert "1 of 2 completed; 1 failed" == head.reason
    assert State.FAILED is aws.job(second.job_id).state


def test_with_max_concurrency_the_next_members_begin_when_one_did_not_reply(aws: Cloud):
    for number in range(3):
        beat(aws, f"web-{number}", NOW_MS)
    job_id = submit(aws, target="_all", max_concurrency=1)
    for minute in (1, 2, 3):
        assert {"Rearmed": 1} == run(aws, NOW + 61 * minute)
    head = aws.job(job_id)
    assert (State.FAILED, "0 of 3 completed; 3 failed") == (head.state, head.reason)
    assert 3 == len(every_message(aws, "web-0", "web-1", "web-2"))
