"""Transitions that operators, the clock and conditions make: each one write, refused when late."""

from dataclasses import replace

import pytest

from joblane.aws.job.items import WAKE_SHARDS
from joblane.aws.job.jobs import Refused
from joblane.aws.table import Table, TransactionRefused
from joblane.formats.times import rfc3339
from joblane.job.head import Head, make_head
from joblane.job.moves import AttemptFacts, plan
from joblane.key.segments import KeyName
from joblane.state.lifecycle import Event, Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import Cloud
from tests.support.jobs import JOB, named, submission
from tests.unit.job.test_store import new

BLOCKED = AttemptFacts(Outcome.BLOCKED, exit_code=75)
FAILED = AttemptFacts(Outcome.FAILED, exit_code=1)
CONDITION = "http:https://example.com/"


def item(aws: Cloud) -> dict[str, object]:
    found = aws.clients.make("dynamodb").get_item(
        TableName="joblane-jobs", Key={"job_id": {"S": JOB}, "sk": {"S": "JOB"}}
    )
    return dict(found.get("Item", {}))


def block(aws: Cloud, head: Head) -> Head:
    step = Step(State.BLOCKED, 3_000, head.attempt - 1, "exit code 75; waits for it")
    return aws.jobs.block(head, step, CONDITION, BLOCKED)


def dead(aws: Cloud, **spec: object) -> Head:
    new(aws, **spec)
    head = aws.jobs.claim(named(JOB), "agent-1", 2_000)
    step = Step(State.DEAD, 3_000, 1, "exit code 1 (attempt 1 of 1)")
    return aws.jobs.settle(head, step, AttemptFacts(Outcome.FAILED, exit_code=1, expires_at=99))


def due(aws: Cloud, now_ms: int) -> list[str]:
    found: list[str] = []
    for shard in range(WAKE_SHARDS):
        heads, _ = aws.jobs.due_page(str(shard), now_ms, limit=10, after=None)
        found += [head.job_id for head in heads]
    return found


def test_a_blocked_job_goes_back_to_its_lane_with_its_attempt(aws: Cloud):
    new(aws)
    blocked = block(aws, aws.jobs.claim(named(JOB), "agent-1", 2_000))
    assert blocked == aws.job(JOB)
    assert (State.BLOCKED, CONDITION, 0, 75) == (
        blocked.state,
        blocked.condition,
        blocked.attempt,
        blocked.exit_code,
    )
    assert "acme#blocked" == item(aws)["attention"]["S"]  # type: ignore[index] # DynamoDB's JSON
    back = aws.jobs.unblock(JOB, CONDITION, Step(State.PENDING, 4_000, 0, "it holds again"))
    assert back == aws.job(JOB)
    assert (State.PENDING, None, 0) == (back.state, back.condition, back.attempt)
    assert {"attention", "condition"}.isdisjoint(item(aws))
    assert 1 == aws.jobs.claim(named(JOB), "agent-2", 5_000).attempt
    assert [0, 1, 0, 0, 1] == [step.attempt for step in aws.job(JOB).timeline]


def test_unblocking_is_for_the_condition_it_waits_for_and_happens_once(aws: Cloud):
    new(aws)
    step = Step(State.PENDING, 4_000, 0, "it holds again")
    with pytest.raises(Refused):
        aws.jobs.unblock(JOB, CONDITION, step)
    block(aws, aws.jobs.claim(named(JOB), "agent-1", 2_000))
    with pytest.raises(Refused) as other:
        aws.jobs.unblock(JOB, "tcp:example.com:80", step)
    assert aws.job(JOB) == other.value.head
    first = aws.jobs.unblock(JOB, CONDITION, step)
    assert first == aws.jobs.unblock(JOB, CONDITION, step)  # the SDK's repetition
    with pytest.raises(Refused) as second:
        aws.jobs.unblock(JOB, CONDITION, Step(State.PENDING, 4_001, 0, "it holds again"))
    assert second.value.head is not None
    assert State.PENDING is second.value.head.state


