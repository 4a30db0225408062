"""Jobs with a key on the paths that every job may take, and submissions while slots are freed."""

from dataclasses import replace
from typing import Any

import pytest

from functions.admin import handler as admin
from functions.dead_letter import handler as dead_letter
from functions.instance_end import handler as instance_end
from functions.requeue import handler as requeue
from functions.submission import handler as submission
from joblane.aws.clients import Clients
from joblane.deployment.names import dead_letter_name
from joblane.formats.times import rfc3339
from joblane.job.moves import AttemptFacts
from joblane.key.policy import KeyLimits
from joblane.state.lease import Heartbeat
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.agents import Parts
from tests.support.aws import NAME, configure
from tests.support.jobs import named
from tests.support.keyed import LANE, NOW, NOW_MS, Deployed
from tests.support.keys import job, put_keyed, stored
from tests.support.requests import Api

KEYED = {
    "command": ["true"],
    "concurrency": {"key": ["customer", "acme"], "max_active": 1, "max_queued": 1},
}


def api(at: Deployed, clients: Clients | None = None) -> Api:
    """The function of submissions."""
    settings = configure(submission.Settings)
    return Api(submission.build(settings, clients or at.aws.clients, lambda: at.now))


def operator(at: Deployed) -> Api:
    """The function of operators."""
    return Api(admin.build(configure(admin.Settings), at.aws.clients, lambda: at.now))


def minute(at: Deployed) -> None:
    """The requeue function's minute."""
    requeue.build(configure(requeue.Settings), at.aws.clients, lambda: at.now).run(lambda: 60.0)


def letter(at: Deployed, of: str) -> None:
    """SQS gives up a job's message."""
    source = f"arn:aws:sqs:us-east-1:123456789012:{dead_letter_name(NAME)}"
    body = named(job(of)).encode()
    record = {"messageId": "m-1", "body": body, "eventSourceARN": source}
    settings = configure(dead_letter.Settings)
    dead_letter.build(settings, at.aws.clients, lambda: at.now).handle([record])


def sent(at: Deployed) -> list[str]:
    """Ids of the jobs whose messages are in any lane."""
    return [body["job_id"] for body in at.messages()]


def test_a_dead_letter_frees_the_slot_of_its_job(at: Deployed):
    put_keyed(at.aws, active="A", queued="B")
    letter(at, "A")
    assert State.DEAD is at.head("A").state
    assert 1 == at.deliver()
    assert ({"B": 11}, ["B"]) == (at.active(), at.sent())


def test_a_dead_letter_of_a_job_that_waits_changes_nothing(at: Deployed):
    """Its message was sent before it had to wait; another one comes with its slot."""
    put_keyed(at.aws, active="A", queued="B")
    before = at.head("B")
    letter(at, "B")
    assert before == at.head("B")
    assert "B" == at.queued()


def test_a_job_that_waits_expires_at_its_deadline_and_leaves_the_queue(at: Deployed):
    put_keyed(at.aws, active="A", queued="BC", deadline=rfc3339(NOW_MS + 5_000))
    at.end("A", State.FAILED)
    at.deliver()
    assert "C" == at.queued()
    at.now += 60
    minute(at)
    assert (State.EXPIRED, State.EXPIRED) == (at.head("B").state, at.head("C").state)
    at.deliver()
    assert stored(at.aws).state.idle


def test_fresh_messages_are_sent_for_jobs_with_a_slot_only(at: Deployed):
    put_keyed(at.aws, active="A", queued="B")
    status, _ = operator(at)("POST", "/v1/queues/_all/requeue")
    assert (200, ["A"]) == (status, at.sent())


def test_a_blocked_job_whose_condition_never_holds_frees_its_slot(at: Deployed):
    put_keyed(at.aws, active="A", queued="B")
    head = at.aws.jobs.claim(named(job("A")), "agent-1", NOW_MS)
    step = Step(State.BLOCKED, NOW_MS, 1, "blocked")
    blocked = at.aws.jobs.block(head, step, "app:x", AttemptFacts(Outcome.BLOCKED))
    at.deliver()
    assert {"A": 10} == at.active()
    at.cancel("A")
    assert blocked.slot == 10
    assert 1 == at.deliver()
    assert {"B": 11} == at.active()


def test_the_end_of_an_instance_frees_the_slot_of_its_job_under_fail_stale(at: Deployed):
    limits = KeyLimits(max_queued=9, stale_policy="fail-stale")
    put_keyed(at.aws, active="A", queued="B", limits=limits)
    at.aws.jobs.claim(named(job("A")), "i-1", NOW_MS)
    row = Heartbeat("i-1", 0, NOW_MS, 1, 1, ("default",), "full", "1", (job("A"),))
    at.aws.agents.beat(row)
    instance_end.build(configure(instance_end.Settings), at.aws.clients).free("i-1")
    parts = Parts(at.aws.clients, name="agent-2", clock=lambda: NOW + 1)
    assert parts.claim(parts.take()) is None
    assert State.STALE is at.head("A").state
    assert 1 == at.deliver()
    assert ["B"] == at.sent()


