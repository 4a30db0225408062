"""A host short of a resource: a start is refused with the reason, and later starts work."""

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ec2_agent.host.capacity import A_START, descriptors_left, raise_descriptor_limit
from ec2_agent.jobs.directory import JobDirectory
from ec2_agent.jobs.reconnect import reconnect
from ec2_agent.jobs.running import RunningJob
from ec2_agent.jobs.shim_connection import ShimConnection
from ec2_agent.sandbox.model import HostShort, SandboxLimits, Spec
from ec2_agent.shim import files
from ec2_agent.shim.pool import Shims
from tests.sandbox.running import TidyLauncher, strongest, wait_until_ready
from tests.sandbox.shim_jobs import HEAD, job_starter, make_directory, wait_end, wait_for
from tests.support.scarcity import count_open, disk, fill, only, soft_limit

JOBS = 200
SLOTS = 16


class Host:
    """A launcher, shims, and a directory for jobs."""

    def __init__(self, jobs: Path, slots: int) -> None:
        self.launcher = TidyLauncher(isolation=strongest(), slots=slots)
        self.shims = Shims()
        self.starter = job_starter(self.launcher, self.shims, jobs)
        self.epoch = 0
        self._connections: list[Any] = []

    def start(self, *command: str) -> tuple[JobDirectory, Any, Any]:
        """Start a command as an attempt does; what fails leaves nothing."""
        self.epoch += 1
        directory = make_directory(self.starter.jobs, self.epoch)
        try:
            spec = Spec(command, {}, SandboxLimits())
            shim, sandbox = self.starter.start_in(directory, HEAD, spec)
        except BaseException:
            directory.remove()
            raise
        self._connections.append(shim)
        return directory, shim, sandbox

    def close(self) -> None:
        """End it all, and let go of what a test that failed has left open."""
        for shim in self._connections:
            shim.close()
        self.shims.close()
        self.launcher.close()


@contextlib.contextmanager
def host(jobs: Path, slots: int) -> Iterator[Host]:
    """Have one for the length of a block."""
    made = Host(jobs, slots)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("slots", [0, 3])
def test_a_start_that_lacks_descriptors_is_the_hosts_fault_and_leaves_nothing(
    tmp_path: Path, slots: int
):
    """Whatever it fails at: with one fewer each time, down to none."""
    failed = []
    with host(tmp_path, slots) as here:
        for left in range(A_START, -1, -1):
            wait_end(*(job := here.start("true")))  # what is made once is made
            job[0].remove()
            wait_until_ready(here.launcher)
            with only(left):
                try:
                    job = here.start("true")
                except (HostShort, OSError):  # an OSError: there is no directory for it
                    failed.append(left)
                    assert descriptors_left() >= left
                    continue
            end = wait_end(*job)
            assert 0 == end.exit_code
            job[0].remove()
    assert failed == list(range(len(failed)))[::-1]
    assert 5 < len(failed) < A_START
    assert [] == list(tmp_path.iterdir())


def test_two_hundred_jobs_run_at_once(tmp_path: Path):
    """Under a soft limit of 256, which the agent raises: each takes four descriptors here."""
    with host(tmp_path, SLOTS) as here, soft_limit(256):
        raise_descriptor_limit()
        before = count_open()
        jobs = [here.start("/bin/sleep", "600") for _ in range(JOBS)]
        assert count_open() - before <= 5 * JOBS

        async def end() -> set[int | None]:
            kept = [
                RunningJob(directory, ShimConnection(shim), sandbox)
                for directory, shim, sandbox in jobs
            ]
            assert not any(k.shim.ended.done() for k in kept)
            for k in kept:
                k.shim.stop(50, "cancel")
            ends = await asyncio.gather(*(k.end() for k in kept))
            for k in kept:
                await k.let_shim_end(60)
                k.remove()
            return {None if e is None else e.signal for e in ends}

        assert {15} == asyncio.run(end())
        # Of each ready slot the answer with its pidfd may have been taken, or still lie waiting.
        assert count_open() <= before + SLOTS
    assert [] == list(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a disk")
def test_a_job_that_starts_on_a_disk_just_full_runs_and_is_found_once_there_is_space(
    tmp_path: Path,
):
    """Its shim could not leave word of itself then, nor write how it ended."""
    jobs = tmp_path / "disk"
    with disk(jobs, "size=1m"), host(jobs, 0) as here:
        directory = make_directory(jobs, 1)
        fill(jobs / "ballast")
        spec = Spec(("/bin/sh", "-c", "echo lost; read a <&3; echo kept"), {}, SandboxLimits())
        shim, sandbox = here.starter.start_in(directory, HEAD, spec)
        time.sleep(0.3)
        assert directory.read(files.SHIM) is None
        (jobs / "ballast").unlink()
        wait_for(lambda: directory.read(files.SHIM) is not None)
        again = JobDirectory(directory.path)
        found = reconnect(again)
        again.close()
        assert found is not None
        found.close()
        shim.close()
        sandbox.kill()
        wait_for(lambda: directory.read(files.EXIT) is not None)
        directory.remove()
