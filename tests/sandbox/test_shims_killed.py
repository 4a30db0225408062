"""An agent that is killed while its shims have one job after another.

A shim here has had jobs before the one that matters. Killed means that the agent's connections are
closed; the next agent finds the directories. What it must find is in `RunningJob.reuse_shim`.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ec2_agent.jobs.directory import JobDirectory
from ec2_agent.jobs.reconnect import reconnect
from ec2_agent.jobs.running import RunningJob
from ec2_agent.jobs.shim_connection import ShimConnection
from ec2_agent.processes import is_running
from ec2_agent.sandbox.model import Ending
from ec2_agent.shim import files
from ec2_agent.shim.pool import SPARE
from tests.sandbox.running import STOPS, alive, go_on, marker
from tests.sandbox.shim_jobs import Room, wait_end, wait_for


@pytest.fixture(name="room")
def _room(tmp_path: Path) -> Iterator[Room]:
    with contextlib.closing(Room(tmp_path, reuse=True)) as room:
        for _ in range(SPARE + 1):
            _run_and_record(room)  # so that each shim that waits has had a job
        yield room


def _run_and_record(room: Room, code: int = 3) -> int:
    """Run a job whose shim is used again; returns the shim's process."""
    directory, shim, sandbox = room.start(f"exit {code}")

    async def work() -> int:
        job = RunningJob(directory, ShimConnection(shim), sandbox, room.shims.put_back)
        wait_for(lambda: directory.read(files.SHIM))
        pid = int((directory.read(files.SHIM) or {})["pid"])
        end = await job.end()
        assert end is not None
        assert (code, True) == (end.exit_code, job.reuse_shim())
        return pid

    return asyncio.run(work())


class Life(NamedTuple):
    """What one agent has left."""

    shim: dict[str, Any]
    """Identity of the shim's process."""
    directory: JobDirectory
    """As the next agent has it."""
    end: Ending | None
    """What the agent has learnt of the end."""


STEPS = ("it runs", "its end came", "the directory is removed", "it said recorded", "it gave back")


def live(
    room: Room, killed_when: str, mark: str, before: Callable[[], None] = lambda: None
) -> Life:
    """Run a job in a shim that has had others, up to a step at which the agent is killed."""
    used = {_run_and_record(room) for _ in range(2 * SPARE)}
    before()
    directory, shim, sandbox = room.start(f"{STOPS} exit 7 # {mark}")
    wait_for(lambda: directory.read(files.SHIM))
    identity = directory.read(files.SHIM) or {}
    assert identity["pid"] in used
    path = directory.path

    async def work() -> Ending | None:
        link = ShimConnection(shim)
        job = RunningJob(directory, link, sandbox, room.shims.put_back)
        if killed_when == "it runs":
            link.close()
            return None
        go_on(mark)
        end = await job.end()
        match killed_when:
            case "its end came":
                link.close()
            case "the directory is removed":
                directory.remove()
                link.close()
            case "it said recorded":
                directory.remove()
                sock = link.send_recorded()
                assert sock is not None
                sock.close()
            case "it gave back":
                assert job.reuse_shim()
                room.shims.close()
        return end

    end = asyncio.run(work())
    with contextlib.suppress(OSError):
        directory.close()
    return Life(identity, JobDirectory(path) if path.exists() else directory, end)


@pytest.mark.parametrize("killed_when", STEPS)
def test_an_agent_killed_at_any_step_leaves_the_end_of_its_job_and_no_shim(
    room: Room, killed_when: str
):
    """Before it removes the directory the agent has the end in its journal."""
    mark = marker()
    life = live(room, killed_when, mark)
    if killed_when == "it runs":
        connection = reconnect(life.directory)
        assert connection is not None
        go_on(mark)
        end = wait_end(life.directory, connection, None)
        assert 7 == end.exit_code
    elif killed_when == "its end came":
        wait_for(lambda: not life.directory.locked)
        assert reconnect(life.directory) is None
        assert life.end == Ending.decode(life.directory.read(files.EXIT) or {})
    else:
        assert not life.directory.path.exists()
    if life.end is not None:
        assert 7 == life.end.exit_code
    wait_for(lambda: not is_running(life.shim))
    assert [] == alive(mark)


@pytest.mark.parametrize("killed_when", STEPS[:-1])
def test_other_shims_of_an_agent_are_not_touched(room: Room, killed_when: str):
    """As if one connection was lost: jobs go on to come, each with its own end."""
    mark = marker()
    life = live(room, killed_when, mark)
    if killed_when == "it runs":
        go_on(mark)
    for number in range(SPARE + 2):
        _run_and_record(room, number)
    wait_for(lambda: not is_running(life.shim))


def test_an_adopted_job_writes_its_exit_record(room: Room):
    """The agent that asked to do without it has ended."""
    mark = marker()
    _adopt(live(room, "it runs", mark), mark)


def _adopt(life: Life, mark: str) -> None:
    """Adopt a job as the next agent, to which its shim is not to be given another one."""
    connection = reconnect(life.directory)
    assert connection is not None

    async def work() -> None:
        job = RunningJob(life.directory, ShimConnection(connection))
        go_on(mark)
        end = await asyncio.wait_for(job.end(), 60)
        assert end is not None
        assert (7, False) == (end.exit_code, job.reuse_shim())
        await job.let_shim_end(60)
        assert end == Ending.decode(life.directory.read(files.EXIT) or {})

    asyncio.run(work())
    wait_for(lambda: not is_running(life.shim))


def test_only_the_agent_that_started_a_job_relieves_its_shim_of_the_record(room: Room):
    """Another one's journal may be less durable; so its word changes nothing."""
    mark = marker()
    life = live(room, "it runs", mark)
    connection = reconnect(life.directory)
    assert connection is not None

    async def work() -> Ending | None:
        link = ShimConnection(connection)
        go_on(mark)
        end = await RunningJob(life.directory, link).end()
        sock = link.send_recorded()
        assert sock is not None
        with sock:
            wait_for(lambda: life.directory.read(files.EXIT))
        return end

    end = asyncio.run(work())
    assert end == Ending.decode(life.directory.read(files.EXIT) or {})
    wait_for(lambda: not is_running(life.shim))