# --- submissions while slots are freed


def after(at: Deployed, call: str, do: Any, number: int = 1) -> Clients:
    """Clients of a process in which something happens once, after so many calls of a kind."""
    emitter, clients = at.own_clients()
    left = [do, *[lambda: None] * (number - 1)]

    def once(**_: Any) -> None:
        if left:
            left.pop()()

    emitter.register(f"after-call.{call}", once)
    return clients


def submit_keyed(at: Deployed, clients: Clients | None = None) -> tuple[int, Any]:
    """Submit a job of the key."""
    return api(at, clients)("POST", "/v1/jobs", KEYED)


@pytest.fixture(name="first")
def _first(at: Deployed) -> str:
    """A job that has the only slot, with its message in the lane."""
    _, accepted = submit_keyed(at)
    return str(accepted["id"])


def end(at: Deployed, job_id: str) -> None:
    """An agent runs a job to its end, and the stream brings it to sequel."""
    head = at.aws.jobs.claim(named(job_id), "agent-1", NOW_MS)
    step = Step(State.COMPLETED, NOW_MS + 1, 1, "exit code 0")
    at.aws.jobs.settle(head, step, AttemptFacts(Outcome.SUCCEEDED, expires_at=int(NOW) + 99))
    at.deliver()


def test_a_job_that_decided_to_wait_gets_the_slot_that_was_freed_meanwhile(
    at: Deployed, first: str
):
    clients = after(at, "dynamodb.GetItem", lambda: end(at, first))
    status, second = submit_keyed(at, clients)
    assert (202, "pending") == (status, second["state"])
    assert {second["id"]: second["slot"]} == dict(stored(at.aws).state.active)
    assert second["id"] in sent(at)
    assert 0 == at.deliver()


def test_a_refusal_was_true_when_the_key_was_read(at: Deployed, first: str):
    _, second = submit_keyed(at)
    # The first one reads what agents can give.
    clients = after(at, "dynamodb.BatchGetItem", lambda: end(at, first), 2)
    status, problem = submit_keyed(at, clients)
    assert (409, 1, 1) == (status, problem["active"], problem["queued"])
    assert [second["id"]] == list(stored(at.aws).state.active)
    status, third = submit_keyed(at)
    assert (202, "waiting") == (status, third["state"])


def test_sequel_sees_a_job_that_begins_to_wait_meanwhile(at: Deployed, first: str):
    head = at.aws.jobs.claim(named(first), "agent-1", NOW_MS)
    step = Step(State.COMPLETED, NOW_MS + 1, 1, "exit code 0")
    at.aws.jobs.settle(head, step, AttemptFacts(Outcome.SUCCEEDED, expires_at=int(NOW) + 99))
    found: list[Any] = []
    clients = after(at, "dynamodb.GetItem", lambda: found.append(submit_keyed(at)))
    assert 1 == at.function(clients).handle(at.stream.take())
    ((_, second),) = found
    assert "waiting" == second["state"]
    assert [second["id"]] == list(stored(at.aws).state.active)
    assert second["id"] in sent(at)


def test_a_job_that_lost_its_slot_after_its_message_was_sent_waits_and_gets_another_message(
    at: Deployed,
):
    found: list[Any] = []
    clients = after(at, "sqs.SendMessage", lambda: found.append(submit_keyed(at)))
    _, second = submit_keyed(at, clients)
    ((_, first),) = found
    assert ("pending", "waiting") == (first["state"], second["state"])
    bodies = [body["job_id"] for body in at.messages()]
    assert {first["id"], second["id"]} == set(bodies)
    # An agent finds it waiting and deletes its message; sequel sends one with its slot.
    at.aws.clients.make("sqs").purge_queue(QueueUrl=LANE)
    parts = Parts(at.aws.clients, clock=lambda: NOW)
    body = named(second["id"]).encode()
    at.aws.clients.make("sqs").send_message(QueueUrl=LANE, MessageBody=body)
    assert parts.claim(parts.take()) is None
    assert [] == list(at.memory.queues.bodies())
    end(at, first["id"])
    assert [second["id"]] == sent(at)


def test_a_replaced_holder_needs_no_handling_and_its_slot_goes_to_the_new_job(at: Deployed):
    put_keyed(at.aws, active="A", limits=KeyLimits(when_full="replace-oldest"))
    body = {**KEYED, "concurrency": {"key": ["customer", "acme"], "when_full": "replace-oldest"}}
    status, new = api(at)("POST", "/v1/jobs", body)
    assert (202, "replaced", job("A")) == (status, new["admission"], new["replaced"])
    before = stored(at.aws)
    assert 0 == at.deliver()
    assert before == stored(at.aws)
    assert replace(before.state, replaced=1) == before.state
