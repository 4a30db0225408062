"""From message to claim: duplicates, strangers, races with the put, and agents that died."""

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from joblane.aws.job.claims import EARLY_MS
from joblane.aws.queue.lanes import LaneQueue
from joblane.formats.times import rfc3339
from joblane.job.edit import plan_edit
from joblane.job.head import Head, make_head
from joblane.job.moves import AttemptFacts
from joblane.service.job.disposal import Action, dispose_refused
from joblane.state.lease import LEASE_S, UNLISTED_MS, Heartbeat
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from joblane.testing.clock import Clock
from tests.support.agents import Parts
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.jobs import JOB, named, submission
from tests.support.meter import Meter
from tests.support.recovery import store

NOW = 1_800_000_000.0
LANE = DESCRIPTOR.lane_url("default", "default")


def send(aws: Cloud, body: str | None = None) -> None:
    lane = LaneQueue(aws.clients.make("sqs"), LANE)
    if body is None:
        lane.send(named(JOB))
    else:
        aws.clients.make("sqs").send_message(QueueUrl=LANE, MessageBody=body)


def put(aws: Cloud, **fields: object) -> Head:
    head = make_head(JOB, "acme", submission(**fields), 1_000)
    aws.jobs.put_new(head)
    return head


def beat(aws: Cloud, name: str, at: float, since: float = 0, jobs: tuple[str, ...] = ()) -> None:
    aws.agents.beat(
        Heartbeat(
            name, int(since * 1000), int(at * 1000), 1, len(jobs), ("default",), "full", "1", jobs
        )
    )


def claim(aws: Cloud, name: str = "agent-1", now: float = NOW) -> Head | None:
    parts = Parts(aws.clients, name=name, clock=lambda: now)
    return parts.claim(parts.take())


def state(aws: Cloud) -> tuple[int, int]:
    """Visible messages and those in flight."""
    lengths = LaneQueue(aws.clients.make("sqs"), LANE).lengths()
    return lengths.visible, lengths.in_flight


def test_a_message_becomes_a_claimed_job(aws: Cloud):
    put(aws)
    send(aws)
    head = claim(aws)
    assert head == aws.job(JOB)
    assert (0, 1) == state(aws)


@pytest.mark.parametrize("of", [{"edit": 0}, {"edit": 2}, {"lane": "default/high"}])
@pytest.mark.parametrize("state_of_it", [State.PENDING, State.ACTIVE])
def test_a_message_of_another_edit_or_lane_starts_nothing(
    aws: Cloud, of: dict[str, Any], state_of_it: State
):
    """Its job has a newer one: of the edit, or in the lane that the edit chose."""
    current: dict[str, Any] = {"lane": "default/default", "edit": 1}
    aws.jobs.put_new(replace(make_head(JOB, "acme", submission(), 1_000), edit=1))
    if state_of_it is State.ACTIVE:  # and its agent is lost: the newer message takes it over
        aws.jobs.claim(named(JOB, **current), "agent-9", 2_000)
    send(aws, named(JOB, **{**current, **of}).encode())
    assert claim(aws) is None
    assert (state_of_it, (0, 0)) == (aws.job(JOB).state, state(aws))
    send(aws, named(JOB, **current).encode())
    assert claim(aws) is not None


def test_a_message_that_names_a_lane_of_another_queue_goes_to_the_dead_letters(aws: Cloud):
    """Who may send to a queue's lanes starts no job of another queue."""
    aws.jobs.put_new(make_head(JOB, "acme", submission(queue="bulk"), 1_000))
    send(aws, named(JOB, "bulk/default").encode())
    assert claim(aws) is None
    assert (State.PENDING, (0, 0)) == (aws.job(JOB).state, state(aws))
    dead = LaneQueue(aws.clients.make("sqs"), DESCRIPTOR.dead_letter_url).receive(10, 0)
    assert [named(JOB, "bulk/default").encode()] == [each.body for each in dead]


@pytest.mark.parametrize(
    "body", ["hello", "{}", '{"v": 2}', "[]", '{"v":1,"job_id":"x","tenant":"a"}']
)
def test_a_message_that_is_not_ours_is_kept_where_an_operator_finds_it(aws: Cloud, body: str):
    send(aws, body)
    assert claim(aws) is None
    assert (0, 0) == state(aws)
    (dead,) = aws.clients.make("sqs").receive_message(
        QueueUrl=DESCRIPTOR.dead_letter_url, MessageAttributeNames=["All"]
    )["Messages"]
    assert body == dead["Body"]
    said = {name: text["StringValue"] for name, text in dead["MessageAttributes"].items()}
    assert said["reason"]
    assert DESCRIPTOR.lane_url("default", "default").endswith(f"/{said['lane']}")


