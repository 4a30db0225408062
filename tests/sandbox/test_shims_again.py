"""Shims that are used again: what is kept of a job, and when its exit record is written."""

import asyncio
import contextlib
import os
import select
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ec2_agent.jobs.directory import JobDirectory
from ec2_agent.jobs.reconnect import reconnect
from ec2_agent.jobs.running import RunningJob
from ec2_agent.jobs.shim_connection import ShimConnection
from ec2_agent.sandbox.model import Ending
from ec2_agent.shim import files
from ec2_agent.shim.pool import SPARE
from tests.sandbox.shim_jobs import Room, wait_for


@pytest.fixture(name="room")
def _room(tmp_path: Path) -> Iterator[Room]:
    with contextlib.closing(Room(tmp_path, reuse=True)) as room:
        yield room


def pid_of(directory: JobDirectory) -> int:
    wait_for(lambda: directory.read(files.SHIM))
    return int((directory.read(files.SHIM) or {})["pid"])


def open_files(pid: int) -> list[str]:
    """What each descriptor of a process is, in order; sockets and pipes without their number."""
    names = []
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            names.append(fd.readlink().name.partition(":")[0])
    return sorted(names)


def run(
    room: Room, script: str, *, again: bool = True, **changes: Any
) -> tuple[int, Ending | None]:
    """Run a job as an agent does that records its end; returns the shim's process and the end."""
    directory, shim, sandbox = room.start(script, **changes)

    async def work() -> tuple[int, Ending | None]:
        give_back = room.shims.put_back if again else None
        job = RunningJob(directory, ShimConnection(shim), sandbox, give_back)
        pid = pid_of(directory)
        end = await job.end()
        assert job.reuse_shim() is again
        return pid, end

    return asyncio.run(work())


def shims_of(room: Room) -> list[int]:
    """The shims there are."""
    children = Path(f"/proc/{room.shims.pid}/task/{room.shims.pid}/children")
    return [int(pid) for pid in children.read_text().split()]


def test_a_shim_has_one_job_after_another_and_holds_nothing_of_the_last(room: Room):
    wait_for(lambda: len(shims_of(room)) == SPARE)
    # A shim that is ready has closed the connection of the process that has forked it.
    waiting = list(room.shims._spare)
    wait_for(lambda: len(select.select(waiting, [], [], 0)[0]) == SPARE)
    unused = open_files(shims_of(room)[0])
    ends: list[tuple[int | None, int | None]] = []
    used = set()
    for number in range(4 * (SPARE + 1)):
        secret: dict[str, Any] = {
            "env": {"TOKEN": "some output"},
            "secrets": ("TOKEN",) if number % 2 else (),
        }
        pid, end = run(room, f"echo some output; exit {number}", **secret)
        assert end is not None
        ends.append((end.exit_code, end.records))
        used.add(pid)
        wait_for(lambda pid=pid: unused == open_files(pid))
        assert Path("/") == Path(f"/proc/{pid}/cwd").readlink()
    assert [(number, 1) for number in range(4 * (SPARE + 1))] == ends
    assert len(used) <= SPARE + 1  # as many processes as wait, not as many as jobs
    assert [] == list(room.jobs.iterdir())


def next_agents(directory: JobDirectory) -> JobDirectory:
    """The directory as the next process of the agent has it: with a descriptor of its own."""
    directory.close()
    return JobDirectory(directory.path)


def test_no_exit_record_is_written_for_a_recorded_end(room: Room):
    directory, shim, sandbox = room.start("exit 3")
    asyncio.run(_end(directory, shim, sandbox, recorded=True))
    found = next_agents(directory)
    wait_for(lambda: not found.locked)
    assert found.read(files.EXIT) is None
    assert reconnect(found) is None


def test_an_agent_that_ends_before_it_has_recorded_leaves_the_exit_record(room: Room):
    directory, shim, sandbox = room.start("exit 3")
    end = asyncio.run(_end(directory, shim, sandbox, recorded=False))
    shim.close()  # as if the agent was killed
    found = next_agents(directory)
    wait_for(lambda: not found.locked)
    assert end == Ending.decode(found.read(files.EXIT) or {})


def test_an_agent_that_does_not_record_in_time_leaves_the_exit_record(room: Room):
    directory, shim, sandbox = room.start("exit 3")
    held = os.dup(shim.fileno())  # the connection stays open, and nothing is said
    try:
        end = asyncio.run(_end(directory, shim, sandbox, recorded=False))
        wait_for(lambda: directory.read(files.EXIT))
    finally:
        os.close(held)
    assert end == Ending.decode(directory.read(files.EXIT) or {})


async def _end(
    directory: JobDirectory, shim: Any, sandbox: Any, *, recorded: bool
) -> Ending | None:
    """Wait for a job's end; with `recorded`, say that it is in the journal."""
    job = RunningJob(directory, ShimConnection(shim), sandbox)
    end = await job.end()
    if recorded:
        job.shim.send_recorded()
    return end
