"""Recovery: the real function and state machine, over an AWS in memory and a clock that jumps."""

from itertools import pairwise
from typing import Any

import pytest

from joblane.aws.condition.directory import AppStore
from joblane.aws.job.jobs import JobStore
from joblane.condition.state import RELAPSE_S, Phase
from joblane.job.edit import plan_edit
from joblane.job.head import Head
from joblane.job.moves import plan
from joblane.state.lease import Heartbeat
from joblane.state.lifecycle import Event, State
from joblane.state.timeline import Step
from tests.support.jobs import named
from tests.support.recovery import TABLE, World, in_memory

URL = "http:https://api.example.com/health"
OTHER = "tcp:db.example.com:5432"
HOUR = 3600


@pytest.fixture(name="world")
def _world() -> World:
    return in_memory()


def test_a_blocked_job_waits_and_goes_back_to_its_own_lane(world: World):
    urgent = world.submit(1, priority="high")
    world.block(world.lane("high").receive(1, 0)[0], URL)
    world.machine.run(3 * 60)
    assert [State.BLOCKED] == world.states([urgent])
    assert [] == world.lane("high").receive(10, 0)
    world.recover()
    assert [State.PENDING] == world.states([urgent])
    assert 1 == len(world.lane("high").receive(10, 0))
    assert [] == world.receive_all()
    assert "released by its condition" in world.reason(urgent)
    row = world.conditions.get(URL)
    assert row is not None
    assert (Phase.CLOSED, False) == (row.phase, row.blocks)
    head = world.jobs.claim(named(urgent, "default/high"), "agent-2", world.now_ms)
    assert 1 == head.attempt  # the blocked one was not counted


def test_25_jobs_cost_one_test_a_round(world: World):
    jobs = world.submit_and_block(URL, 25)
    assert 1 == len(world.machine.running())
    world.machine.run(2 * 10 + 10 * 20)
    assert 12 == world.http.asked
    world.recover()
    assert [State.PENDING] * 25 == world.states(jobs)
    assert 12 + 3 == world.http.asked  # ten a round
    assert 25 == len(world.receive_all())
    assert 1 == len(world.machine.executions)


def test_the_oldest_go_first_and_no_more_than_the_test_allows(world: World):
    jobs = world.submit_and_block(URL, 3)
    world.recover(2, seconds=10)
    assert [State.PENDING, State.PENDING, State.BLOCKED] == world.states(jobs)
    world.recover(0, seconds=60)
    assert [State.PENDING, State.PENDING, State.BLOCKED] == world.states(jobs)


def test_a_large_allowance_goes_in_pages(world: World):
    jobs = world.submit_and_block(URL, 60)
    world.recover(1000)
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
    world.recover(2, seconds=10)
    assert [State.CANCELLED, State.PENDING, State.PENDING] == world.states(jobs)
    assert 2 == len(world.receive_all())


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
    assert [] == world.receive_all()


@pytest.mark.parametrize("other", ["edit", "cancel"])
def test_a_job_that_changes_while_it_is_failed_is_not_forgotten(
    world: World, monkeypatch: pytest.MonkeyPatch, other: str
):
    """An edited job waits on; were its entry dropped, nothing would ever end it."""
    (job_id,) = world.submit_and_block(URL)
    move, met = JobStore.move, list[str]()

    def late(store: JobStore, head: Head, event: Event, step: Step, **more: Any) -> Head:
        if event is Event.GIVE_UP and not met:
            met.append(other)
            seen = world.aws.job(job_id)
            if other == "edit":
                spec = seen.spec.model_copy(update={"labels": {"a": "b"}})
                world.aws.jobs.edit(seen, plan_edit(seen, spec, world.now_ms, "x"), world.now_ms)
            else:
                cancel = plan(seen, Event.CANCEL, world.now_ms, "cancelled by an operator")
                move(world.aws.jobs, seen, Event.CANCEL, cancel, expires_at=9)
        return move(store, head, event, step, **more)

    monkeypatch.setattr(JobStore, "move", late)
    world.http.bad = "that address is forbidden"
    world.machine.run()
    assert [other] == met
    assert [State.FAILED if other == "edit" else State.CANCELLED] == world.states([job_id])
    assert [] == world.conditions.waiting(URL, 1)


def test_an_exit_75_that_nobody_explains_is_tried_later_and_later_and_then_fails(world: World):
    """`app` conditions let jobs go unless declared down; the jobs themselves say "not yet"."""
    condition = "app:default"
    world.policies = {"app": {"policy": "stepwise", "most_s": 1200}}
    (job_id,) = world.submit_and_block(condition)
    starts: list[float] = []
    end = world.clock.now + HOUR
    while world.clock.now < end and world.states([job_id]) == [State.BLOCKED]:
        world.machine.run()
        for received in world.receive_all():
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
    world.recover()
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
    world.recover()
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


def test_before_the_start_the_first_condition_that_blocks_is_named(world: World):
    world.http.allow = world.tcp.allow = 10
    ask = {"do": "check", "conditions": [URL, OTHER]}
    assert {"blocking": None} == world.function(ask)
    world.tcp.allow = 0
    assert (OTHER, "db.example.com:5432 allows 0", False) == tuple(world.function(ask).values())
    world.http.bad = "forbidden"
    assert (URL, "forbidden", True) == tuple(world.function(ask).values())
    unknown = world.function({"do": "check", "conditions": ["moon:full"]})
    assert unknown["untestable"]


def test_a_condition_known_to_block_is_not_tested_for_every_start(world: World):
    world.submit_and_block(URL)
    world.machine.run(10)
    asked = world.http.asked
    for _ in range(25):
        assert URL == world.function({"do": "check", "conditions": [URL]})["blocking"]
    assert asked == world.http.asked
    world.recover()
    assert None is world.function({"do": "check", "conditions": [URL]})["blocking"]
