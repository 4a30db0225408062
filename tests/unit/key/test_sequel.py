"""What follows the end of a job with a key: slots are passed on, whatever comes twice or dies."""

import json
from dataclasses import replace
from typing import Any

import pytest

from joblane.aws.errors import AwsSilent
from joblane.contract.problems import TryAgain
from joblane.job.moves import AttemptFacts, plan
from joblane.key.policy import KeyLimits
from joblane.state.lifecycle import Event, Outcome, State
from joblane.state.timeline import SAME_ATTEMPT, Step
from tests.support.aws import FUNCTION_ENVIRONMENT
from tests.support.jobs import named
from tests.support.keyed import ALTERNATE, NOW, NOW_MS, Deployed
from tests.support.keys import KEY, job, keys_of, put_keyed, stored


def test_a_slot_goes_to_the_job_that_waited_first(at: Deployed):
    put_keyed(at.aws, active="A", queued="BC")
    at.end("A")
    assert 1 == at.deliver()
    assert ({"B": 11}, "C", ["B"]) == (at.active(), at.queued(), at.sent())
    head = at.head("B")
    assert (State.PENDING, 11) == (head.state, head.slot)
    assert "its key has a free slot" in head.reason


@pytest.mark.parametrize("state", [State.COMPLETED, State.FAILED, State.DEAD, State.STALE])
def test_every_end_frees_the_slot(at: Deployed, state: State):
    put_keyed(at.aws, active="A")
    at.end("A", state)
    at.deliver()
    state_of_key = stored(at.aws).state
    assert (True, int(state is State.STALE)) == (state_of_key.idle, state_of_key.stale)


def test_a_job_that_says_that_it_does_not_apply_frees_its_slot(at: Deployed):
    put_keyed(at.aws, active="A", queued="B")
    at.end("A", State.SKIPPED)
    assert 1 == at.deliver()
    assert ({"B": 11}, "") == (at.active(), at.queued())


def test_a_job_that_is_tried_again_or_blocked_keeps_its_slot(at: Deployed):
    put_keyed(at.aws, active="A", queued="B")
    head = at.aws.jobs.claim(named(job("A")), "agent-1", NOW_MS)
    step = Step(State.RETRY, NOW_MS, 1, "tried again")
    at.aws.jobs.settle(head, step, AttemptFacts(Outcome.FAILED, next_at_ms=NOW_MS))
    head = at.aws.jobs.claim(named(job("A")), "agent-1", NOW_MS)
    step = Step(State.BLOCKED, NOW_MS, 1, "blocked")
    at.aws.jobs.block(head, step, "app:x", AttemptFacts(Outcome.BLOCKED))
    at.aws.jobs.unblock(job("A"), "app:x", Step(State.PENDING, NOW_MS, 1, "released"))
    assert 0 == at.deliver()
    assert ({"A": 10}, "B", []) == (at.active(), at.queued(), at.sent())
    at.end("A")
    assert 1 == at.deliver()


def test_an_end_that_comes_twice_changes_nothing(at: Deployed):
    put_keyed(at.aws, active="A", queued="BC")
    at.end("A")
    records = at.stream.take()
    assert 1 == at.sequel.handle(records)
    head = at.aws.jobs.claim(named(job("B")), "agent-1", NOW_MS)
    before = stored(at.aws)
    assert 0 == at.sequel.handle(records)
    assert (before, head) == (stored(at.aws), at.head("B"))
    assert ["B"] == at.sent()


def test_ends_of_one_key_in_a_batch_are_one_write(at: Deployed):
    limits = KeyLimits(max_active=3, max_queued=9)
    put_keyed(at.aws, active="ABC", queued="DEF", limits=limits)
    version = stored(at.aws).version
    for letter in "ABC":
        at.end(letter)
    assert 3 == at.deliver()
    assert ({"D": 13, "E": 14, "F": 15}, ["D", "E", "F"]) == (at.active(), sorted(at.sent()))
    assert version + 1 == stored(at.aws).version


def test_a_job_that_is_cancelled_while_it_waits_leaves_the_queue(at: Deployed):
    put_keyed(at.aws, active="A", queued="BC")
    at.cancel("B")
    assert 0 == at.deliver()
    assert ({"A": 10}, "C", []) == (at.active(), at.queued(), at.sent())


def test_a_job_that_expires_while_it_waits_leaves_the_queue(at: Deployed):
    put_keyed(at.aws, active="A", queued="BC")
    head = at.head("B")
    step = plan(head, Event.EXPIRE, NOW_MS, "its deadline passed")
    at.aws.jobs.move(head, Event.EXPIRE, step, expires_at=int(NOW) + 999)
    at.deliver()
    assert ({"A": 10}, "C") == (at.active(), at.queued())


@pytest.mark.parametrize("letter", ["A", "B"])
def test_a_job_that_is_deleted_leaves_its_place(at: Deployed, letter: str):
    put_keyed(at.aws, active="A", queued="BC")
    at.aws.jobs.delete(job(letter))
    at.deliver()
    assert ("B" if letter == "A" else "A") == "".join(at.active())
    assert "C" == at.queued()


def test_a_job_that_is_cancelled_as_it_gets_its_slot_gives_it_to_the_next(at: Deployed):
    """The key's row is written, and the cancellation comes before the move to pending."""
    put_keyed(at.aws, active="A", queued="BC")
    at.end("A")
    ends = at.stream.take()
    emitter, clients = at.own_clients()

    def cancel(**_: Any) -> None:
        emitter.unregister("after-call.dynamodb.PutItem", cancel)
        at.cancel("B")

    emitter.register("after-call.dynamodb.PutItem", cancel)
    at.function(clients).handle(ends)
    assert ({"B": 11}, []) == (at.active(), at.sent())
    assert 1 == at.deliver()
    assert ({"C": 12}, "", ["C"]) == (at.active(), at.queued(), at.sent())