def test_only_the_holder_blocks_and_only_into_blocked(aws: Cloud):
    new(aws)
    head = aws.jobs.claim(named(JOB), "agent-1", 2_000)
    aws.jobs.take_over(head, "agent-2", 2_500)
    with pytest.raises(Refused):
        block(aws, head)
    with pytest.raises(ValueError, match="must be blocked, not pending"):
        aws.jobs.block(head, Step(State.PENDING, 1, 0, ""), CONDITION, BLOCKED)
    with pytest.raises(ValueError, match="cannot be settled as blocked"):
        aws.jobs.settle(head, Step(State.BLOCKED, 1, 0, ""), BLOCKED)


def test_a_condition_that_never_came_fails_its_job(aws: Cloud):
    new(aws)
    blocked = block(aws, aws.jobs.claim(named(JOB), "agent-1", 2_000))
    step = plan(blocked, Event.GIVE_UP, 5_000, "it did not come back in 48 h")
    failed = aws.jobs.move(blocked, Event.GIVE_UP, step, expires_at=77)
    assert failed == aws.job(JOB)
    assert (State.FAILED, None, 77) == (failed.state, failed.condition, failed.expires_at)
    assert {"S": "acme#failed"} == item(aws)["attention"]


@pytest.mark.parametrize("event", [Event.CANCEL, Event.EXPIRE])
def test_a_waiting_job_ends_at_once_and_the_late_claim_is_refused(aws: Cloud, event: Event):
    head = new(aws)
    ended = aws.jobs.move(head, event, plan(head, event, 2_000, "because"), expires_at=50)
    assert ended == aws.job(JOB)
    with pytest.raises(Refused):
        aws.jobs.claim(named(JOB), "agent-1", 3_000)


def test_a_decision_made_on_another_job_is_refused(aws: Cloud):
    head = new(aws)
    claimed = aws.jobs.claim(named(JOB), "agent-1", 2_000)
    with pytest.raises(Refused) as refusal:
        aws.jobs.move(head, Event.CANCEL, plan(head, Event.CANCEL, 3_000, "because"))
    assert claimed == refusal.value.head


def test_a_move_that_the_sdk_repeats_is_one_move(aws: Cloud):
    head = new(aws)
    step = plan(head, Event.CANCEL, 2_000, "because")
    for _ in range(2):
        aws.jobs.move(head, Event.CANCEL, step)
    assert 2 == len(aws.job(JOB).timeline)


def test_a_replayed_job_starts_anew_and_is_due_until_its_message_is_sent(aws: Cloud):
    head = dead(aws, retry={"max_attempts": 1})
    assert {"S": "acme#dead"} == item(aws)["attention"]
    back = aws.jobs.move(head, Event.REPLAY, plan(head, Event.REPLAY, 5_000, "replayed"))
    assert back == aws.job(JOB)
    assert (State.PENDING, 0, 1, None) == (back.state, back.attempt, back.epoch, back.expires_at)
    assert [JOB] == due(aws, 5_000)
    aws.jobs.rearm(back, 5_001)
    assert [] == due(aws, 10**13)
    assert "attention" not in item(aws)
    again = aws.jobs.claim(named(JOB), "agent-1", 6_000)
    assert (1, 2) == (again.attempt, again.epoch)
    assert [0, 1, 1, 0, 1] == [step.attempt for step in again.timeline]


def test_a_job_that_is_due_when_it_was_already_is_left_as_it_is(aws: Cloud):
    aws.jobs.put_new(make_head(JOB, "acme", submission(deadline="2030-01-01T00:00:00Z"), 1_000))
    before = item(aws)
    aws.jobs.rearm(aws.job(JOB), 2_000)  # its deadline is still what comes next
    assert before == item(aws)
    assert "wake_at" in before


def test_who_handled_an_earlier_moment_leaves_the_next_one(aws: Cloud):
    aws.jobs.put_new(make_head(JOB, "acme", submission(deadline="2030-01-01T00:00:00Z"), 1_000))
    head = aws.job(JOB)
    aws.jobs.rearm(head, 2_000, at_ms=5_000)
    aws.jobs.rearm(head, 2_000, at_ms=4_000)
    assert 5_000 == aws.job(JOB).wake_at_ms


def test_hiding_a_hidden_job_changes_nothing(aws: Cloud):
    hidden = aws.jobs.set_hidden(dead(aws), hidden=True)
    assert hidden == aws.jobs.set_hidden(hidden, hidden=True) == aws.job(JOB)


