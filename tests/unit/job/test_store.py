"""The jobs table: conditions settle races, and a repeated call changes nothing."""

from dataclasses import replace
from typing import Any

import pytest

from joblane.aws.job.jobs import Refused
from joblane.job.head import Head, make_head
from joblane.job.moves import AttemptFacts
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import Cloud
from tests.support.jobs import JOB, named, submission
from tests.support.meter import Meter

DONE = AttemptFacts(Outcome.SUCCEEDED, exit_code=0)


def new(aws: Cloud, **spec: object) -> Head:
    head = make_head(JOB, "acme", submission(**spec), 1_000)
    aws.jobs.put_new(head)
    return head


def ended(head: Head, at_ms: int = 3_000) -> Step:
    return Step(State.COMPLETED, at_ms, head.attempt, "exit code 0", records=0)


def test_what_is_written_is_read(aws: Cloud):
    head = new(aws, labels={"team": "web"}, env={"A": "b"})
    assert head == aws.jobs.get(JOB)
    assert aws.jobs.get("01ARZ3NDEKTSV4RRFFQ69G5FAW") is None


def test_a_job_lives_through_claim_and_end(aws: Cloud):
    new(aws)
    claimed = aws.jobs.claim(named(JOB), "agent-1", 2_000)
    assert (State.ACTIVE, 1, 1, "agent-1") == (
        claimed.state,
        claimed.epoch,
        claimed.attempt,
        claimed.agent,
    )
    facts = AttemptFacts(Outcome.SUCCEEDED, exit_code=0, usage_json='{"cpu_s":0.1}', expires_at=99)
    settled = aws.jobs.settle(claimed, ended(claimed), facts)
    assert settled == aws.jobs.get(JOB)
    assert [State.PENDING, State.ACTIVE, State.COMPLETED] == [s.state for s in settled.timeline]
    assert [0, 1, 1] == [s.attempt for s in settled.timeline]


def test_a_claim_that_the_sdk_repeats_is_one_claim(aws: Cloud):
    new(aws)
    first = aws.jobs.claim(named(JOB), "agent-1", 2_000)
    assert first == aws.jobs.claim(named(JOB), "agent-1", 2_000)
    with pytest.raises(Refused):
        aws.jobs.claim(named(JOB), "agent-1", 2_001)


def test_a_put_that_the_sdk_repeats_does_not_undo_a_claim(aws: Cloud):
    head = new(aws)
    aws.jobs.claim(named(JOB), "agent-1", 2_000)
    aws.jobs.put_new(head)
    stored = aws.job(JOB)
    assert State.ACTIVE is stored.state


def test_an_end_that_the_sdk_repeats_is_one_end(aws: Cloud):
    new(aws)
    claimed = aws.jobs.claim(named(JOB), "agent-1", 2_000)
    aws.jobs.settle(claimed, ended(claimed), DONE)
    aws.jobs.settle(claimed, ended(claimed), DONE)
    stored = aws.job(JOB)
    assert 3 == len(stored.timeline)


def test_who_lost_the_lease_is_refused(aws: Cloud):
    new(aws)
    first = aws.jobs.claim(named(JOB), "agent-1", 2_000)
    second = aws.jobs.take_over(first, "agent-2", 3_000)
    assert (2, 2, "agent-2") == (second.epoch, second.attempt, second.agent)
    with pytest.raises(Refused) as refusal:
        aws.jobs.settle(first, ended(first), DONE)
    assert second == refusal.value.head
    with pytest.raises(Refused):
        aws.jobs.take_over(first, "agent-3", 3_000)


def test_a_claim_of_nothing_says_so(aws: Cloud):
    with pytest.raises(Refused) as refusal:
        aws.jobs.claim(named(JOB), "agent-1", 2_000)
    assert refusal.value.head is None


def test_a_settlement_outside_the_table_is_a_defect(aws: Cloud):
    new(aws)
    claimed = aws.jobs.claim(named(JOB), "agent-1", 2_000)
    with pytest.raises(ValueError, match="cannot be settled as scheduled"):
        aws.jobs.settle(claimed, replace(ended(claimed), state=State.SCHEDULED), DONE)


def test_a_large_submission_is_found_by_claims_and_refusals(aws: Cloud):
    head = new(aws, command=["x" * 5000])
    claimed = aws.jobs.claim(named(JOB), "agent-1", 2_000)
    assert head.spec == claimed.spec
    with pytest.raises(Refused) as refusal:
        aws.jobs.claim(named(JOB), "agent-2", 2_000)
    assert refusal.value.head == claimed


@pytest.mark.parametrize("consistent", [True, False])
def test_both_reads_of_a_long_submission_are_consistent_or_neither(aws: Cloud, consistent: bool):
    """An edit writes head and submission at once: who sees one has to see the other."""
    head, asked = new(aws, command=["x" * 5000]), list[bool]()
    emitter = aws.emitter()
    store = type(aws.jobs)(aws.clients.make("dynamodb"), "joblane-jobs")

    def read(params: Any, **_: Any) -> None:
        asked.extend(each["ConsistentRead"] for each in params["RequestItems"].values())

    emitter.register("before-parameter-build.dynamodb.BatchGetItem", read)
    assert [head] == store.heads([JOB], consistent=consistent)
    assert [consistent] * 2 == asked


def test_a_page_costs_two_requests_however_many_jobs_there_are(aws: Cloud, meter: Meter):
    alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    ids = [f"{JOB[:24]}{alphabet[n // 32]}{alphabet[n % 32]}" for n in range(150)]
    for job_id in ids:
        aws.jobs.put_new(make_head(job_id, "acme", submission(), 1_000))
    metered = type(aws.jobs)(meter.clients_of(aws).make("dynamodb"), "joblane-jobs")
    heads, following = metered.page("acme", limit=10, before=None)
    assert ids[:-11:-1] == [head.job_id for head in heads]
    assert heads[-1].job_id == following
    assert {"dynamodb.Query": 1, "dynamodb.BatchGetItem": 1} == dict(meter.calls)
