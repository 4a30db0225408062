"""Clearing the queue of a key: exactly its waiting jobs are cancelled, and lost slots are freed."""

from dataclasses import replace
from typing import Any

import pytest
from aws_lambda_powertools.logging import Logger

from functions.sequel.handler import Settings
from joblane.aws.clients import Clients
from joblane.aws.key.keyed_jobs import KeyedJobs
from joblane.aws.key.keys import KeyStore
from joblane.aws.queue.lanes import Lanes
from joblane.job.edit import plan_edit
from joblane.key.policy import KeyLimits
from joblane.service.job.operations import Operations
from joblane.service.key.clear import PAGE, ClearResult, KeyClear
from joblane.service.key.release import KeyRelease
from joblane.state.lifecycle import State
from joblane.state.retention import Retention
from tests.support.aws import DESCRIPTOR, NAME, configure
from tests.support.keyed import NOW_MS, Deployed
from tests.support.keys import KEY, job, keys_of, put_keyed, stored

WHY = "cancelled by an operator"


def clear(at: Deployed, clients: Clients | None = None) -> ClearResult:
    """Clear the queue of the key."""
    clients = clients or at.aws.clients
    dynamodb = clients.make("dynamodb")
    settings = configure(Settings)
    jobs = KeyedJobs(dynamodb, settings.jobs_table, KeyStore(dynamodb, settings.keys_table))
    lanes = Lanes(clients.make("sqs"), DESCRIPTOR.queue_url_prefix, NAME)
    operations = Operations(jobs, lanes, Retention())
    releases = KeyRelease(jobs.keys, jobs, lanes, Logger(), lambda: at.now)
    return KeyClear(jobs, operations, releases).clear("acme", KEY, WHY, int(at.now * 1000))


def test_jobs_that_wait_are_cancelled_and_no_others(at: Deployed):
    put_keyed(at.aws, active="A", queued="BCD")
    assert ClearResult((job("B"), job("C"), job("D")), 0) == clear(at)
    assert ({"A": 10}, "") == (at.active(), at.queued())
    assert (State.PENDING, State.CANCELLED) == (at.head("A").state, at.head("B").state)
    assert WHY == at.head("B").reason
    version = stored(at.aws).version
    assert 0 == at.deliver()
    assert version == stored(at.aws).version
    assert [] == at.sent()


def test_a_page_at_a_time(at: Deployed):
    limits = KeyLimits(max_queued=1000)
    put_keyed(at.aws, active="A", limits=limits)
    seen = stored(at.aws)
    assert PAGE < 1000
    many = tuple(f"{job('B')[:-4]}{n:04d}" for n in range(PAGE + 2))
    keys_of(at.aws).write(seen, replace(seen.state, queued=many), NOW_MS)
    # They are gone, so none is cancelled, and all of a page are taken out.
    assert ClearResult((), 2) == clear(at)
    assert 2 == len(stored(at.aws).state.queued)
    assert ClearResult((), 0) == clear(at)


def test_a_job_that_gets_its_slot_meanwhile_is_not_cancelled(at: Deployed):
    put_keyed(at.aws, active="A", queued="BC")
    emitter, clients = at.own_clients()

    def pass_on(**_: Any) -> None:
        emitter.unregister("after-call.dynamodb.BatchGetItem", pass_on)
        at.end("A")
        at.deliver()

    emitter.register("after-call.dynamodb.BatchGetItem", pass_on)
    assert ClearResult((job("C"),), 0) == clear(at, clients)
    assert ({"B": 11}, "", ["B"]) == (at.active(), at.queued(), at.sent())
    assert State.PENDING is at.head("B").state


def test_a_job_that_is_edited_meanwhile_is_cancelled(at: Deployed):
    put_keyed(at.aws, active="A", queued="BC")
    emitter, clients = at.own_clients()

    def edit(**_: Any) -> None:
        if at.head("B").edit == 0:
            seen, now_ms = at.head("B"), int(at.now * 1000)
            spec = seen.spec.model_copy(update={"priority": "high"})
            at.aws.jobs.edit(seen, plan_edit(seen, spec, now_ms, "edited"), now_ms)

    emitter.register("before-call.dynamodb.UpdateItem", edit)
    assert ClearResult((job("B"), job("C")), 0) == clear(at, clients)
    assert (State.CANCELLED, 1) == (at.head("B").state, at.head("B").edit)


@pytest.mark.parametrize("end", ["failed", "deleted"])
def test_a_slot_whose_end_was_lost_is_freed(at: Deployed, end: str):
    put_keyed(at.aws, active="A", queued="B")
    if end == "deleted":
        at.aws.jobs.delete(job("A"))
    else:
        at.end("A", State.FAILED)
    at.stream.take()
    assert ClearResult((job("B"),), 0) == clear(at)
    assert stored(at.aws).state.idle


def test_a_key_without_jobs_is_no_error(at: Deployed):
    assert ClearResult((), 0) == clear(at)