def test_a_decision_on_an_earlier_attempt_is_refused(aws: Cloud):
    seen = new(aws)
    block(aws, aws.jobs.claim(named(JOB), "agent-1", 2_000))
    again = aws.jobs.unblock(JOB, CONDITION, Step(State.PENDING, 4_000, 0, "it holds"))
    assert (seen.state, seen.epoch + 1) == (again.state, again.epoch)
    with pytest.raises(Refused):
        aws.jobs.move(seen, Event.CANCEL, plan(seen, Event.CANCEL, 5_000, "because"))
    skip = aws.jobs.as_skip(JOB, Step(State.SKIPPED, 5_000, 0, "newer"), 9)
    with pytest.raises(TransactionRefused):
        Table(aws.clients.make("dynamodb"), "joblane-jobs").transact([skip])
    assert again == aws.job(JOB)


def test_dismissed_is_off_the_list_for_good(aws: Cloud):
    head = dead(aws)
    aws.jobs.move(head, Event.DISMISS, plan(head, Event.DISMISS, 5_000, "seen"), expires_at=9)
    assert State.DISMISSED is aws.job(JOB).state
    assert "attention" not in item(aws)


def test_a_list_of_those_that_need_attention_pages(aws: Cloud):
    ids = [f"{JOB[:25]}{letter}" for letter in "0123456789"]
    for job_id in ids:
        aws.jobs.put_new(make_head(job_id, "acme", submission(), 1_000))
        head = aws.jobs.claim(named(job_id), "agent-1", 2_000)
        aws.jobs.settle(head, Step(State.FAILED, 3_000, 1, "exit code 65"), FAILED)
    seen: list[str] = []
    before: str | None = None
    while True:
        page, before = aws.jobs.attention_page("acme", State.FAILED, limit=4, before=before)
        seen += [head.job_id for head in page]
        if before is None:
            break
    assert ids[::-1] == seen
    assert ([], None) == aws.jobs.attention_page("other", State.FAILED, limit=4, before=None)


def test_a_request_to_cancel_is_noted_once(aws: Cloud):
    new(aws)
    with pytest.raises(Refused):
        aws.jobs.request_cancel(JOB, "cancelled at 1")
    claimed = aws.jobs.claim(named(JOB), "agent-1", 2_000)
    asked = aws.jobs.request_cancel(JOB, "cancelled at 1")
    assert ("cancelled at 1", "agent-1") == (asked.cancel_requested, asked.agent)
    assert asked == aws.jobs.request_cancel(JOB, "cancelled at 1")
    with pytest.raises(Refused) as refusal:
        aws.jobs.request_cancel(JOB, "cancelled at 2")
    assert asked == refusal.value.head
    ended = aws.jobs.settle(
        claimed, Step(State.CANCELLED, 3_000, 1, "cancelled at 1"), AttemptFacts(Outcome.CANCELLED)
    )
    assert ended == aws.job(JOB)
    assert ended.cancel_requested is None


def test_a_job_that_was_asked_to_end_does_not_start_again(aws: Cloud):
    new(aws)
    claimed = aws.jobs.claim(named(JOB), "agent-1", 2_000)
    asked = aws.jobs.request_cancel(JOB, "cancelled at 1")
    for step in (
        Step(State.RETRY, 3_000, 1, "exit code 1"),
        Step(State.PENDING, 3_000, 0, "leaves"),
    ):
        with pytest.raises(Refused) as refusal:
            aws.jobs.settle(claimed, step, FAILED)
        assert asked == refusal.value.head
    with pytest.raises(Refused):
        block(aws, claimed)
    with pytest.raises(Refused):
        aws.jobs.take_over(claimed, "agent-2", 3_000)
    aws.jobs.settle(
        claimed, Step(State.COMPLETED, 3_000, 1, "exit code 0"), AttemptFacts(Outcome.SUCCEEDED)
    )


def test_a_scheduled_job_starts_when_due_and_not_before(aws: Cloud):
    head = new(aws, run_at=rfc3339(5_000), deadline=rfc3339(9_000))
    assert (State.SCHEDULED, 5_000, 5_000) == (head.state, head.next_at_ms, head.wake_at_ms)
    assert head == aws.job(JOB)
    with pytest.raises(Refused):
        aws.jobs.claim(named(JOB), "agent-1", 4_999)
    claimed = aws.jobs.claim(named(JOB), "agent-1", 5_000)
    assert claimed == aws.job(JOB)
    assert claimed == aws.jobs.claim(named(JOB), "agent-1", 5_000)  # the SDK's repetition
    assert [State.SCHEDULED, State.PENDING, State.ACTIVE] == [s.state for s in claimed.timeline]
    assert (1, 9_000, None) == (claimed.attempt, claimed.wake_at_ms, claimed.next_at_ms)
    assert [] == due(aws, 8_999)
    assert [JOB] == due(aws, 9_000)