def test_a_put_that_is_slower_than_its_message_is_waited_for(aws: Cloud):
    """The job is put once the first try to claim it was refused."""
    send(aws)
    emitter, refused = aws.emitter(), list[bool]()

    def put_late(**_: object) -> None:
        if not refused:
            refused.append(True)
            put(aws)

    emitter.register("after-call.dynamodb.UpdateItem", put_late)
    assert claim(aws) is not None
    assert refused


def test_a_message_whose_job_never_came_is_given_back_and_after_a_minute_discarded(aws: Cloud):
    send(aws)
    clock = Clock(time.time())
    parts = Parts(aws.clients, clock=clock)
    held = parts.take()
    assert parts.claim(held) is None
    assert (0, 1) == state(aws)  # hidden for a second
    LaneQueue(parts.sqs, held.lane_url).hide(held.received.receipt, 0)
    clock.now += 61
    assert parts.claim(parts.take()) is None
    assert (0, 0) == state(aws)


def test_a_second_copy_of_a_running_jobs_message_is_given_back(aws: Cloud):
    put(aws)
    send(aws)
    send(aws)
    beat(aws, "agent-1", NOW)
    assert claim(aws, "agent-1") is not None
    assert claim(aws, "agent-2", NOW + 1) is None
    assert 1 == aws.job(JOB).epoch
    assert (0, 2) == state(aws)


def test_two_messages_of_a_job_at_the_same_moment_make_one_claim(aws: Cloud):
    put(aws)
    send(aws)
    send(aws)
    beat(aws, "agent-1", NOW, jobs=(JOB,))
    parts = Parts(aws.clients, clock=lambda: NOW)
    first, second = parts.receive(), parts.receive()
    assert first is not None
    assert second is not None
    assert parts.claim(first) is not None
    assert parts.claim(second) is None
    assert 1 == aws.job(JOB).epoch


def test_a_message_of_an_ended_job_is_deleted(aws: Cloud):
    put(aws)
    send(aws)
    head = aws.jobs.claim(named(JOB), "agent-2", 1)
    aws.jobs.settle(
        head, Step(State.COMPLETED, 2, 1, "exit code 0"), AttemptFacts(Outcome.SUCCEEDED)
    )
    assert claim(aws) is None
    assert (0, 0) == state(aws)


def test_a_second_message_does_not_shorten_a_backoff(aws: Cloud):
    put(aws)
    head = aws.jobs.claim(named(JOB), "agent-1", int(NOW * 1000))
    due = int((NOW + 600) * 1000)
    aws.jobs.settle(
        head, Step(State.RETRY, 2, 1, "exit code 1"), AttemptFacts(Outcome.FAILED, next_at_ms=due)
    )
    send(aws)
    assert claim(aws) is None
    assert ((0, 1), State.RETRY) == (state(aws), aws.job(JOB).state)
    send(aws)
    claimed = claim(aws, now=NOW + 600 - EARLY_MS / 1000)  # SQS's clock and this host's differ
    assert claimed is not None
    assert 2 == claimed.attempt


@pytest.mark.parametrize("late_s", [-600, -1, 0, 60])
def test_a_message_is_kept_whenever_the_refusal_for_a_backoff_is_read(aws: Cloud, late_s: int):
    """The answer to the claim may come after the backoff has ended."""
    put(aws)
    head = aws.jobs.claim(named(JOB), "agent-1", int(NOW * 1000))
    due = int((NOW + 600) * 1000)
    facts = AttemptFacts(Outcome.FAILED, next_at_ms=due)
    head = aws.jobs.settle(head, Step(State.RETRY, 2, 1, "exit code 1"), facts)
    disposal = dispose_refused(head, None, due + late_s * 1000, "agent-1")
    assert (Action.GIVE_BACK, max(1, 1 - late_s)) == (disposal.action, disposal.hide_s)


