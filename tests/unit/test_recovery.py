"""Recovery: the real function and state machine, over an AWS in memory and a clock that jumps."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from joblane.aws.directory import AppStore
from joblane.condition.state import OVERDUE_S, RELAPSE_S, Phase
from joblane.job.lease import Heartbeat
from joblane.job.lifecycle import Event, Outcome, State
from joblane.job.message import Message
from joblane.job.moves import AttemptFacts, plan
from joblane.job.timeline import Step
from tests.support.recovery import TABLE, World, compared, in_memory

URL = "http:https://api.example.com/health"
OTHER = "tcp:db.example.com:5432"
HOUR = 3600


COMPARED = {
    "test_a_condition_that_was_well_for_long_starts_over",
    "test_a_job_that_blocks_on_something_else_is_not_let_go_by_the_first",
    "test_an_application_declared_down_holds_its_jobs",
    "test_an_execution_that_vanished_is_noticed_by_the_next_job",
    "test_an_unknown_quota_or_capacity_fails_the_job_and_names_no_other",
    "test_nothing_is_tested_for_jobs_that_were_cancelled_or_deleted",
    "test_nothing_logs_the_parameters_of_a_condition",
    "test_of_two_who_would_open_a_condition_one_does",
    "test_slots_let_as_many_go_as_are_free",
    "test_who_died_while_closing_finds_the_job_that_joined_meanwhile",
}
"""Between them they make every kind of request; theirs are made to moto, and compared."""


@pytest.fixture(name="world")
def _world(request: pytest.FixtureRequest) -> World:
    if request.node.originalname not in COMPARED:
        return in_memory()
    request.getfixturevalue("aws")
    return compared()


def test_a_blocked_job_waits_and_goes_back_to_its_own_lane(world: World):
    urgent = world.submit(1, priority="high")
    world.block(world.lane("high").receive(1, 0)[0], URL)
    world.machine.run(3 * 60)
    assert [State.BLOCKED] == world.states([urgent])
    assert [] == world.lane("high").receive(10, 0)
    world.http.allow = 10
    world.machine.run()
    assert [State.PENDING] == world.states([urgent])
    assert 1 == len(world.lane("high").receive(10, 0))
    assert [] == world.received()
    assert "released by its condition" in world.reason(urgent)
    row = world.conditions.get(URL)
    assert row is not None
    assert (Phase.CLOSED, False) == (row.phase, row.blocks)
    head = world.jobs.claim(urgent, "agent-2", world.now_ms)
    assert 1 == head.attempt  # the blocked one was not counted


def test_25_jobs_cost_one_test_a_round(world: World):
    jobs = world.submit_and_block(URL, 25)
    assert 1 == len(world.machine.running())
    world.machine.run(2 * 10 + 10 * 20)
    assert 12 == world.http.asked
    world.http.allow = 10
    world.machine.run()
    assert [State.PENDING] * 25 == world.states(jobs)
    assert 12 + 3 == world.http.asked  # ten a round
    assert 25 == len(world.received())
    assert 1 == len(world.machine.executions)


def test_the_oldest_go_first_and_no_more_than_the_test_allows(world: World):
    jobs = world.submit_and_block(URL, 3)
    world.http.allow = 2
    world.machine.run(10)
    assert [State.PENDING, State.PENDING, State.BLOCKED] == world.states(jobs)
    world.http.allow = 0
    world.machine.run(60)
    assert [State.PENDING, State.PENDING, State.BLOCKED] == world.states(jobs)


def test_a_large_allowance_goes_in_pages(world: World):
    jobs = world.submit_and_block(URL, 60)
    world.http.allow = 1000
    world.machine.run()
    assert [State.PENDING] * 60 == world.states(jobs)
    (execution,) = world.machine.executions.values()
    assert ["begin", "test"] == execution.calls[:2]
    assert {"resubmit"} == set(execution.calls[2:])
    assert 1 == world.http.asked


def test_two_conditions_do_not_touch_each_other(world: World):
    web, data = world.submit_and_block(URL), world.submit_and_block(OTHER, first=1)
    assert 2 == len(world.machine.running())
    world.tcp.allow = 10
    world.machine.run(60)
    assert [State.BLOCKED] == world.states(web)
    assert [State.PENDING] == world.states(data)
    assert 1 == world.tcp.asked


def test_a_job_cancelled_while_blocked_stays_cancelled_and_takes_no_place(world: World):
    jobs = world.submit_and_block(URL, 3)
    head = world.jobs.get(jobs[0])
    assert head is not None
    cancel = plan(head, Event.CANCEL, world.now_ms, "cancelled by an operator")
    world.jobs.move(head, Event.CANCEL, cancel, expires_at=9)
    world.http.allow = 2
    world.machine.run(10)
    assert [State.CANCELLED, State.PENDING, State.PENDING] == world.states(jobs)
    assert 2 == len(world.received())


def test_nothing_is_tested_for_jobs_that_were_cancelled_or_deleted(world: World):
    jobs = world.submit_and_block(URL, 3)
    for job_id in jobs[:2]:
        head = world.jobs.get(job_id)
        assert head is not None
        cancel = plan(head, Event.CANCEL, world.now_ms, "cancelled by an operator")
        world.jobs.move(head, Event.CANCEL, cancel, expires_at=9)
    world.jobs.delete(jobs[2])
    world.machine.run()
    assert 0 == world.http.asked
    assert [] == world.conditions.waiting(URL, 1)
    row = world.conditions.get(URL)
    assert row is not None
    assert Phase.CLOSED is row.phase


def test_bad_parameters_fail_its_jobs_at_once_with_the_reason(world: World):
    jobs = world.submit_and_block(URL, 30)
    world.http.bad = "that address is forbidden"
    world.machine.run()
    assert [State.FAILED] * 30 == world.states(jobs)
    assert "that address is forbidden" in world.reason(jobs[0])
    assert 1 == world.http.asked
    head = world.jobs.get(jobs[0])
    assert head is not None
    assert head.expires_at is not None


def test_the_end_of_the_policy_fails_those_who_waited_so_long(world: World):
    world.policies = {"http": {"policy": "constant", "every_s": 60, "most_s": 600}}
    early = world.submit_and_block(URL, 2)
    world.machine.run(300)
    late = world.submit_and_block(URL, 1, first=2)
    world.machine.run(330)
    assert [State.FAILED] * 2 + [State.BLOCKED] == world.states(early + late)
    assert f"condition {URL}" in world.reason(early[0])
    assert "gave up after 10 min" in world.reason(early[0])
    world.machine.run()
    assert [State.FAILED] == world.states(late)
    assert [] == world.received()


def test_an_exit_75_that_nobody_explains_is_tried_later_and_later_and_then_fails(world: World):
    """`app` conditions let jobs go unless declared down; the jobs themselves say "not yet"."""
    condition = "app:default"
    world.policies = {"app": {"policy": "stepwise", "most_s": 1200}}
    (job_id,) = world.submit_and_block(condition)
    starts: list[float] = []
    end = world.clock.now + HOUR
    while world.clock.now < end and world.states([job_id]) == [State.BLOCKED]:
        world.machine.run()
        for received in world.received():
            starts.append(world.clock.now)
            world.clock.now += 1  # the job runs, and exits 75 again
            world.block(received, condition)
    assert [State.FAILED] == world.states([job_id])
    assert "blocked again after every resubmission" in world.reason(job_id)
    gaps = [after - before for before, after in pairwise(starts)]
    assert [11] * 2 + [21] * 10 + [61] * 10 + [121] * (len(gaps) - 22) == gaps
    assert 1200 - 121 < starts[-1] - starts[0] < 1200 + 121


def test_a_condition_that_was_well_for_long_starts_over(world: World):
    world.submit_and_block(URL)
    world.machine.run(400)
    world.http.allow = 10
    world.machine.run()
    world.clock.now += RELAPSE_S + 1
    world.http.allow = 0
    world.submit_and_block(URL, first=1)
    row = world.conditions.get(URL)
    assert row is not None
    assert 0 == row.tests


def test_an_application_declared_down_holds_its_jobs(world: World):
    apps = AppStore(world.aws.clients.make("dynamodb"), TABLE)
    apps.declare_down("billing", "migration", 2**40)
    jobs = world.submit_and_block("app:billing")
    world.machine.run(600)
    assert [State.BLOCKED] == world.states(jobs)
    apps.declare_up("billing")
    world.machine.run()
    assert [State.PENDING] == world.states(jobs)


@pytest.mark.parametrize("condition", ["quota:acme", "capacity:main"])
def test_slots_let_as_many_go_as_are_free(world: World, condition: str):
    jobs = world.submit_and_block(condition, 5)
    beat = Heartbeat(
        name="agent-2",
        since_ms=0,
        beat_ms=world.now_ms,
        threads=4,
        running=1,
        queues=("default",),
        isolation="namespaces",
        version="test",
    )
    world.aws.agents.beat(beat)
    world.machine.run(10)
    assert 3 == world.states(jobs).count(State.PENDING)


@pytest.mark.parametrize("condition", ["quota:nobody", "capacity:nowhere"])
def test_an_unknown_quota_or_capacity_fails_the_job_and_names_no_other(
    world: World, condition: str
):
    (job_id,) = world.submit_and_block(condition)
    world.machine.run()
    assert [State.FAILED] == world.states([job_id])
    assert "there is no" in world.reason(job_id)
    assert not any(name in world.reason(job_id) for name in ("acme", "main"))


def test_jobs_that_join_while_a_condition_is_well_wait_for_its_next_test(world: World):
    first = world.submit_and_block(URL)
    world.http.allow = 10
    world.machine.run()
    second = world.submit_and_block(URL, first=1)
    world.machine.run()
    assert [State.PENDING] * 2 == world.states(first + second)
    assert 2 == len(world.machine.executions)
    assert 2 == world.http.asked


@pytest.mark.parametrize("bad", [None, "forbidden"])
def test_nothing_logs_the_parameters_of_a_condition(
    world: World, caplog: pytest.LogCaptureFixture, bad: str | None
):
    world.http.bad, world.http.why = bad, "answers 503"
    world.submit_and_block(f"{URL}?token=s3cret")
    world.machine.run(600)
    logged = str([vars(record) for record in caplog.records])
    assert "http-" in logged  # the execution's name, which has a hash of the condition's
    assert "s3cret" not in logged
    assert "api.example.com" not in logged


def test_an_execution_that_fails_is_followed_by_another(world: World):
    jobs = world.submit_and_block(URL)
    real = world.http.test
    world.http.test = _broken  # type: ignore[method-assign]
    world.machine.run(1200)
    assert "FAILED" in [e.status for e in world.machine.executions.values()]
    assert 1 == len(world.machine.running())
    world.http.test = real  # type: ignore[method-assign]
    world.http.allow = 10
    world.machine.run()
    assert [State.PENDING] == world.states(jobs)


def _broken(parameter: str) -> Any:
    raise RuntimeError(parameter)


def test_an_execution_that_vanished_is_noticed_by_the_next_job(world: World):
    jobs = world.submit_and_block(URL)
    world.machine.run(1)
    (execution,) = world.machine.running()
    execution.status = "ABORTED"  # and EventBridge's notice of it is lost
    world.clock.now += OVERDUE_S + 11
    jobs += world.submit_and_block(URL, first=1)
    world.http.allow = 10
    world.machine.run()
    assert [State.PENDING] * 2 == world.states(jobs)


def test_a_superseded_execution_does_nothing(world: World):
    jobs = world.submit_and_block(URL)
    world.machine.run(1)
    (old,) = world.machine.running()
    old.due = float("inf")
    world.function({"detail": {"input": json.dumps(old.input)}})
    world.http.allow = 10
    world.machine.run(600)
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
    claimed = world.jobs.claim(job_id, "agent-1", world.now_ms)
    step = Step(State.BLOCKED, world.now_ms, 0, "exit code 75", records=0)
    blocked = world.jobs.block(claimed, step, OTHER, AttemptFacts(Outcome.BLOCKED))
    world.supervisor.join(OTHER, blocked, world.now_ms)
    world.http.allow = 10
    world.machine.run(600)
    assert [State.BLOCKED, State.PENDING] == world.states([job_id, *early])
    assert 1 == len(world.received())
    assert 1 == world.http.asked
    world.tcp.allow = 10
    world.machine.run()
    assert [State.PENDING] == world.states([job_id])


def test_before_the_start_the_first_condition_that_blocks_is_named(world: World):
    world.http.allow = world.tcp.allow = 10
    ask = {"do": "check", "conditions": [URL, OTHER]}
    assert {"blocking": None} == world.function(ask)
    world.tcp.allow = 0
    assert (OTHER, "db.example.com:5432 allows 0", False) == tuple(world.function(ask).values())
    world.http.bad = "forbidden"
    assert (URL, "forbidden", True) == tuple(world.function(ask).values())
    unknown = world.function({"do": "check", "conditions": ["moon:full"]})
    assert unknown["hopeless"]  # the key that agents of every version read


def test_a_condition_known_to_block_is_not_tested_for_every_start(world: World):
    world.submit_and_block(URL)
    world.machine.run(10)
    asked = world.http.asked
    for _ in range(25):
        assert URL == world.function({"do": "check", "conditions": [URL]})["blocking"]
    assert asked == world.http.asked
    world.http.allow = 10
    world.machine.run()
    assert None is world.function({"do": "check", "conditions": [URL]})["blocking"]


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
    world.http.allow = 10
    world.machine.run()
    assert [State.PENDING] == world.states(jobs)


@pytest.mark.parametrize("for_good", [False, True])
def test_who_died_while_closing_finds_the_job_that_joined_meanwhile(world: World, for_good: bool):  # noqa: FBT001 - a parameter
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
    world.http.allow = 10
    world.machine.run()
    assert [State.PENDING] == world.states(jobs)


def test_of_two_who_would_open_a_condition_one_does(world: World):
    world.submit_and_block(URL)
    world.http.allow = 10
    world.machine.run()
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
    world.lane().send(Message(job_id=job_id, tenant="acme"))
    world.clock.now += 1
    for received in world.received():
        world.block(received, URL)
    world.conditions.drop(URL, entry)
    (again,) = world.conditions.waiting(URL, 2)
    assert (job_id, world.now_ms) == (again.job_id, again.blocked_ms)
