"""Keys whose jobs are over, and nothing has brought their ends: who looks passes the slots on.

The ends are lost as by a mapping that was not there: `at.stream.take()` and nothing reads it.
"""

from collections import Counter
from typing import Any

import pytest

from functions.requeue import handler as requeue
from functions.submission import handler as submission_function
from joblane.aws.clients import Clients
from joblane.aws.errors import AwsSilent
from joblane.aws.key.keys import LOOK_MS
from joblane.formats.times import rfc3339
from joblane.key.policy import KeyLimits, WhenFull
from joblane.service.key.watch import JOBS
from joblane.state.lifecycle import State
from tests.support.aws import Cloud, configure
from tests.support.jobs import named
from tests.support.keyed import NOW, Deployed
from tests.support.keys import START_MS, body, job, keys_of, put_keyed, stored
from tests.support.requests import Api

QUARTER_S = LOOK_MS / 1000


def api(aws: Cloud, now: float = NOW, clients: Clients | None = None) -> Api:
    settings = configure(submission_function.Settings)
    return Api(submission_function.build(settings, clients or aws.clients, lambda: now))


def minute(aws: Cloud, at_s: float, clients: Clients | None = None) -> Counter[str]:
    """Run the requeue function."""
    settings = configure(requeue.Settings)
    return requeue.build(settings, clients or aws.clients, lambda: at_s).run(lambda: 60.0)


def lose(at: Deployed, *letters: str) -> None:
    """End jobs, and lose what the stream says of it."""
    for letter in letters:
        if at.head(letter).state is State.WAITING:
            at.cancel(letter)
        else:
            at.end(letter)
    at.stream.take()


def test_a_job_gets_the_slot_of_one_that_is_over(at: Deployed):
    put_keyed(at.aws, active="A", limits=KeyLimits())
    lose(at, "A")
    status, found = api(at.aws)("POST", "/v1/jobs", body())
    assert (202, "pending", 11) == (status, found["state"], found["slot"])
    assert {found["id"][-1]: 11} == at.active()


def test_who_waits_longest_gets_it_and_the_new_job_waits(at: Deployed):
    put_keyed(at.aws, active="A", queued="B", limits=KeyLimits(max_queued=1))
    lose(at, "A")
    _, found = api(at.aws)("POST", "/v1/jobs", body(max_queued=1))
    assert "waiting" == found["state"]
    assert ({"B": 11}, State.PENDING, 11) == (at.active(), at.head("B").state, at.head("B").slot)
    assert ["B"] == at.sent()
    # The end comes late, or again: nothing changes, but those that have not started are sent again.
    assert 0 == at.deliver()


def test_a_job_is_accepted_although_the_one_that_got_the_slot_could_not_be_let_go(at: Deployed):
    put_keyed(at.aws, active="A", queued="B", limits=KeyLimits(max_queued=1), now_ms=START_MS)
    lose(at, "A")
    emitter, clients = at.own_clients()

    def fail(**_: Any) -> None:
        raise AwsSilent(error="x")

    emitter.register("before-call.dynamodb.UpdateItem", fail)
    status, found = api(at.aws, clients=clients)("POST", "/v1/jobs", body(max_queued=1))
    assert (202, "waiting", State.WAITING) == (status, found["state"], at.head("B").state)
    assert {} == minute(at.aws, NOW + QUARTER_S)
    assert (State.PENDING, ["B"]) == (at.head("B").state, at.sent())


def test_one_that_waits_and_is_over_is_not_replaced_but_leaves_its_place(at: Deployed):
    limits = KeyLimits(max_queued=2, when_full="replace-oldest")
    put_keyed(at.aws, active="A", queued="BC", limits=limits)
    lose(at, "B")
    asked = body(max_queued=2, when_full="replace-oldest")
    _, first = api(at.aws)("POST", "/v1/jobs", asked)
    _, second = api(at.aws)("POST", "/v1/jobs", asked)
    assert (None, job("C")) == (first["replaced"], second["replaced"])
    assert (job("C"), State.SKIPPED) == (at.head("C").job_id, at.head("C").state)
    assert (first["id"], second["id"]) == stored(at.aws).state.queued


def test_a_new_job_does_not_coalesce_with_one_that_is_over(at: Deployed):
    put_keyed(at.aws, active="A", limits=KeyLimits(when_full="coalesce"))
    lose(at, "A")
    status, found = api(at.aws)("POST", "/v1/jobs", body(when_full="coalesce"))
    assert (202, "accepted", "pending") == (status, found["admission"], found["state"])


def test_a_job_that_is_retried_meanwhile_keeps_its_slot(at: Deployed):
    """The key has changed since it was read, so the admission decides anew."""
    put_keyed(at.aws, active="A", limits=KeyLimits())
    at.end("A", State.FAILED)
    at.stream.take()
    emitter, clients = at.own_clients()

    def retry(**_: Any) -> None:
        emitter.unregister("before-call.dynamodb.TransactWriteItems", retry)
        assert 202 == api(at.aws)("POST", f"/v1/jobs/{job('A')}/retry")[0]

    emitter.register("before-call.dynamodb.TransactWriteItems", retry)
    status, problem = api(at.aws, clients=clients)("POST", "/v1/jobs", body())
    assert (409, "active-limit") == (status, problem["reason"])
    assert ({"A": 11}, State.PENDING) == (at.active(), at.head("A").state)