def test_a_message_of_another_agents_job_is_deleted_whatever_its_state(aws: Cloud):
    head = make_head(JOB, "acme", submission(), 1_000)
    aws.jobs.put_new(replace(head, assigned="agent-9"))
    send(aws)
    assert claim(aws) is None
    assert ((0, 0), State.PENDING) == (state(aws), aws.job(JOB).state)
    beat(aws, "agent-9", NOW - LEASE_S)
    aws.jobs.claim(named(JOB), "agent-9", int((NOW - LEASE_S) * 1000))
    send(aws)
    assert claim(aws) is None  # though its agent is lost
    assert ((0, 0), State.ACTIVE) == (state(aws), aws.job(JOB).state)


def test_a_blocked_job_that_was_edited_joins_its_condition_by_its_earlier_message(aws: Cloud):
    """Its agent has died before the job joined, and an edit sends a blocked job no other one."""
    put(aws)
    send(aws)
    head = aws.jobs.claim(named(JOB), "agent-9", int(NOW * 1000) - 2)
    blocked = Step(State.BLOCKED, int(NOW * 1000) - 1, 0, "exit code 75", records=0)
    head = aws.jobs.block(head, blocked, "tcp:db:5432", AttemptFacts(Outcome.BLOCKED))
    spec = head.spec.model_copy(update={"priority": "high"})
    aws.jobs.edit(head, plan_edit(head, spec, int(NOW * 1000), "edited"), int(NOW * 1000))
    assert claim(aws) is None
    assert [JOB] == [each.job_id for each in store(aws.clients).waiting("tcp:db:5432", 9)]
    assert (0, 0) == state(aws)


def test_a_job_that_was_not_claimed_in_time_is_left_to_fail(aws: Cloud):
    head = make_head(JOB, "acme", submission(), 1_000)
    aws.jobs.put_new(replace(head, assigned="agent-1", reply_by_ms=int(NOW * 1000)))
    send(aws)
    assert claim(aws) is None
    assert ((0, 0), State.PENDING) == (state(aws), aws.job(JOB).state)


@pytest.mark.parametrize(("runs", "restarted"), [(True, False), (False, False), (False, True)])
def test_an_agent_knows_itself_whether_it_runs_its_job(aws: Cloud, runs: bool, restarted: bool):
    """Its row lists the job when a heartbeat was written during this very claim."""
    head = make_head(JOB, "acme", submission(), 1_000)
    aws.jobs.put_new(replace(head, assigned="agent-1"))
    aws.jobs.claim(named(JOB), "agent-1", int(NOW * 1000))
    now = NOW + 100
    beat(aws, "agent-1", now, since=NOW + 50 if restarted else 0, jobs=(JOB,))
    send(aws)
    parts = Parts(aws.clients, clock=lambda: now)
    if runs:
        parts.roster.claiming.append(JOB)
    claimed = parts.claim(parts.take())
    assert runs is (claimed is None)
    assert (0, 1) == state(aws)
    if claimed is not None:
        assert (2, "agent-1") == (claimed.epoch, claimed.agent)


def lose(aws: Cloud, **fields: object) -> None:
    put(aws, **fields)
    send(aws)
    beat(aws, "agent-dead", NOW)
    aws.jobs.claim(named(JOB), "agent-dead", int(NOW * 1000))


def test_a_job_of_a_dead_agent_is_taken_over_after_its_lease_and_not_before(aws: Cloud):
    lose(aws)
    assert claim(aws, "agent-2", NOW + LEASE_S - 1) is None
    send(aws)
    head = claim(aws, "agent-2", NOW + LEASE_S)
    assert head is not None
    assert ("agent-2", 2, 2) == (head.agent, head.epoch, head.attempt)
    assert "agent-dead" in head.timeline[-1].reason


@pytest.mark.parametrize("lease_s", [30, 900])
def test_a_lease_is_as_long_as_the_agent_that_has_it_says(aws: Cloud, lease_s: int):
    lose(aws)
    row = aws.agents.get("agent-dead")
    assert row is not None
    aws.agents.beat(replace(row, lease_s=lease_s, jobs=(JOB,)))
    assert claim(aws, "agent-2", NOW + lease_s - 1) is None
    send(aws)
    assert claim(aws, "agent-2", NOW + lease_s) is not None


def test_a_job_of_an_agent_that_said_goodbye_or_came_back_anew_is_taken_over_at_once(aws: Cloud):
    lose(aws)
    beat(aws, "agent-dead", NOW + 5, since=NOW + 4)  # restarted: its earlier jobs are gone
    assert claim(aws, "agent-2", NOW + 5) is not None


