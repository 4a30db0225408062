"""An agent ends its instance: when, what it asks of its group, and what a kill at any point leaves.

The group is a stand-in: the local AWS has no TerminateInstanceInAutoScalingGroup.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from botocore.exceptions import ConnectTimeoutError

from ec2_agent.presence.notices import Kind
from ec2_agent.scale_in.scale_in import SETTLE_S
from joblane.fleet.idle import LeavingPolicy
from tests.support import inline_calls
from tests.support.departing import POLICY, Process
from tests.support.depth import spread
from tests.support.leaving_instance import INSTANCE, RUN_S, Instance, refusal

IDLE_S = POLICY.idle_s or 0.0
SOON_S = 40.0
"""In which an agent has left whose time has come: a look, a poll, the pause, the action."""


async def at(seconds: float) -> None:
    """Wait until a moment of virtual time."""
    await asyncio.sleep(seconds - Instance.now())


async def wait_closed(process: Process) -> None:
    """Wait until the agent is about to leave."""
    while not process.parts.standing.leaving:
        await asyncio.sleep(0.5)


def live(
    directory: Path,
    during: Callable[[Instance, Process], Awaitable[None]],
    policy: LeavingPolicy = POLICY,
    fleet: str | None = "main",
) -> Instance:
    """Let an agent live; `during` is what happens meanwhile, and it ends when that has ended."""
    made: list[Instance] = []

    async def work() -> None:
        instance = Instance(directory / "instance")
        made.append(instance)
        process = Process(instance, policy, fleet)
        await process.parts.limits.begin()
        life = asyncio.create_task(process.live())
        await during(instance, process)
        if life.done():
            life.result()
        else:
            instance.killed.set()
            await life

    inline_calls.run(work())
    return made[0]


def check_left(instance: Instance, requests: list[bool], desired: int) -> None:
    """The instance has ended by these requests, without waiting for the hook's timeout."""
    assert (requests, desired, True) == (instance.requests, instance.desired, instance.terminated)


def test_an_idle_agent_ends_its_instance_and_the_hook_completes_at_once(tmp_path: Path):
    async def during(instance: Instance, _: Process) -> None:
        await at(IDLE_S - 1)
        assert [] == instance.requests
        await at(IDLE_S + SOON_S)
        assert instance.row is None
        assert 1 < instance.completions < 10  # the first ones come before the action is active

    check_left(live(tmp_path, during), [True], 0)


def test_outside_of_a_fleet_and_without_options_it_never_leaves(tmp_path: Path):
    async def during(instance: Instance, _: Process) -> None:
        await at(2000)
        assert instance.row is not None
        assert instance.row.mode is None

    assert [] == live(tmp_path / "a", during, fleet=None).requests
    assert [] == live(tmp_path / "b", during, LeavingPolicy()).requests


def test_a_job_is_no_time_without_jobs(tmp_path: Path):
    async def during(instance: Instance, _: Process) -> None:
        for minute in range(1, 6):
            await at(60 * minute)
            instance.submit()
        await at(300 + IDLE_S)
        assert [] == instance.requests
        await at(300 + RUN_S + IDLE_S + SOON_S)

    instance = live(tmp_path, during)
    check_left(instance, [True], 0)
    assert {1} == set(instance.ended.values())


def test_polls_that_fail_are_no_time_without_jobs(tmp_path: Path):
    """An outage of SQS must not empty a fleet: nobody knows what waits."""

    async def during(instance: Instance, _: Process) -> None:
        await at(50)
        instance.lanes_down = True
        await at(2000)
        assert [] == instance.requests
        instance.lanes_down = False
        await at(2000 + IDLE_S - 5)
        assert [] == instance.requests
        await at(2000 + IDLE_S + SOON_S)

    check_left(live(tmp_path, during), [True], 0)


@pytest.mark.parametrize("hangs_at", [0, IDLE_S - 25])  # before the last poll of an idle time
def test_a_poll_that_hangs_is_no_time_without_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs_at: float
):
    async def during(_: Instance, process: Process) -> None:
        async def hang(_most: int, _wait_s: int) -> list[object]:
            await asyncio.sleep(1e9)
            return []

        lane = process.parts.intake.queue_at(
            process.parts.intake.descriptor.lane_url("default", "default")
        )
        await at(hangs_at)
        monkeypatch.setattr(lane, "receive", hang)
        await at(IDLE_S + SOON_S)
        for _look in range(1000):
            assert not process.parts.standing.closed, "it goes on to serve its other lanes"
            await asyncio.sleep(0.5)

    assert [] == live(tmp_path, during).requests


@pytest.mark.parametrize("trouble", ["state service", "cordon"])
def test_an_agent_that_takes_no_jobs_is_not_idle(tmp_path: Path, trouble: str):
    async def during(instance: Instance, process: Process) -> None:
        if trouble == "cordon":
            process.command("cordon")
        else:
            process.parts.state.trouble = "does not answer"
        await at(1000)
        assert [] == instance.requests
        process.command("uncordon")
        process.parts.state.trouble = None
        await at(1000 + IDLE_S + SOON_S)

    check_left(live(tmp_path, during), [True], 0)


