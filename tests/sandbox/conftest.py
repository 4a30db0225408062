"""The launcher that tests of a job's view share."""

import os
from collections.abc import Iterator

import pytest

from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import Limits
from tests.sandbox.running import strongest


@pytest.fixture(scope="session")
def launcher() -> Iterator[Launcher]:
    """A launcher with the strongest isolation of this host and small limits."""
    os.environ["AWS_SECRET_ACCESS_KEY"] = "the agent's own"
    with Launcher(isolation=strongest(), slots=2, defaults=Limits(pids=200, tmp_mb=64)) as it:
        yield it
