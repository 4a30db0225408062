"""Fixtures of the agent's unit tests."""

import os
import resource
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _process() -> Iterator[None]:
    """What an agent's start sets for its whole process ends with the test."""
    umask, files = os.umask(0o022), resource.getrlimit(resource.RLIMIT_NOFILE)
    os.umask(umask)
    yield
    os.umask(umask)
    if resource.getrlimit(resource.RLIMIT_NOFILE) != files:
        resource.setrlimit(resource.RLIMIT_NOFILE, files)