def test_a_job_is_not_started_after_its_deadline(aws: Cloud):
    new(aws, deadline=rfc3339(5_000))
    with pytest.raises(Refused) as refusal:
        aws.jobs.claim(named(JOB), "agent-1", 5_000)
    assert refusal.value.head is not None
    assert State.PENDING is refusal.value.head.state
    assert 1 == aws.jobs.claim(named(JOB), "agent-1", 4_999).epoch


def test_an_ended_job_is_never_due(aws: Cloud):
    new(aws, deadline=rfc3339(5_000))
    assert [JOB] == due(aws, 5_000)
    head = aws.jobs.claim(named(JOB), "agent-1", 2_000)
    aws.jobs.settle(
        head, Step(State.COMPLETED, 3_000, 1, "exit code 0"), AttemptFacts(Outcome.SUCCEEDED)
    )
    assert [] == due(aws, 10**13)


def test_a_second_end_forgets_what_only_the_first_attempt_had(aws: Cloud):
    new(aws)
    first = aws.jobs.claim(named(JOB), "agent-1", 2_000)
    aws.jobs.settle(first, Step(State.RETRY, 3_000, 1, "exit code 1"), FAILED)
    second = aws.jobs.claim(named(JOB), "agent-1", 4_000)
    ended = aws.jobs.settle(
        second, Step(State.DEAD, 5_000, 2, "killed"), AttemptFacts(Outcome.FAILED, signal=9)
    )
    assert ended == aws.job(JOB)
    assert (None, 9) == (ended.exit_code, ended.signal)


def test_only_what_does_not_run_is_deleted(aws: Cloud):
    new(aws, command=["x" * 5000])
    head = aws.jobs.claim(named(JOB), "agent-1", 2_000)
    with pytest.raises(Refused) as refusal:
        aws.jobs.delete(JOB)
    assert head == refusal.value.head
    aws.jobs.settle(
        head, Step(State.COMPLETED, 3_000, 1, "exit code 0"), AttemptFacts(Outcome.SUCCEEDED)
    )
    aws.jobs.delete(JOB)
    assert 0 == aws.clients.make("dynamodb").scan(TableName="joblane-jobs")["Count"]
    with pytest.raises(Refused) as gone:
        aws.jobs.delete(JOB)
    assert gone.value.head is None


KEY = KeyName.of("command", ["customer", "acme"])
GRANT = Step(State.PENDING, 5_000, 0, "its key has a free slot")


def waiting(aws: Cloud, queued_after: int | None = None) -> None:
    head = make_head(JOB, "acme", submission(), 1_000)
    step = replace(head.timeline[0], state=State.WAITING)
    head = replace(head, state=State.WAITING, timeline=(step,), key=KEY, queued_after=queued_after)
    aws.jobs.put_new(head)


def test_a_slot_lets_a_job_go_that_waits_for_its_key(aws: Cloud):
    waiting(aws)
    granted = aws.jobs.grant(JOB, KEY, 7, GRANT)
    assert granted == aws.job(JOB)
    assert (State.PENDING, 7, None) == (granted.state, granted.slot, granted.queued_after)
    with pytest.raises(Refused):
        aws.jobs.grant(JOB, KEY, 8, replace(GRANT, at_ms=6_000))


def test_an_earlier_slot_does_not_let_a_job_go_that_was_queued_again(aws: Cloud):
    waiting(aws, queued_after=9)
    with pytest.raises(Refused):
        aws.jobs.grant(JOB, KEY, 8, GRANT)
    with pytest.raises(Refused):
        aws.jobs.grant(JOB, KEY, 9, GRANT)
    assert State.WAITING is aws.job(JOB).state
    granted = aws.jobs.grant(JOB, KEY, 10, GRANT)
    assert granted == aws.job(JOB)
    assert (State.PENDING, 10, None) == (granted.state, granted.slot, granted.queued_after)
    assert "queued_after" not in item(aws)