def test_what_comes_while_it_closes_keeps_an_idle_agent(tmp_path: Path):
    async def during(instance: Instance, process: Process) -> None:
        await wait_closed(process)
        job = instance.submit()  # a poll is still open
        await asyncio.sleep(SOON_S)
        assert ([], 1) == (instance.requests, instance.ended[job])
        assert instance.row is not None
        assert instance.row.mode is None
        await asyncio.sleep(IDLE_S + SOON_S)

    check_left(live(tmp_path, during), [True], 0)


def test_at_the_smallest_size_it_stays_takes_jobs_and_tries_again(tmp_path: Path):
    async def during(instance: Instance, process: Process) -> None:
        instance.smallest = 1
        await at(IDLE_S + SOON_S)
        assert [True] == instance.requests
        assert not process.parts.standing.closed
        job = instance.submit()
        await asyncio.sleep(SOON_S)
        assert instance.row is not None
        assert (None, 1) == (instance.row.mode, instance.ended[job])
        await asyncio.sleep(IDLE_S + SOON_S)
        assert [True, True] == instance.requests
        instance.smallest = 0
        await asyncio.sleep(IDLE_S + 2 * SOON_S)

    check_left(live(tmp_path, during), [True, True, True], 0)


AGE = LeavingPolicy(idle_s=None, age_s=1000)


@pytest.mark.parametrize(("smallest", "requests"), [(0, [True]), (1, [True, False])])
def test_an_old_instance_ends_when_its_jobs_have_at_any_size(
    tmp_path: Path, smallest: int, requests: list[bool]
):
    async def during(instance: Instance, process: Process) -> None:
        instance.smallest = smallest
        await at(998)
        running = instance.submit()
        await asyncio.sleep(1)
        assert 1 == instance.started[running]
        directory = instance.directory / "jobs" / "output-that-is-not-stored"
        directory.mkdir()
        await at(1030)
        late = instance.submit()
        await at(1200)
        assert process.parts.standing.leaving
        assert [] == instance.requests  # the output of a job is still to be stored
        assert (1, 0) == (instance.ended[running], instance.started[late])
        directory.rmdir()
        await asyncio.sleep(SOON_S)

    instance = live(tmp_path, during, AGE)
    check_left(instance, requests, 0 if smallest == 0 else 1)
    assert 1 == len(instance.messages)  # the late job is for another agent


def test_a_surplus_agent_lets_its_jobs_end_and_leaves(tmp_path: Path):
    async def during(instance: Instance, process: Process) -> None:
        await at(12)
        row = instance.row
        assert row is not None
        assert instance.agents.name_surplus(INSTANCE, 12_000, beat_ms=row.beat_ms)
        assert 12_000 == instance.row.surplus_ms  # type: ignore[union-attr]
        await at(60)
        assert process.parts.standing.draining

    check_left(live(tmp_path, during), [True], 0)


def test_a_surplus_agent_that_is_refused_forgets_it_and_serves(tmp_path: Path):
    async def during(instance: Instance, _: Process) -> None:
        instance.smallest = 1
        await at(12)
        instance.agents.name_surplus(INSTANCE, 12_000, beat_ms=0)
        await at(70)
        assert [True] == instance.requests
        row = instance.row
        assert row is not None
        assert (None, None) == (row.mode, row.surplus_ms)
        job = instance.submit()
        await at(95)
        assert (1, [True]) == (instance.ended[job], instance.requests)
        # It can be named again.
        instance.smallest = 0
        instance.agents.name_surplus(INSTANCE, 95_000, beat_ms=0)
        await at(95 + IDLE_S + SOON_S)

    check_left(live(tmp_path, during), [True, True], 0)


def test_a_process_that_is_started_again_obeys_what_the_scaler_said(tmp_path: Path):
    async def during(instance: Instance, _: Process) -> None:
        await at(11)
        instance.agents.name_surplus(INSTANCE, 11_000, beat_ms=0)
        instance.killed.set()  # before the heartbeat that would have read it
        await asyncio.sleep(5)
        instance.killed = asyncio.Event()
        again = Process(instance, POLICY, "main")
        await again.parts.limits.begin()
        await asyncio.wait_for(again.live(), 60)

    check_left(live(tmp_path, during), [True], 0)


def test_after_a_rebalance_recommendation_the_instance_is_replaced(tmp_path: Path):
    async def during(instance: Instance, process: Process) -> None:
        instance.smallest = 1
        await at(20)
        job = instance.submit()
        await at(22)
        process.notice(Kind.REBALANCE)
        await at(22 + SOON_S)
        assert (1, None) == (instance.ended[job], instance.row)

    check_left(live(tmp_path, during), [False], 1)