@pytest.mark.parametrize("when_full", ["reject", "coalesce", "replace-oldest"])
def test_a_scheduled_job_gets_the_slot_of_one_that_is_over(at: Deployed, when_full: WhenFull):
    put_keyed(at.aws, active="A", limits=KeyLimits(when_full=when_full))
    due = rfc3339(START_MS + 60_000)
    _, later = api(at.aws)("POST", "/v1/jobs", {**body(when_full=when_full), "run_at": due})
    lose(at, "A")
    assert {"Woken": 1} == minute(at.aws, NOW + 60)
    assert {later["id"]: 11} == dict(stored(at.aws).state.active)


def test_a_job_that_is_retried_gets_the_slot_of_one_that_is_over(at: Deployed):
    put_keyed(at.aws, active="A", limits=KeyLimits())
    at.end("A", State.FAILED)
    at.deliver()
    _, found = api(at.aws)("POST", "/v1/jobs", body())
    at.aws.jobs.delete(found["id"])
    at.stream.take()
    assert 202 == api(at.aws)("POST", f"/v1/jobs/{job('A')}/retry")[0]
    assert ({"A": 12}, State.PENDING) == (at.active(), at.head("A").state)


def test_a_key_that_jobs_wait_for_is_looked_at_after_a_quarter_of_an_hour(at: Deployed):
    put_keyed(at.aws, active="A", queued="B", now_ms=START_MS)
    lose(at, "A")
    assert {} == minute(at.aws, NOW + QUARTER_S - 1)
    assert {"Lost": 1} == minute(at.aws, NOW + QUARTER_S)
    assert ({"B": 11}, State.PENDING, ["B"]) == (at.active(), at.head("B").state, at.sent())
    assert {} == minute(at.aws, NOW + 2 * QUARTER_S)
    assert (None, []) == (stored(at.aws).look_at_ms, at.sent())


def test_a_key_whose_holder_runs_is_left_alone_and_looked_at_again(at: Deployed):
    put_keyed(at.aws, active="A", queued="B", now_ms=START_MS)
    at.aws.jobs.claim(named(job("A")), "agent-1", START_MS)
    before = stored(at.aws)
    assert {} == minute(at.aws, NOW + QUARTER_S)
    after = stored(at.aws)
    assert (before.version, before.state) == (after.version, after.state)
    assert START_MS + 2 * LOOK_MS == after.look_at_ms


def test_the_last_one_that_waited_goes_although_its_grant_was_not_moved(at: Deployed):
    """Sequel was killed after it wrote the key, and the end does not come again."""
    put_keyed(at.aws, active="A", queued="B", now_ms=START_MS)
    at.end("A")
    emitter, clients = at.own_clients()

    def kill(**_: Any) -> None:
        raise KeyboardInterrupt

    emitter.register("before-call.dynamodb.UpdateItem", kill)
    with pytest.raises(KeyboardInterrupt):
        at.function(clients).handle(at.stream.take())
    assert ({"B": 11}, State.WAITING) == (at.active(), at.head("B").state)
    assert {} == minute(at.aws, NOW + QUARTER_S)
    assert (State.PENDING, ["B"]) == (at.head("B").state, at.sent())


def test_a_job_that_waits_in_its_lane_gets_no_message_with_every_look(at: Deployed):
    put_keyed(at.aws, active="A", queued="BC", now_ms=START_MS)
    lose(at, "A")
    sent = []
    for number in range(1, 9):
        minute(at.aws, NOW + number * QUARTER_S)
        sent.append(len(at.sent()))
    assert [1, 1, 1, 0, 0, 0, 0, 0] == sent


def test_of_a_long_queue_the_first_ones_are_looked_at(at: Deployed):
    put_keyed(at.aws, active="A", limits=KeyLimits(max_queued=1000))
    seen = stored(at.aws)
    many = tuple(f"{job('B')[:-4]}{n:04d}" for n in range(JOBS + 2))
    state = seen.state.__class__(seen.state.grants, seen.state.active, many, seen.state.limits)
    keys_of(at.aws).write(seen, state, START_MS)
    assert {"Lost": JOBS} == minute(at.aws, NOW + QUARTER_S)
    assert 2 == len(stored(at.aws).state.queued)


def test_a_key_that_cannot_be_handled_is_looked_at_in_a_minute(at: Deployed):
    put_keyed(at.aws, active="A", queued="B", now_ms=START_MS)
    lose(at, "A")
    emitter, clients = at.own_clients()
    failing = [True]

    def fail(**_: Any) -> None:
        if failing:
            failing.clear()
            raise AwsSilent(error="x")

    emitter.register("before-call.dynamodb.PutItem", fail)
    assert {} == minute(at.aws, NOW + QUARTER_S, clients)
    assert {"Lost": 1} == minute(at.aws, NOW + QUARTER_S + 60, clients)
    assert {"B": 11} == at.active()
