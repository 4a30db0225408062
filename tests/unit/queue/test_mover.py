"""Requeue moves the jobs that wait in a retired queue to the one that joblane.toml names."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from functions.requeue import handler as requeue
from joblane.aws.clients import Clients
from joblane.aws.queue.moves import QueueMoveStore
from joblane.deployment.names import table_name
from joblane.formats.ids import nth_id
from joblane.formats.times import rfc3339
from joblane.job.edit import EDITABLE
from joblane.job.head import Head, make_head
from joblane.queue.moves import FIRST_AGAIN_MS, MOST_AGAIN_MS, QueueMove
from joblane.service.job.requeue import Requeue
from joblane.service.job.wake_up import wake_up_message
from joblane.service.queue import mover
from joblane.state.lifecycle import State
from joblane.state.timeline import Step
from joblane.testing.inline import Inline
from tests.support.aws import FUNCTION_ENVIRONMENT, NAME, Cloud
from tests.support.crash_points import Killed, Process
from tests.support.jobs import JOB, submission
from tests.support.memory import Memory
from tests.support.meter import Meter

NOW = 1_800_000_000.0
NOW_MS = int(NOW * 1000)

MOVES = {"JOBLANE_RETIRED": '{"bulk": "default"}'}


def mover_of(aws: Clients, at: float = NOW, **settings: Any) -> Requeue:
    """The requeue function."""
    environment = {**FUNCTION_ENVIRONMENT, **MOVES, **settings}
    found = requeue.Settings.model_validate(environment)
    return requeue.build(found, aws, lambda: at, pool=Inline)


def tick(
    aws: Clients, at: float = NOW, left_s: Callable[[], float] = lambda: 60.0, **settings: Any
) -> Counter[str]:
    """The requeue function's minute, without limits that are shared out."""
    return replace(mover_of(aws, at, **settings), share=lambda _now_ms: 0).run(left_s)


def put(
    aws: Cloud, number: int, state: State = State.PENDING, tenant: str = "acme", **fields: Any
) -> Head:
    """Store a job of the retired queue in a state."""
    spec = submission(**{"queue": "bulk", **fields})
    head = make_head(nth_id(JOB, number), tenant, spec, NOW_MS - 60_000)
    if state is not head.state:
        step = Step(state, NOW_MS - 50_000, 0, "as the test wants")
        head = replace(head, state=state, timeline=(*head.timeline, step))
    aws.jobs.put_new(head)
    return head


def progress(aws: Cloud) -> QueueMove:
    store = QueueMoveStore(aws.clients.make("dynamodb"), table_name(NAME, "settings"))
    return store.read(["bulk"])["bulk"]


def at_home(aws: Cloud, number: int) -> str:
    return aws.job(nth_id(JOB, number)).queue


@pytest.mark.parametrize("state", sorted(EDITABLE))
def test_what_waits_moves_with_its_message(state: State):
    memory = Memory()
    aws = memory.cloud()
    later = {"run_at": rfc3339(NOW_MS + 3_600_000)} if state is State.SCHEDULED else {}
    head = put(aws, 0, state, **later)
    assert 1 == tick(aws.clients)["Moved"]
    moved = aws.job(head.job_id)
    assert ("default", state, 1) == (moved.queue, moved.state, moved.edit)
    assert "queue bulk is retired: queue bulk -> default" in moved.timeline[-1].reason
    has_message = state in {State.PENDING, State.RETRY, State.BLOCKED}
    assert has_message == (wake_up_message(moved).encode() in memory.queues.bodies())
    assert (1, 0) == (progress(aws).moved, progress(aws).kept)


@pytest.mark.parametrize("state", [State.ACTIVE, State.COMPLETED, State.DEAD, State.FAILED])
def test_what_runs_or_has_ended_stays(aws: Cloud, state: State):
    put(aws, 0, state)
    assert "Moved" not in tick(aws.clients)
    assert "bulk" == at_home(aws, 0)


def test_others_stay(aws: Cloud):
    put(aws, 0, queue="default")
    assigned = make_head(nth_id(JOB, 1), "acme", submission(queue="bulk", target="host:a"), NOW_MS)
    aws.jobs.put_new(replace(assigned, assigned="a"))
    assert not {"Moved", "Kept"} & tick(aws.clients).keys()
    assert (["default", "bulk"], [0, 0]) == (
        [at_home(aws, number) for number in (0, 1)],
        [aws.job(nth_id(JOB, number)).edit for number in (0, 1)],
    )


