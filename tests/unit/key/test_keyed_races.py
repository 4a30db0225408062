"""The races of admission: two requests, or a request and an agent, between a read and its write.

The time-lines are in `joblane.aws.key.keyed_jobs` and `joblane.aws.job.moves`.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from functions.submission.handler import Settings, build
from joblane.aws.clients import Clients
from joblane.aws.job.idempotency import IdempotencyStore
from joblane.job.idempotency import idempotency_key
from joblane.job.moves import AttemptFacts
from joblane.key.decide import End, release
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.aws import DESCRIPTOR, Cloud, configure
from tests.support.jobs import named
from tests.support.keys import START_MS, body, job, keys_of, put_keyed, stored, take_messages
from tests.support.requests import Api

TRANSACTION = "before-call.dynamodb.TransactWriteItems"
NOW = START_MS / 1000


def api(clients: Clients) -> Api:
    return Api(build(configure(Settings), clients, lambda: NOW))


def before_write(aws: Cloud, act: Callable[[int], object], times: int = 1) -> Api:
    """The submission function, in which `act` happens before each of its first transactions."""
    session, count = aws.session(), 0

    def once(**_: Any) -> None:
        nonlocal count
        count += 1
        if count <= times:
            act(count)

    session.get_component("event_emitter").register(TRANSACTION, once)
    return api(Clients(session))


def fail(aws: Cloud, job_id: str) -> None:
    """Let an agent end a job."""
    head = aws.jobs.claim(named(job_id), "agent-1", START_MS)
    step = Step(State.FAILED, START_MS, head.attempt, "exit code 65")
    aws.jobs.settle(head, step, AttemptFacts(Outcome.FAILED, expires_at=START_MS))


def free(aws: Cloud, end: End) -> None:
    """What sequel writes when a job of the key has ended."""
    seen = stored(aws)
    state = release(seen.state, [end]).state
    assert state is not None
    keys_of(aws).write(seen, state, START_MS)


def test_of_two_submissions_at_once_one_gets_the_slot(aws: Cloud):
    other = api(aws.clients)
    first: list[Any] = []
    slow = before_write(
        aws, lambda _: first.append(other("POST", "/v1/jobs", body(max_queued=1))[1])
    )
    status, second = slow("POST", "/v1/jobs", body(max_queued=1))
    assert (202, "pending", "waiting") == (status, first[0]["state"], second["state"])
    key = stored(aws).state
    assert ([first[0]["id"]], (second["id"],)) == (list(key.active), key.queued)
    # The second one's message was sent before it lost its slot: an agent finds it waiting.
    assert 2 == take_messages(aws)
    head = aws.job(second["id"])
    assert (State.WAITING, None) == (head.state, head.slot)


def test_of_two_submissions_at_once_to_a_key_without_a_queue_one_is_refused(aws: Cloud):
    other = api(aws.clients)
    slow = before_write(aws, lambda _: other("POST", "/v1/jobs", body()))
    status, problem = slow("POST", "/v1/jobs", body())
    assert (409, 1, 0) == (status, problem["active"], problem["queued"])
    assert 1 == len(stored(aws).state.active)


def test_a_slot_that_is_freed_before_a_job_waits_goes_to_it(aws: Cloud):
    slot = put_keyed(aws, active="A")["A"].slot
    slow = before_write(aws, lambda _: free(aws, End(job("A"), slot)))
    status, found = slow("POST", "/v1/jobs", body(max_queued=1))
    assert (202, "pending", 1) == (status, found["state"], take_messages(aws))
    assert {found["id"]: found["slot"]} == stored(aws).state.active


def test_a_key_whose_holder_has_ended_is_not_refused_before_its_slot_is_freed(aws: Cloud):
    """Who waits for a job to end and then submits the next must not be told that the key is full.

    submission                   jobs, keys                 sequel
                                 A completed, A active
    reads: full, and A has ended
                                 nobody active      <-----  A ended
    reads again: accepted
    """
    slot = put_keyed(aws, active="A")["A"].slot
    fail(aws, job("A"))
    reads = 0

    def read(**_: Any) -> None:
        nonlocal reads
        reads += 1
        if reads == 1:
            free(aws, End(job("A"), slot))

    session = aws.session()
    # After the key was read: the holders are read.
    session.get_component("event_emitter").register("before-call.dynamodb.BatchGetItem", read)
    status, found = api(Clients(session))("POST", "/v1/jobs", body())
    assert (202, "pending") == (status, found["state"])
    assert {found["id"]: found["slot"]} == stored(aws).state.active


def test_a_job_that_starts_is_not_replaced(aws: Cloud):
    put_keyed(aws, active="A")
    slow = before_write(aws, lambda _: aws.jobs.claim(named(job("A")), "agent-1", START_MS))
    status, problem = slow("POST", "/v1/jobs", body(when_full="replace-oldest"))
    assert (409, "active-limit") == (status, problem["reason"])
    head = aws.job(job("A"))
    assert State.ACTIVE is head.state
    assert [job("A")] == list(stored(aws).state.active)


def test_a_job_that_waited_and_was_granted_a_slot_is_not_replaced(aws: Cloud):
    slot = put_keyed(aws, active="A", queued="B")["A"].slot
    slow = before_write(aws, lambda _: free(aws, End(job("A"), slot)))
    status, found = slow("POST", "/v1/jobs", body(when_full="replace-oldest", max_queued=1))
    assert (202, "waiting", None) == (status, found["state"], found["replaced"])
    assert [job("B")] == list(stored(aws).state.active)


def test_of_two_retries_at_once_one_gets_the_slot(aws: Cloud):
    other = api(aws.clients)
    ids = []
    for _ in range(2):
        _, found = other("POST", "/v1/jobs", body())
        fail(aws, found["id"])
        free(aws, End(found["id"], found["slot"]))
        ids.append(found["id"])
    slow = before_write(aws, lambda _: other("POST", f"/v1/jobs/{ids[1]}/retry"))
    status, problem = slow("POST", f"/v1/jobs/{ids[0]}/retry")
    assert (409, [ids[1]]) == (status, list(stored(aws).state.active))
    assert "is full: 1 of 1 jobs active" in problem["detail"]


def test_a_key_that_changes_before_every_write_is_answered_503(
    aws: Cloud, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("joblane.service.decide_again.FIRST_PAUSE_S", 0.0)
    store = keys_of(aws)

    def disturb(_: int) -> None:
        seen = stored(aws)
        store.write(seen, seen.state, START_MS)

    status, problem = before_write(aws, disturb, times=99)("POST", "/v1/jobs", body())
    assert (503, True) == (status, "try again in a moment" in problem["detail"])
    assert not stored(aws).state.active
    answer = before_write(aws, disturb, times=99).raw("POST", "/v1/jobs", body())
    assert "1" == answer["headers"]["Retry-After"]


def test_two_requests_at_once_with_one_idempotency_key_make_one_job(aws: Cloud):
    headers = {"idempotency-key": "once"}
    other, session = api(aws.clients), aws.session()
    made: list[Any] = []

    def overtake(**_: Any) -> None:
        """After it has looked for its job, and before it reads the job's key."""
        if not made:
            made.append(other("POST", "/v1/jobs", body(), headers=headers)[1])

    session.get_component("event_emitter").register("after-call.dynamodb.BatchGetItem", overtake)
    keys = IdempotencyStore(aws.clients.make("dynamodb"), DESCRIPTOR.jobs_table)
    used = idempotency_key("acme", "once", ("POST", "/v1/jobs", json.dumps(body())))
    keys.claim(used, job("C"), START_MS // 1000)  # the first one died after this
    status, found = api(Clients(session))("POST", "/v1/jobs", body(), headers=headers)
    assert (202, job("C"), job("C")) == (status, found["id"], made[0]["id"])
    assert [job("C")] == list(stored(aws).state.active)


def test_a_transaction_whose_answer_was_lost_is_found_again(aws: Cloud):
    """The SDK has given up on it, and the client repeats the request under its key."""
    session = aws.session()
    lost: list[object] = []

    def lose(**_: Any) -> None:
        if not lost:
            lost.append(True)
            raise TimeoutError("the answer was lost")

    session.get_component("event_emitter").register("after-call.dynamodb.TransactWriteItems", lose)
    slow = api(Clients(session))
    headers = {"idempotency-key": "once"}
    assert 500 == slow("POST", "/v1/jobs", body(), headers=headers)[0]
    (job_id,) = stored(aws).state.active
    status, found = slow("POST", "/v1/jobs", body(), headers=headers)
    assert (202, job_id) == (status, found["id"])
    assert [job_id] == list(stored(aws).state.active)
