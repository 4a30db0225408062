"""Fixtures of the tests of the desk."""

from pathlib import Path

import pytest

from tests.support.desk_world import World


@pytest.fixture(name="world")
def _world(tmp_path: Path) -> World:
    return World(tmp_path)
