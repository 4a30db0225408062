"""The launcher that tests of a job's view share."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import SandboxLimits
from tests.sandbox.running import TidyLauncher, strongest

if TYPE_CHECKING:
    from tests.sandbox.shim_jobs import Room


@pytest.fixture(name="shared_launcher", scope="session")
def _shared_launcher() -> Iterator[TidyLauncher]:
    """A launcher with the strongest isolation of this host and small limits."""
    limits = SandboxLimits(pids=200, tmp_mb=64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_SECRET_ACCESS_KEY", "the agent's own")
        with TidyLauncher(isolation=strongest(), slots=2, defaults=limits) as it:
            yield it


@pytest.fixture
def launcher(shared_launcher: TidyLauncher) -> Iterator[Launcher]:
    """The launcher; what a test leaves running ends with the test."""
    yield shared_launcher
    shared_launcher.end_jobs()


@pytest.fixture(name="room")
def _room(tmp_path: Path) -> Iterator["Room"]:
    """Starts jobs under shims."""
    from tests.sandbox.shim_jobs import Room  # imports take long in the machine

    with contextlib.closing(Room(tmp_path)) as room:
        yield room
