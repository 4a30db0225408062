"""Lost jobs with a key: taken over in their slot, or ended as stale under `fail-stale`."""

import asyncio
import random
from dataclasses import replace
from typing import Any

import pytest

from ec2_agent.attempt.preparation import sandbox_spec
from ec2_agent.outcomes.record import decide
from joblane.aws.job.jobs import Refused
from joblane.job.head import Head, make_head
from joblane.job.judge import AttemptResult
from joblane.job.moves import AttemptFacts
from joblane.key.policy import KeyLimits, StalePolicy
from joblane.state.lease import LEASE_S, UNLISTED_MS, Heartbeat
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.agents import Parts
from tests.support.aws import DESCRIPTOR
from tests.support.jobs import named, submission
from tests.support.keyed import LANE, NOW, NOW_MS, Deployed
from tests.support.keys import KEY, job, put_keyed, stored


def send(at: Deployed, letter: str) -> None:
    """Send a job's message."""
    body = named(job(letter)).encode()
    at.aws.clients.make("sqs").send_message(QueueUrl=LANE, MessageBody=body)


def receive(at: Deployed, now: float, name: str = "agent-2") -> Head | None:
    """An agent receives a message and claims its job."""
    parts = Parts(at.aws.clients, name=name, clock=lambda: now)
    return parts.claim(parts.take())


def lose(
    at: Deployed, *, queued: str = "", policy: StalePolicy = "fail-stale", **spec: Any
) -> Head:
    """A job with a slot whose agent was lost; its message has come back."""
    limits = KeyLimits(max_queued=9, stale_policy=policy)
    put_keyed(at.aws, active="A", queued=queued, limits=limits, **spec)
    row = Heartbeat("agent-1", 0, NOW_MS, 1, 1, ("default",), "full", "1", (job("A"),))
    at.aws.agents.beat(row)
    head = at.aws.jobs.claim(named(job("A")), "agent-1", NOW_MS)
    send(at, "A")
    return head


def test_a_lost_job_ends_as_stale_if_another_one_waits_for_its_slot(at: Deployed):
    held = lose(at, queued="BC")
    assert receive(at, NOW + LEASE_S) is None
    head = at.head("A")
    assert (State.STALE, 1) == (head.state, head.epoch)
    assert "agent-1 was lost" in head.reason
    assert "another job waits for its slot (fail-stale)" in head.reason
    assert head.expires_at is not None
    assert 1 == at.deliver()
    assert ({"B": 11}, "C", 1) == (at.active(), at.queued(), stored(at.aws).state.stale)
    # The agent thaws: what it reports is refused, and the slot is not freed twice.
    step = Step(State.COMPLETED, NOW_MS, 1, "exit code 0")
    with pytest.raises(Refused):
        at.aws.jobs.settle(held, step, AttemptFacts(Outcome.SUCCEEDED, expires_at=9))
    assert 0 == at.deliver()
    assert ["B"] == at.sent()


def test_its_report_is_logged_as_one_that_comes_too_late(at: Deployed, caplog: Any):
    held = lose(at, queued="B")
    receive(at, NOW + LEASE_S)
    send(at, "A")
    parts = Parts(at.aws.clients, name="agent-1", clock=lambda: NOW)
    delivery = parts.receive()
    assert delivery is not None
    result = AttemptResult(Outcome.SUCCEEDED, "exit code 0", NOW_MS)
    outcome = decide(held, delivery, result, DESCRIPTOR.retention, random.Random(1))
    asyncio.run(parts.report.settle(outcome))
    assert State.STALE is at.head("A").state
    assert "stale_completion_ignored" in caplog.text


@pytest.mark.parametrize(("policy", "queued"), [("block", "B"), ("fail-stale", "")])
def test_else_it_is_taken_over_in_its_slot(at: Deployed, policy: StalePolicy, queued: str):
    lose(at, queued=queued, policy=policy)
    head = receive(at, NOW + LEASE_S)
    assert head is not None
    assert (2, 10, "10.2") == (head.epoch, head.slot, head.slot_token)
    assert 0 == at.deliver()
    assert ({"A": 10}, queued) == (at.active(), at.queued())


def test_a_job_that_never_began_is_not_stale(at: Deployed):
    """Its agent lives, and did not get the answer to its claim."""
    lose(at, queued="B")
    now_ms = NOW_MS + UNLISTED_MS + 1
    row = Heartbeat("agent-1", 0, now_ms, 1, 0, ("default",), "full", "1", ())
    at.aws.agents.beat(row)
    assert receive(at, now_ms / 1000) is not None


@pytest.mark.parametrize(
    ("spec", "state"),
    [
        ({"restartable": False}, State.FAILED),
        ({"retry": {"max_attempts": 1}}, State.DEAD),
    ],
)
def test_one_that_would_not_be_taken_over_ends_as_ever(
    at: Deployed, spec: dict[str, Any], state: State
):
    lose(at, queued="B", **spec)
    assert receive(at, NOW + LEASE_S) is None
    assert state is at.head("A").state
    assert 1 == at.deliver()


def test_a_lost_job_that_is_to_end_is_cancelled(at: Deployed):
    lose(at, queued="B")
    at.aws.jobs.request_cancel(job("A"), "asked at noon")
    assert receive(at, NOW + LEASE_S) is None
    assert State.CANCELLED is at.head("A").state


def test_the_message_of_a_waiting_job_is_deleted(at: Deployed):
    """It was sent before a slot that another submission got; another one comes with its slot."""
    put_keyed(at.aws, active="A", queued="B")
    send(at, "B")
    assert receive(at, NOW) is None
    assert [] == list(at.memory.queues.bodies())
    assert State.WAITING is at.head("B").state
    at.end("A")
    at.deliver()
    head = receive(at, NOW)
    assert head is not None
    assert (job("B"), "11.1") == (head.job_id, head.slot_token)


def test_a_job_knows_its_slot_and_one_without_a_key_has_none():
    head = make_head(job("A"), "acme", submission(), NOW_MS)
    assert "JOBLANE_SLOT" not in sandbox_spec(head, 1.0).env
    keyed = replace(head, key=KEY, slot=7, epoch=3)
    assert "7.3" == sandbox_spec(keyed, 1.0).env["JOBLANE_SLOT"]
