"""EC2 says that an instance ended: its jobs are free at once, whatever crashes on the way."""

import time
from dataclasses import replace
from typing import Any

import pytest

from functions.instance_end.handler import Settings, build
from joblane.aws.clients import Clients
from joblane.aws.fleet.facts import FactStore
from joblane.aws.queue.lanes import LaneQueue
from joblane.deployment.names import inbox_name
from joblane.job.head import make_head
from joblane.state.lease import Heartbeat
from joblane.state.lifecycle import Outcome, State
from tests.support.agents import Parts
from tests.support.aws import DESCRIPTOR, FUNCTION_ENVIRONMENT, NAME, Cloud
from tests.support.jobs import JOB, named, submission

DEAD = "i-dead"
ENVIRONMENT = FUNCTION_ENVIRONMENT


def free(clients: Clients, agent: str = DEAD) -> None:
    build(Settings.model_validate(ENVIRONMENT), clients).free(agent)


def lose(aws: Cloud) -> None:
    """An agent that runs a job, beats, and is gone; its message is in flight for two minutes."""
    now_ms = int(time.time() * 1000)
    aws.jobs.put_new(make_head(JOB, "acme", submission(), now_ms))
    aws.agents.beat(Heartbeat(DEAD, 0, now_ms, 1, 1, ("default",), "full", "1", (JOB,)))
    aws.jobs.claim(named(JOB), DEAD, now_ms)


def inboxes(aws: Cloud) -> list[str]:
    """URLs of all inboxes."""
    answer = aws.clients.make("sqs").list_queues(QueueNamePrefix=inbox_name(NAME, ""))
    return answer.get("QueueUrls", [])


def take_over(aws: Cloud) -> bool:
    """Whether another agent gets a message and with it the job."""
    parts = Parts(aws.clients, name="agent-2")
    while held := parts.receive():
        head = parts.claim(held)
        if head is not None:
            assert (State.ACTIVE, "agent-2", 2) == (head.state, head.agent, head.epoch)
            return True
    return False


def test_another_agent_takes_over_at_once(aws: Cloud):
    lose(aws)
    facts = FactStore(aws.clients.make("dynamodb"), DESCRIPTOR.agents_table)
    facts.put(DEAD, {"kernel": "6.1"}, int(time.time()))
    free(aws.clients)
    assert take_over(aws)
    assert aws.agents.get(DEAD) is None
    assert {} == facts.get(DEAD, 0)


def test_a_job_that_went_on_meanwhile_is_left_alone(aws: Cloud):
    lose(aws)
    head = aws.job(JOB)
    aws.jobs.take_over(head, "agent-3", int(time.time() * 1000))
    free(aws.clients)
    assert Parts(aws.clients).receive() is None


def test_its_inbox_ends_with_it_also_when_its_agent_has_drained(aws: Cloud):
    sqs = aws.clients.make("sqs")
    for drained in (False, True):
        sqs.create_queue(QueueName=inbox_name(NAME, DEAD))
        if not drained:
            lose(aws)
        free(aws.clients)
        assert not inboxes(aws)


def test_an_instance_without_an_agent_is_nothing_to_us(aws: Cloud):
    free(aws.clients, "i-other")


def test_what_only_this_agent_may_run_fails_at_once(aws: Cloud):
    now_ms = int(time.time() * 1000)
    job = replace(make_head(JOB, "acme", submission(target=f"host:{DEAD}"), now_ms), assigned=DEAD)
    aws.jobs.put_new(job)
    aws.agents.beat(Heartbeat(DEAD, 0, now_ms, 1, 1, ("default",), "full", "1", (JOB,)))
    aws.jobs.claim(named(JOB), DEAD, now_ms)
    free(aws.clients)
    head = aws.job(JOB)
    assert (State.FAILED, Outcome.LOST, None) == (head.state, head.outcome, head.wake_at_ms)
    assert (
        f"agent {DEAD} was lost while it ran the job, and only it may run it; its instance has "
        "ended" == head.reason
    )
    assert head.expires_at is not None
    assert not take_over(aws)
    assert aws.agents.get(DEAD) is None


class Killed(Exception):
    """The function was killed."""


def test_killed_after_any_call_and_tried_again_it_still_frees_the_job(aws: Cloud):
    visited = 0
    for point in range(1, 100):
        lose_again(aws)
        aws.clients.make("sqs").create_queue(QueueName=inbox_name(NAME, DEAD))
        session = aws.session()
        calls = iter(range(1, 1000))

        def killed(calls: Any = calls, point: int = point, **_: Any) -> None:
            if next(calls) == point:
                raise Killed

        session.get_component("event_emitter").register("after-call", killed)
        try:
            free(Clients(session))
        except Killed:
            visited += 1
            free(aws.clients)
            assert take_over(aws), f"killed after call {point}"
            assert not inboxes(aws), f"killed after call {point}"
        else:
            break
    print(f"crash points visited: {visited}")
    assert visited >= 6


def lose_again(aws: Cloud) -> None:
    """The same loss on a clean table."""
    aws.clients.make("dynamodb").delete_item(
        TableName="joblane-jobs", Key={"job_id": {"S": JOB}, "sk": {"S": "JOB"}}
    )
    while held := (parts := Parts(aws.clients)).receive():
        LaneQueue(parts.sqs, held.lane_url).delete(held.received.receipt)
    lose(aws)


@pytest.mark.parametrize("missing", ["JOBLANE_AGENTS_TABLE", "JOBLANE_QUEUE_URL_PREFIX"])
def test_a_missing_variable_is_named_at_the_cold_start(missing: str):
    environment = {k: v for k, v in ENVIRONMENT.items() if k != missing}
    with pytest.raises(ValueError, match=missing):
        Settings.model_validate(environment)


def test_an_agent_that_said_goodbye_meanwhile_stays_forgotten(aws: Cloud):
    aws.agents.end_lease(DEAD)
    assert aws.agents.get(DEAD) is None
    assert [] == list(aws.agents.read_all())
