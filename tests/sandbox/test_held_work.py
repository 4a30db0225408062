"""A shim holds the work directory of a job that has ended, for its agent and for the next one."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ec2_agent.files.beneath import open_regular
from ec2_agent.jobs.directory import JobDirectory
from ec2_agent.jobs.reconnect import reconnect
from ec2_agent.jobs.running import RunningJob
from ec2_agent.jobs.shim_connection import ShimConnection
from ec2_agent.jobs.start import LeaseOver
from ec2_agent.processes import boottime, is_running
from ec2_agent.sandbox.model import SandboxLimits, Spec
from ec2_agent.shim import files, held_work
from tests.sandbox.running import alive, marker
from tests.sandbox.shim_jobs import HEAD, Room, job_starter, make_directory, wait_for

T = TypeVar("T")


def with_job(
    directory: JobDirectory, shim: Any, sandbox: Any, do: Callable[[RunningJob], Awaitable[T]]
) -> T:
    """Do something once a job has ended."""

    async def work() -> T:
        job = RunningJob(directory, ShimConnection(shim), sandbox)
        assert await job.end() is not None
        return await do(job)

    return asyncio.run(work())


async def read(job: RunningJob) -> bytes | None:
    """Read the file `left` of a job's work directory; None if that is not held."""
    work = await job.shim.work()
    if work is None:
        return None
    try:
        with os.fdopen(open_regular(work, "left"), "rb") as file:
            return file.read()
    finally:
        os.close(work)


def shim_runs(directory: JobDirectory) -> bool:
    return is_running(directory.read(files.SHIM) or {})


def test_the_files_of_a_job_are_read_after_its_end_and_are_gone_once_released(room: Room):
    directory, shim, sandbox = room.start("echo mine > left; sleep 0.2", keep_work=True)

    async def scenario(job: RunningJob) -> None:
        assert b"mine\n" == await read(job)
        assert b"mine\n" == await read(job)  # as often as it is asked for
        await job.let_shim_end(10)
        assert job.shim.gone.done()
        assert None is await read(job)

    with_job(directory, shim, sandbox, scenario)
    wait_for(lambda: not shim_runs(directory))
    assert directory.read(files.EXIT) is not None
    assert not (directory.path / files.SOCKET).exists()


def test_the_next_agent_gets_them_when_the_first_was_killed(room: Room):
    directory, shim, sandbox = room.start("echo mine > left", keep_work=True)
    shim.close()  # as with a killed agent
    sandbox.release(killed=False)
    wait_for(lambda: directory.read(files.EXIT) is not None)
    for _ in range(2):  # killed again
        again = reconnect(JobDirectory(directory.path))
        assert again is not None
        assert b"mine\n" == with_job(directory, again, None, read)
        again.close()
    shim_of_it = directory.read(files.SHIM) or {}
    assert is_running(shim_of_it)
    directory.remove()  # by an agent that has nothing to collect
    wait_for(lambda: not is_running(shim_of_it))


def test_a_job_without_output_files_ends_its_shim_as_ever(room: Room):
    directory, shim, sandbox = room.start("echo mine > left")

    async def scenario(job: RunningJob) -> bytes | None:
        return await read(job)

    assert None is with_job(directory, shim, sandbox, scenario)
    wait_for(lambda: not shim_runs(directory))


def test_a_killed_shim_takes_the_files_with_it(room: Room):
    directory, shim, sandbox = room.start("echo mine > left", keep_work=True)

    async def scenario(job: RunningJob) -> bytes | None:
        wait_for(lambda: directory.read(files.EXIT) is not None)
        os.kill((directory.read(files.SHIM) or {})["pid"], signal.SIGKILL)
        return await read(job)

    assert None is with_job(directory, shim, sandbox, scenario)


def test_without_any_agent_they_are_held_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / files.SPEC).touch()
    held = held_work.HeldWork(os.open(tmp_path, os.O_PATH))
    assert held.is_needed(has_agent=False)
    later = time.monotonic() + held_work.WITHOUT_AGENT_S - 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert held.is_needed(has_agent=False)
    assert held.is_needed(has_agent=True)  # one has come
    monkeypatch.setattr(time, "monotonic", lambda: later + held_work.WITHOUT_AGENT_S)
    assert held.is_needed(has_agent=False)
    monkeypatch.setattr(time, "monotonic", lambda: later + 2 * held_work.WITHOUT_AGENT_S + 1)
    assert not held.is_needed(has_agent=False)
    other = held_work.HeldWork(os.open(tmp_path, os.O_PATH))
    (tmp_path / files.SPEC).unlink()
    assert not other.is_needed(has_agent=True)
    assert not held_work.HeldWork(None).is_needed(has_agent=True)


def test_a_lease_that_ends_while_files_are_placed_keeps_the_job_from_starting(room: Room):
    mark, looks = marker(), iter((0, 1))
    directory = make_directory(room.jobs, 1)
    starter = job_starter(room.launcher, room.shims, room.jobs)
    spec = Spec(("sleep", mark), {}, SandboxLimits(), keep_work=True)
    with pytest.raises(LeaseOver):
        starter.start_in(directory, HEAD, spec, lambda: boottime() + 1.0 - 2 * next(looks))
    directory.remove()
    assert [] == alive(mark)