@pytest.mark.parametrize("kind", [Kind.SPOT, Kind.SCALE_IN])
def test_an_instance_that_ends_anyway_is_not_asked_to(tmp_path: Path, kind: Kind):
    async def during(instance: Instance, process: Process) -> None:
        if kind is Kind.SCALE_IN:
            instance.terminating_at = 0.0
        process.notice(kind)
        await at(SOON_S)
        assert instance.row is None

    instance = live(tmp_path, during)
    assert ([], kind is Kind.SCALE_IN) == (instance.requests, instance.terminated)


def test_a_request_that_fails_is_made_again_later(tmp_path: Path):
    async def during(instance: Instance, process: Process) -> None:
        instance.fails = [refusal("Rate exceeded", "Throttling")]
        await at(IDLE_S + SOON_S)
        assert not process.parts.standing.closed
        await at(2 * (IDLE_S + SOON_S))

    check_left(live(tmp_path, during), [True, True], 0)


def test_a_request_without_an_answer_is_not_repeated_until_it_is_known(tmp_path: Path):
    """The group may have begun to end the instance: the desired size must not fall twice."""

    async def during(instance: Instance, process: Process) -> None:
        instance.desired = 5
        instance.fails = [ConnectTimeoutError(endpoint_url="https://autoscaling.test")]
        while not instance.requests:
            await asyncio.sleep(0.5)
        instance.submit()  # for another agent, or the next one: this instance ends
        await at(IDLE_S + 2 * SOON_S)
        assert process.parts.standing.draining
        assert not instance.started

    check_left(live(tmp_path, during), [True], 4)


def test_a_heartbeat_that_fails_keeps_the_instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async def during(instance: Instance, process: Process) -> None:
        def fail(_: object) -> None:
            raise ConnectTimeoutError(endpoint_url="https://dynamodb.test")

        await wait_closed(process)
        with monkeypatch.context() as patched:
            patched.setattr(process.parts.lease.store, "beat", fail)
            await asyncio.sleep(SOON_S)
            assert [] == instance.requests
        await asyncio.sleep(IDLE_S + SOON_S)

    check_left(live(tmp_path, during), [True], 0)


def test_an_operator_keeps_an_agent_that_is_about_to_leave(tmp_path: Path):
    async def during(instance: Instance, process: Process) -> None:
        await wait_closed(process)
        process.command("cordon")
        await asyncio.sleep(500)
        assert [] == instance.requests
        assert instance.row is not None
        assert "cordoned" == instance.row.mode

    live(tmp_path, during)


@pytest.mark.parametrize("job_after_s", spread([None, *range(0, 30, 3)], 3))
def test_killed_after_any_call_no_job_is_lost_or_run_twice_and_the_size_falls_once(
    tmp_path: Path, job_after_s: int | None
):
    """A job comes at a moment of the scale-in, or none does; the agent is started again."""
    visited = 0
    for calls in range(1, 200):
        directory = tmp_path / str(calls)

        async def during(instance: Instance, process: Process, calls: int = calls) -> None:
            instance.desired = 5
            await wait_closed(process)
            instance.kill_after = instance.calls + calls
            if job_after_s is not None:
                await asyncio.sleep(job_after_s)
                instance.submit()
            await asyncio.sleep(2 * IDLE_S)

        instance = live(directory, during)
        if instance.terminated and instance.calls < instance.kill_after:
            break
        visited += 1
        check_next_life(instance, f"killed after call {calls}")
    print(f"crash points visited, job after {job_after_s} s: {visited}")
    assert visited >= 4  # a heartbeat, the request, the row, the action
    assert (5 - 1) == instance.desired


def check_next_life(instance: Instance, where: str) -> None:
    """The agent is started again: it leaves with its instance, or serves; then it leaves."""

    async def work() -> None:
        # What the next process finds: the virtual time begins again.
        ended_already = instance.terminating_at is not None
        instance.killed, instance.kill_after = asyncio.Event(), 10**9
        instance.terminating_at = -60.0 if ended_already else None
        for message in instance.messages.values():
            message.visible_at = min(message.visible_at, 120.0)
        waiting = set(instance.messages)
        process = Process(instance, POLICY, "main")
        await process.parts.limits.begin()
        served = None if ended_already else instance.submit()
        await asyncio.wait_for(process.live(), 2000)
        assert instance.terminated, where
        assert 4 == instance.desired, where
        if served is not None:
            assert not instance.messages, where
            assert 1 == instance.ended[served], where
        lost = [job for job in waiting if job not in instance.messages and not instance.ended[job]]
        assert [] == lost, where
        assert max(instance.ended.values(), default=0) <= 1, where

    inline_calls.run(work())


def test_the_pause_before_the_request_is_longer_than_reading_and_sending_takes():
    assert SETTLE_S >= 2.5  # seconds of a call of the API at most, with a retry
