"""Errors of the agent itself, at every step of an attempt: none holds a job or its message."""

import asyncio
from typing import Any

import pytest

from ec2_agent.attempt import run as running
from ec2_agent.attempt.outputs import OutputCollector
from ec2_agent.attempt.preparation import Preparation
from ec2_agent.attempt.run import AGAIN_S, Attempt
from ec2_agent.attempt.shipping import OutputShipper
from ec2_agent.jobs.running import RunningJob
from ec2_agent.jobs.shim_connection import ShimConnection
from ec2_agent.jobs.start import JobStarter
from ec2_agent.logging import events
from ec2_agent.messages.delivery import Delivery
from ec2_agent.outcomes.journal import OutcomeRecorder
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import Ending
from ec2_agent.shim.pool import Shims
from joblane.job.head import Head
from joblane.state.lifecycle import Outcome, State
from tests.sandbox.running import alive, marker
from tests.support.attempts import begin, finish, lengths, output
from tests.support.aws import Cloud
from tests.support.jobs import JOB

BEFORE: list[tuple[Any, str]] = [
    (Preparation, "_test_conditions"),
    (Preparation, "_read_whole"),
    (Preparation, "_secret_env"),
    (Preparation, "_fetch"),
    (JobStarter, "start"),
    (JobStarter, "start_in"),
    (Shims, "take"),
]
"""Steps before the job runs."""

WHILE: list[tuple[Any, str]] = [
    (OutputShipper, "__init__"),
    (RunningJob, "end"),
]
"""Steps with a job that would run for an hour."""

AFTER: list[tuple[Any, str]] = [
    (Ending, "decode"),
    (OutputShipper, "finish"),
    (running, "judge"),
    (OutputCollector, "collect"),
    (Attempt, "_store_result"),
]
"""Steps after the job's end."""


class Broken:
    """Stands for a step: raises what nothing expects, the first time or always."""

    def __init__(self, owner: Any, name: str, *, always: bool = False) -> None:
        self._real = getattr(owner, name)
        self._raises, self._always = True, always

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """As a method."""
        return lambda *args, **kwargs: self(instance, *args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise, or do what the step does."""
        if self._raises:
            self._raises = self._always
            raise ZeroDivisionError("private")
        return self._real(*args, **kwargs)


@pytest.fixture(name="broke")
def _broke(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """What was logged with its stack trace."""
    seen: list[BaseException] = []
    monkeypatch.setattr(events, "attempt_broke", lambda _job, _kind, defect: seen.append(defect))
    return seen


def ids(step: Any) -> str:
    return step if isinstance(step, str) else step.__name__.split(".")[-1]


@pytest.mark.parametrize(("owner", "name"), BEFORE, ids=ids)
def test_before_the_start_the_job_has_failed(
    aws: Cloud,
    launcher: Launcher,
    monkeypatch: pytest.MonkeyPatch,
    broke: list[BaseException],
    owner: Any,
    name: str,
):
    _, attempt = begin(aws, launcher, command=["/bin/echo", "ran"], retry={"backoff_s": [0]})
    monkeypatch.setattr(owner, name, Broken(owner, name))
    head = finish(aws, attempt)
    assert (State.RETRY, Outcome.FAILED) == (head.state, head.outcome)
    reason = head.timeline[-1].reason
    assert "not started: agent agent-1 met an unexpected ZeroDivisionError" in reason
    assert "private" not in reason
    assert [] == output(aws, head)
    assert ["private"] == [str(defect) for defect in broke]
    assert (1, 0) == lengths(aws)
    assert [] == list(attempt.parts.starter.jobs.iterdir())


@pytest.mark.parametrize(("owner", "name"), [*WHILE, *AFTER], ids=ids)
def test_afterwards_it_is_dead_and_lost(
    aws: Cloud,
    launcher: Launcher,
    monkeypatch: pytest.MonkeyPatch,
    broke: list[BaseException],
    owner: Any,
    name: str,
):
    mark = marker() if (owner, name) in WHILE else "0"
    _, attempt = begin(aws, launcher, command=["/bin/sleep", mark])
    monkeypatch.setattr(owner, name, Broken(owner, name))
    record, kill, left = OutcomeRecorder.record, ShimConnection.kill, []

    def kill_later(shim: ShimConnection) -> None:
        asyncio.get_running_loop().call_later(0.2, kill, shim)

    def look(*args: Any) -> Any:
        left.extend(alive(mark) if mark != "0" else [])
        return record(*args)

    monkeypatch.setattr(ShimConnection, "kill", kill_later)
    monkeypatch.setattr(OutcomeRecorder, "record", look)
    head = finish(aws, attempt)
    assert [] == left  # or it would run twice at once
    assert (State.RETRY, Outcome.LOST) == (head.state, head.outcome)
    assert "agent agent-1 met an unexpected ZeroDivisionError" in head.timeline[-1].reason
    assert ["private"] == [str(defect) for defect in broke]
    assert (1, 0) == lengths(aws)
    assert [] == list(attempt.parts.starter.jobs.iterdir())


@pytest.mark.parametrize("name", ["reuse_shim", "let_shim_end"])
def test_an_outcome_that_is_recorded_stays(
    aws: Cloud,
    launcher: Launcher,
    monkeypatch: pytest.MonkeyPatch,
    broke: list[BaseException],
    name: str,
):
    _, attempt = begin(aws, launcher, command=["/bin/true"])
    if name == "let_shim_end":  # which is called where the shim cannot have another job
        monkeypatch.setattr(RunningJob, "reuse_shim", lambda _: False)
    monkeypatch.setattr(RunningJob, name, Broken(RunningJob, name))
    record, recorded = OutcomeRecorder.record, list[Outcome]()

    def count(recorder: OutcomeRecorder, head: Head, delivery: Delivery, result: Any) -> Any:
        recorded.append(result.outcome)
        return record(recorder, head, delivery, result)

    monkeypatch.setattr(OutcomeRecorder, "record", count)
    assert State.COMPLETED is finish(aws, attempt).state
    assert [Outcome.SUCCEEDED] == recorded
    assert ["private"] == [str(defect) for defect in broke]
    assert [] == list(attempt.parts.starter.jobs.iterdir())


@pytest.mark.parametrize("command", ["/bin/true", "/no/such/program"])
def test_what_cannot_be_recorded_gives_its_message_back(
    aws: Cloud,
    launcher: Launcher,
    monkeypatch: pytest.MonkeyPatch,
    broke: list[BaseException],
    command: str,
):
    given: list[int] = []
    parts, attempt = begin(aws, launcher, command=[command])

    async def give_back(_delivery: object, seconds: int) -> None:
        given.append(seconds)

    monkeypatch.setattr(OutcomeRecorder, "record", Broken(OutcomeRecorder, "record", always=True))
    monkeypatch.setattr(parts.flight, "give_back", give_back)
    asyncio.run(attempt.run())
    assert State.ACTIVE is aws.job(JOB).state
    assert [AGAIN_S] == given
    assert ["private"] == [str(defect) for defect in broke]


def test_a_cancelled_attempt_is_no_defect(
    aws: Cloud, launcher: Launcher, broke: list[BaseException]
):
    """As at the end of the process: the job goes on, and the next process finds it."""
    mark = marker()
    _, attempt = begin(aws, launcher, command=["/bin/sleep", mark])

    async def cancelled() -> None:
        task = asyncio.create_task(attempt.run())
        while not attempt.started:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert [] == broke
    assert State.ACTIVE is aws.job(JOB).state
    assert attempt.job is not None
    attempt.job.directory.remove()