def test_all_tenants_of_the_queue_are_walked_and_no_others(aws: Cloud):
    for number, tenant in enumerate(("acme", "other", "acme")):
        put(aws, number, tenant=tenant)
    assert 3 == tick(aws.clients, JOBLANE_QUEUES='{"default": [], "bulk": []}')["Moved"]
    put(aws, 3, tenant="other")
    after = NOW + FIRST_AGAIN_MS / 1000
    assert "Moved" not in tick(aws.clients, after)  # bulk is acme's alone here
    assert "bulk" == at_home(aws, 3)


@pytest.mark.parametrize(
    ("fields", "settings"),
    [
        ({"resources": {"memory_mb": 8000}}, {}),
        ({"network": "host"}, {"JOBLANE_WITHOUT_HOST_NETWORK": '["default"]'}),
        ({}, {"JOBLANE_QUEUES": '{"default": ["other"], "bulk": ["acme"]}'}),
    ],
)
def test_what_the_other_queue_does_not_take_stays_and_is_counted(
    aws: Cloud, fields: dict[str, Any], settings: dict[str, Any]
):
    put(aws, 0, **fields)
    found = tick(aws.clients, **settings)
    assert {"Kept": 1} == {name: found[name] for name in ("Moved", "Kept", "Failed") if found[name]}
    assert ("bulk", 0) == (at_home(aws, 0), aws.job(nth_id(JOB, 0)).edit)
    assert (0, 1) == (progress(aws).moved, progress(aws).kept)


def test_the_next_pass_finds_what_came_meanwhile(aws: Cloud):
    put(aws, 0)
    assert 1 == tick(aws.clients)["Moved"]
    put(aws, 1)  # by a function that had read the joblane.toml before
    assert "Moved" not in tick(aws.clients, NOW + 60)
    assert "bulk" == at_home(aws, 1)
    assert 1 == tick(aws.clients, NOW + FIRST_AGAIN_MS / 1000)["Moved"]
    assert (2, 2) == (progress(aws).moved, progress(aws).passes)


def test_a_queue_that_was_not_retired_meanwhile_is_walked_at_once(aws: Cloud):
    """It took jobs meanwhile, and its passes were a day apart."""
    at = NOW
    for _ in range(9):
        tick(aws.clients, at)
        at += MOST_AGAIN_MS / 1000
    last = at - MOST_AGAIN_MS / 1000
    assert (9, last) == (progress(aws).passes, (progress(aws).ended_ms or 0) / 1000)
    put(aws, 0)
    tick(aws.clients, last + 3600, JOBLANE_RETIRED="{}")
    tick(aws.clients, last + 3660, JOBLANE_RETIRED='{"bulk": null}')
    assert "bulk" == at_home(aws, 0)
    assert 1 == tick(aws.clients, last + 7200)["Moved"]
    found = progress(aws)
    assert (1, 1) == (found.moved, found.passes)  # the next pass is 15 minutes later
    tick(aws.clients, last + 10_000, JOBLANE_RETIRED="{}")
    forgotten = progress(aws)
    tick(aws.clients, last + 10_060, JOBLANE_RETIRED="{}")
    assert QueueMove("default", version=forgotten.version) == forgotten == progress(aws)


def test_a_run_of_before_that_goes_on_meanwhile_is_forgotten_a_minute_later(
    aws: Cloud, monkeypatch: pytest.MonkeyPatch
):
    tick(aws.clients)
    function = mover_of(aws.clients, JOBLANE_RETIRED="{}")
    write = QueueMoveStore.write

    def goes_on(store: QueueMoveStore, queue: str, move: QueueMove) -> QueueMove:
        monkeypatch.setattr(QueueMoveStore, "write", write)
        write(store, queue, replace(progress(aws), moved=7))
        return write(store, queue, move)

    monkeypatch.setattr(QueueMoveStore, "write", goes_on)
    function.move_jobs(NOW_MS, lambda: 60.0)
    assert 7 == progress(aws).moved
    function.move_jobs(NOW_MS, lambda: 60.0)
    assert QueueMove("default", version=progress(aws).version) == progress(aws)


