"""Whether a shim has let a job go is decided by the lock on the job's directory."""

import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ec2_agent.jobs import reconnect as reconnecting
from ec2_agent.jobs.directory import JobDirectory
from ec2_agent.jobs.reconnect import ShimUnreachable, reconnect
from ec2_agent.processes import identity
from ec2_agent.shim import files
from tests.support.pauses import replace_sleep


@dataclass
class Found:
    """A directory as the next agent finds it, and the descriptor with which it was made."""

    directory: JobDirectory
    holder: int

    def let_go(self) -> None:
        """Free the lock, as a shim does that goes on with another job."""
        os.close(self.holder)
        self.holder = -1


@pytest.fixture(name="found")
def _found(tmp_path: Path) -> Iterator[Found]:
    """Its shim runs (it is this process), holds the lock, and does not listen any more."""
    holder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    found = Found(JobDirectory(tmp_path), holder)
    files.write(holder, files.SHIM, identity(os.getpid()))
    yield found
    found.directory.close()
    if found.holder >= 0:
        found.let_go()


def test_a_shim_that_runs_another_job_is_not_asked_about_this_one(
    found: Found, monkeypatch: pytest.MonkeyPatch
):
    found.let_go()
    asked: list[object] = []
    monkeypatch.setattr(reconnecting, "connect", lambda *_: asked.append(1))
    assert None is reconnect(found.directory)
    assert [] == asked


def test_a_shim_that_is_about_to_let_go_is_waited_for(
    found: Found, monkeypatch: pytest.MonkeyPatch
):
    looks: list[float] = []

    def pause(seconds: float) -> None:
        """Pass the time until the third look, which finds the lock free."""
        looks.append(seconds)
        if len(looks) == 3:
            found.let_go()

    replace_sleep(monkeypatch, reconnecting, pause)
    assert None is reconnect(found.directory)
    assert 3 == len(looks)


def test_a_shim_that_neither_answers_nor_lets_go_keeps_the_agent_from_starting(
    found: Found, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reconnecting, "ENDING_S", 0.0)
    with pytest.raises(ShimUnreachable, match="does not answer"):
        reconnect(found.directory)


def test_a_lock_that_is_held_by_another_than_the_shim_keeps_nobody_waiting(found: Found):
    """A child of the killed agent holds it until it has run its program."""
    files.write(found.holder, files.SHIM, {**identity(os.getpid()), "started": 1})
    assert None is reconnect(found.directory)