def test_a_job_that_the_agents_next_life_lists_stays_its_own(aws: Cloud):
    """Its outcome waits in the journal, or its shim runs on."""
    lose(aws)
    beat(aws, "agent-dead", NOW + 5, since=NOW + 4, jobs=(JOB,))
    assert claim(aws, "agent-2", NOW + 5) is None
    assert State.ACTIVE is aws.job(JOB).state


def test_a_job_whose_claims_answer_was_lost_is_taken_over_once_a_heartbeat_leaves_it_out(
    aws: Cloud,
):
    put(aws)
    send(aws)
    aws.jobs.claim(named(JOB), "agent-1", int(NOW * 1000))  # and agent-1 never hears of it
    beat(aws, "agent-1", NOW + UNLISTED_MS / 1000)
    assert claim(aws, "agent-2", NOW + 20) is None  # it may have been about to
    send(aws)
    beat(aws, "agent-1", NOW + 1 + UNLISTED_MS / 1000, jobs=(JOB,))
    assert claim(aws, "agent-2", NOW + 20) is None  # it has
    send(aws)
    beat(aws, "agent-1", NOW + 1 + UNLISTED_MS / 1000)
    head = claim(aws, "agent-2", NOW + 20)
    assert head is not None
    assert ("agent-2", 2) == (head.agent, head.epoch)


def test_a_job_is_listed_while_it_is_claimed(aws: Cloud):
    put(aws)
    send(aws)
    seen: list[list[str]] = []

    def look(**_: object) -> None:
        seen.append(parts.roster.claiming[:])

    aws.emitter().register("before-call.dynamodb.UpdateItem", look)
    parts = Parts(aws.clients)
    assert parts.claim(parts.take()) is not None
    assert ([[JOB]], []) == (seen, parts.roster.claiming)


def test_a_lost_job_that_is_not_restartable_fails_and_says_why(aws: Cloud):
    lose(aws, restartable=False)
    assert claim(aws, "agent-2", NOW + LEASE_S) is None
    head = aws.job(JOB)
    assert (State.FAILED, 1) == (head.state, head.epoch)
    assert "not restartable" in head.timeline[-1].reason
    assert head.expires_at is not None
    assert (0, 0) == state(aws)


def test_a_lost_job_whose_end_was_asked_for_is_cancelled(aws: Cloud):
    lose(aws)
    aws.jobs.request_cancel(JOB, "asked at noon")
    assert claim(aws, "agent-2", NOW + LEASE_S) is None
    head = aws.job(JOB)
    assert (State.CANCELLED, 1) == (head.state, head.epoch)
    assert "agent-dead was lost" in head.timeline[-1].reason
    assert (0, 0) == state(aws)


def test_a_message_that_arrives_before_its_jobs_time_waits_for_it(aws: Cloud):
    put(aws, run_at=rfc3339(int(NOW * 1000) + 5_000))
    send(aws)
    assert claim(aws) is None
    assert State.SCHEDULED is aws.job(JOB).state
    assert (0, 1) == state(aws)


def test_a_job_that_loses_agent_after_agent_ends_dead(aws: Cloud):
    lose(aws, retry={"max_attempts": 1})
    assert claim(aws, "agent-2", NOW + LEASE_S) is None
    assert State.DEAD is aws.job(JOB).state


def test_a_stranger_claim_is_not_answered_by_guessing(aws: Cloud):
    """A message with a well-formed id of no job does not become one."""
    send(aws, json.dumps({"v": 1, "job_id": JOB, "tenant": "acme"}))
    assert claim(aws, now=time.time()) is None
    assert aws.jobs.get(JOB) is None


def test_messages_in_flight_are_extended_in_batches(aws: Cloud, meter: Meter):
    parts = Parts(meter.clients_of(aws))
    for _ in range(12):
        send(aws)
    held = [h for h in (parts.receive() for _ in range(12)) if h is not None]
    assert 12 == len(held)
    lane = LaneQueue(parts.sqs, held[0].lane_url)
    assert [] == lane.extend([h.received.receipt for h in held])
    assert 2 == meter.calls["sqs.ChangeMessageVisibilityBatch"]
    assert ["not-a-receipt"] == lane.extend([held[0].received.receipt, "not-a-receipt"])