def test_a_job_that_was_retried_before_its_end_was_handled_keeps_its_slot(at: Deployed):
    heads = put_keyed(at.aws, active="A", queued="B")
    at.end("A", State.FAILED)
    late = at.stream.take()
    seen = stored(at.aws)
    again = seen.state.__class__(12, {job("A"): 12}, seen.state.queued, seen.state.limits)
    keys_of(at.aws).write(seen, again, NOW_MS)
    assert 0 == at.sequel.handle(late)
    assert ({"A": 12}, "B", []) == (at.active(), at.queued(), at.sent())
    assert heads["A"].slot == 10


def test_a_skipped_job_needs_nothing(at: Deployed):
    """The transaction that skips a job has given its place to another one."""
    put_keyed(at.aws, active="A", queued="B")
    head = at.head("B")
    step = Step(State.SKIPPED, NOW_MS, SAME_ATTEMPT, "replaced by a newer one")
    at.aws.jobs.move(head, Event.SKIP, step, expires_at=int(NOW) + 999)
    version = stored(at.aws).version
    assert 0 == at.deliver()
    assert version == stored(at.aws).version


def test_a_bad_record_is_put_aside_and_holds_up_nobody(at: Deployed):
    put_keyed(at.aws, active="A", queued="B")
    at.end("A")
    good = at.stream.take()
    bad: Any = json.loads(json.dumps(good[-1]))
    bad["dynamodb"]["NewImage"]["state"] = {"S": "no such state"}
    nonsense: list[Any] = [{}, {"dynamodb": None}, bad]
    assert 1 == at.sequel.handle([*nonsense, *good])
    assert ["B"] == at.sent()
    aside = at.messages(ALTERNATE)
    assert ["sequel"] * 3 == [letter["source"] for letter in aside]
    assert good[-1]["dynamodb"]["Keys"] in [letter["keys"] for letter in aside]


def test_a_key_that_cannot_be_read_holds_up_no_other(at: Deployed):
    ends = at.two_ends()
    rows = at.memory.tables.rows[FUNCTION_ENVIRONMENT["JOBLANE_KEYS_TABLE"]]
    rows["acme#" + KEY.encode(),]["active"] = {"S": "junk"}
    assert 1 == at.sequel.handle(ends)
    assert ["E"] == at.sent()
    (letter,) = at.messages(ALTERNATE)
    assert ("acme#" + KEY.encode(), [job("A")]) == (letter["key"], letter["jobs"])


def test_a_submission_that_comes_in_between_is_not_overwritten(at: Deployed):
    """Sequel reads version 1, a submission queues C in version 2, and the write is refused."""
    put_keyed(at.aws, active="A", queued="B")
    at.end("A")
    ends = at.stream.take()
    emitter, clients = at.own_clients()
    answers = iter([True, True, False])

    def queue(parsed: Any, **_: Any) -> None:
        if "version" in parsed.get("Item", {}) and next(answers):
            seen = stored(at.aws)
            queued = (*seen.state.queued, job("C" if len(seen.state.queued) == 1 else "D"))
            keys_of(at.aws).write(seen, replace(seen.state, queued=queued), NOW_MS)

    emitter.register("after-call.dynamodb.GetItem", queue)
    at.function(clients).handle(ends)
    assert ({"B": 11}, "CD", ["B"]) == (at.active(), at.queued(), at.sent())


def test_a_key_that_never_stops_changing_is_handled_again(at: Deployed):
    ends = at.two_ends()
    emitter, clients = at.own_clients()

    def change(parsed: Any, **_: Any) -> None:
        if parsed.get("Item", {}).get("key", {}).get("S", "").endswith(KEY.hash):
            seen = stored(at.aws)
            keys_of(at.aws).write(seen, replace(seen.state, replaced=seen.version), NOW_MS)

    emitter.register("after-call.dynamodb.GetItem", change)
    with pytest.raises(TryAgain):
        at.function(clients).handle(ends)
    assert (["E"], []) == (at.sent(), at.messages(ALTERNATE))
    assert 1 == at.sequel.handle(ends)


def test_a_key_without_a_row_is_no_error(at: Deployed):
    put_keyed(at.aws, active="A")
    at.memory.tables.rows[FUNCTION_ENVIRONMENT["JOBLANE_KEYS_TABLE"]].clear()
    at.end("A")
    assert 0 == at.deliver()
    assert [] == at.messages(ALTERNATE)


def test_an_outage_delays_a_key_and_no_other(at: Deployed):
    """The function fails after it has handled the others, and Lambda brings the batch again."""
    ends = at.two_ends()
    emitter, clients = at.own_clients()

    def refuse(params: Any, **_: Any) -> None:
        if params["MessageBody"].find(job("B")) > 0:
            raise AwsSilent(error="https://sqs.test")

    emitter.register("before-parameter-build.sqs.SendMessage", refuse)
    with pytest.raises(AwsSilent):
        at.function(clients).handle(ends)
    assert (["E"], []) == (at.sent(), at.messages(ALTERNATE))
    at.now += 1
    assert 0 == at.sequel.handle(ends)
    assert "B" in at.sent()
