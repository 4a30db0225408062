"""A disk ends with the shim that keeps its work directory, whatever becomes of the agent."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ec2_agent.sandbox.disk.work_disks import WorkDisks
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import SandboxLimits, Spec
from ec2_agent.shim import files
from ec2_agent.shim.pool import Shims
from tests.sandbox.running import strongest
from tests.sandbox.shim_jobs import HEAD, job_starter, make_directory, wait_for
from tests.sandbox.test_disks import backing_files

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


class Started:
    """A job with a disk, under a shim that keeps its work directory."""

    def __init__(self, place: Path, launcher: Launcher, shims: Shims, script: str) -> None:
        (place / "jobs").mkdir()
        self.directory = make_directory(place / "jobs", 1)
        starter = job_starter(launcher, shims, place / "jobs")
        spec = Spec(("/bin/sh", "-c", script), {}, SandboxLimits(disk_mb=32), keep_work=True)
        self.connection, self.sandbox = starter.start_in(self.directory, HEAD, spec)

    @property
    def shim(self) -> dict[str, Any]:
        """The shim, once it has written who it is."""
        wait_for(lambda: self.directory.read(files.SHIM) is not None)
        return self.directory.read(files.SHIM) or {}


@pytest.fixture(name="parts")
def _parts(tmp_path: Path) -> Iterator[tuple[Launcher, Shims]]:
    disks = WorkDisks(tmp_path)
    launcher, shims = Launcher(isolation=strongest(), slots=0, disks=disks), Shims()
    yield launcher, shims
    shims.close()
    launcher.close()


def disk(place: Path) -> list[str]:
    """What there is for the job."""
    return backing_files(place / "disks")


def test_a_killed_shim_leaves_no_disk(tmp_path: Path, parts: tuple[Launcher, Shims]) -> None:
    job = Started(tmp_path, *parts, "head -c 20000000 /dev/zero >x; exec sleep 600")
    assert len(disk(tmp_path)) == 1
    os.kill(job.shim["pid"], signal.SIGKILL)
    wait_for(lambda: not disk(tmp_path))
    job.connection.close()
    job.sandbox.release(killed=False)


def test_what_a_job_left_stays_with_its_shim_and_goes_with_it(
    tmp_path: Path, parts: tuple[Launcher, Shims]
) -> None:
    """The agent has no copy of the work directory, as after it was killed."""
    job = Started(tmp_path, *parts, "echo out >x")
    wait_for(lambda: job.directory.read(files.EXIT) is not None)
    job.connection.close()
    time.sleep(0.5)
    assert len(disk(tmp_path)) == 1
    os.kill(job.shim["pid"], signal.SIGKILL)
    wait_for(lambda: not disk(tmp_path))
    job.sandbox.release(killed=False)