def test_what_there_was_no_time_for_moves_a_minute_later(
    aws: Cloud, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(mover, "PAGE", 2)
    for number in range(5):
        put(aws, number)
    left = iter([60.0, *[0.0] * 100])
    assert 2 == mover_of(aws.clients).move_jobs(NOW_MS, lambda: next(left))["Moved"]
    assert (nth_id(JOB, 3), None) == (progress(aws).before, progress(aws).ended_ms)
    assert 3 == tick(aws.clients, NOW + 60)["Moved"]
    assert (5, 1) == (progress(aws).moved, progress(aws).passes)


def test_what_is_due_does_not_wait_for_moves(aws: Cloud):
    """A job past its deadline does not move, and one whose time has come starts in any case."""
    put(aws, 0, deadline=rfc3339(NOW_MS - 1000))
    put(aws, 1, run_at=rfc3339(NOW_MS - 1000))

    def fails(_now_ms: int, _left_s: Callable[[], float]) -> Counter[str]:
        raise ValueError("nobody expected that")

    function = replace(mover_of(aws.clients), share=lambda _now_ms: 0, move_jobs=fails)
    with pytest.raises(ValueError, match="nobody"):
        function.run(lambda: 60.0)
    states = [aws.job(nth_id(JOB, number)).state for number in (0, 1)]
    assert [State.EXPIRED, State.PENDING] == states


def test_a_job_that_an_agent_claims_first_is_left_to_it(
    aws: Cloud, monkeypatch: pytest.MonkeyPatch
):
    head = put(aws, 0)
    page = aws.jobs.page

    def claimed(*arguments: Any, **named: Any) -> Any:
        found = page(*arguments, **named)
        aws.jobs.claim(wake_up_message(head), "agent-1", NOW_MS)
        return found

    monkeypatch.setattr(type(aws.jobs), "page", lambda _self, *a, **n: claimed(*a, **n))
    assert not {"Moved", "Kept", "Failed"} & tick(aws.clients).keys()
    assert (State.ACTIVE, "bulk") == (aws.job(head.job_id).state, at_home(aws, 0))


def test_without_such_a_queue_nothing_is_read_but_once_in_a_process(aws: Cloud):
    meter = Meter()
    move = mover_of(meter.clients_of(aws), JOBLANE_RETIRED='{"bulk": null}').move_jobs
    move(NOW_MS, lambda: 60.0)
    assert {"dynamodb.BatchGetItem": 1} == meter.calls
    move(NOW_MS, lambda: 60.0)
    assert {"dynamodb.BatchGetItem": 1} == meter.calls


def test_the_price_of_a_pass_and_of_a_job_that_moves(aws: Cloud):
    """docs/explanation/costs.md has these figures."""
    meter = Meter()
    clients = meter.clients_of(aws)
    tick(aws.clients, JOBLANE_RETIRED="{}")  # the first minute begins a pass of renewal
    tick(clients)
    idle = (meter.write_units, meter.calls["sqs.SendMessage"])
    assert (1, 0) == idle  # where the pass has come to
    for number in range(10):
        put(aws, number)
    meter.reset()
    tick(clients, NOW + FIRST_AGAIN_MS / 1000)
    moved = (meter.write_units - 1, meter.calls["sqs.SendMessage"])
    assert (40, 10) == moved


def kill_at(point: int, memory: Memory, process: Process) -> bool:
    """Move three jobs in pages of two with a death after call `point`, and run on."""
    memory.reset()
    aws = memory.cloud()
    heads = [put(aws, number, state) for number, state in enumerate(sorted(EDITABLE))]
    died = False
    process.starts(point)
    try:
        tick(process.clients)
    except Killed:
        died = True
    for minute in (1, 2, 20):
        tick(aws.clients, NOW + 60 * minute)
    bodies = list(memory.queues.bodies())
    for head in heads:
        moved = aws.job(head.job_id)
        assert ("default", 1, head.state) == (moved.queue, moved.edit, moved.state), point
        if moved.state in {State.PENDING, State.RETRY}:
            assert wake_up_message(moved).encode() in bodies, f"no message after call {point}"
            assert moved.wake_at_ms is None, f"due for ever after call {point}"
    found = progress(aws)
    assert (None, 0) == (found.tenant, found.kept), point
    assert died or len(heads) == found.moved
    return died


def test_killed_after_any_call_every_job_moves_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mover, "PAGE", 2)
    memory = Memory()
    process = Process(memory)
    process.visit(lambda point: kill_at(point, memory, process))
