"""Executions of recovery that fail, vanish, hand over or race; as `test_recovery.py`."""

import json
from dataclasses import replace
from typing import Any

import pytest

from joblane.condition.state import OVERDUE_S, Phase
from joblane.job.moves import AttemptFacts
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import Step
from tests.support.jobs import named
from tests.support.recovery import World, in_memory


def test_an_execution_that_fails_is_followed_by_another(world: World):
    jobs = world.submit_and_block(URL)
    real = world.http.test
    world.http.test = _broken  # type: ignore[method-assign]
    world.machine.run(1200)
    assert "FAILED" in [e.status for e in world.machine.executions.values()]
    assert 1 == len(world.machine.running())
    world.http.test = real  # type: ignore[method-assign]
    world.recover()
    assert [State.PENDING] == world.states(jobs)


URL = "http:https://api.example.com/health"
OTHER = "tcp:db.example.com:5432"


@pytest.fixture(name="world")
def _world() -> World:
    return in_memory()


def _broken(parameter: str) -> Any:
    raise RuntimeError(parameter)


def test_an_execution_that_vanished_is_noticed_by_the_next_job(world: World):
    jobs = world.submit_and_block(URL)
    world.machine.run(1)
    (execution,) = world.machine.running()
    execution.status = "ABORTED"  # and EventBridge's notice of it is lost
    world.clock.now += OVERDUE_S + 11
    jobs += world.submit_and_block(URL, first=1)
    world.recover()
    assert [State.PENDING] * 2 == world.states(jobs)


def test_a_superseded_execution_does_nothing(world: World):
    jobs = world.submit_and_block(URL)
    world.machine.run(1)
    (old,) = world.machine.running()
    old.due = float("inf")
    world.function({"detail": {"input": json.dumps(old.input)}})
    world.recover(seconds=600)
    assert [State.PENDING] == world.states(jobs)
    asked = world.http.asked
    old.due = 0
    world.machine.run()
    assert "SUCCEEDED" == old.status
    assert asked == world.http.asked


def test_a_job_that_blocks_on_something_else_is_not_let_go_by_the_first(world: World):
    """Its row in the first list is stale: the function died before it dropped it."""
    early = world.submit_and_block(URL, first=5)
    world.clock.now += 1
    (job_id,) = world.submit_and_block(URL)
    head = world.jobs.get(job_id)
    assert head is not None
    world.jobs.unblock(job_id, URL, Step(State.PENDING, world.now_ms, 0, "let go"))
    claimed = world.jobs.claim(named(job_id), "agent-1", world.now_ms)
    step = Step(State.BLOCKED, world.now_ms, 0, "exit code 75", records=0)
    blocked = world.jobs.block(claimed, step, OTHER, AttemptFacts(Outcome.BLOCKED))
    world.supervisor.join(OTHER, blocked, world.now_ms)
    world.recover(seconds=600)
    assert [State.BLOCKED, State.PENDING] == world.states([job_id, *early])
    assert 1 == len(world.receive_all())
    assert 1 == world.http.asked
    world.tcp.allow = 10
    world.machine.run()
    assert [State.PENDING] == world.states([job_id])


def test_an_execution_hands_over_before_its_history_is_full(world: World):
    world.max_steps = 20
    world.policies = {"http": {"policy": "constant", "every_s": 1}}
    jobs = world.submit_and_block(URL)
    world.machine.run(50)
    executions = list(world.machine.executions.values())
    assert 3 == len(executions)
    assert ["SUCCEEDED", "SUCCEEDED", "RUNNING"] == [e.status for e in executions]
    assert all(len(e.calls) <= 20 for e in executions)
    row = world.conditions.get(URL)
    assert row is not None
    assert row.tests > 40  # the policy goes on, it does not start over
    world.recover()
    assert [State.PENDING] == world.states(jobs)


@pytest.mark.parametrize("for_good", [False, True])
def test_who_died_while_closing_finds_the_job_that_joined_meanwhile(world: World, for_good: bool):
    """The job read `running` a moment before; nobody but this execution will look at it."""
    jobs = world.submit_and_block(URL)
    world.machine.run(1)
    row = world.conditions.get(URL)
    assert row is not None
    assert world.conditions.write(
        row, replace(row, phase=Phase.CLOSED, next_ms=None, closed_ms=world.now_ms)
    )
    (execution,) = world.machine.running()
    if for_good:
        execution.status = "FAILED"
        world.function({"detail": {"input": json.dumps(execution.input)}})
    world.recover()
    assert [State.PENDING] == world.states(jobs)


def test_of_two_who_would_open_a_condition_one_does(world: World):
    world.submit_and_block(URL)
    world.recover()
    closed = world.conditions.get(URL)
    assert closed is not None
    one = replace(closed, generation=closed.generation + 1, phase=Phase.OPENING, closed_ms=None)
    other = replace(one, generation=closed.generation + 2)
    assert world.conditions.write(closed, one)
    assert not world.conditions.write(closed, other)
    assert world.conditions.write(closed, one)  # the SDK's repetition
    assert one == world.conditions.get(URL)
    assert not world.conditions.write(None, other)


def test_a_job_that_blocks_again_before_its_old_entry_is_dropped_stays_in_the_list(world: World):
    (job_id,) = world.submit_and_block(URL)
    (entry,) = world.conditions.waiting(URL, 2)
    world.jobs.unblock(job_id, URL, Step(State.PENDING, world.now_ms, 0, "let go"))
    world.lane().send(named(job_id))
    world.clock.now += 1
    for received in world.receive_all():
        world.block(received, URL)
    world.conditions.drop(URL, entry)
    (again,) = world.conditions.waiting(URL, 2)
    assert (job_id, world.now_ms) == (again.job_id, again.blocked_ms)
