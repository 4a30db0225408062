"""How hypothesis works in all tests, and which tests only a deep run makes.

`--hypothesis-profile=wander` looks for other examples than the last run did.
"""

import gc
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.depth import DEEP, budget

pytest_plugins = ["tests.support.forked"]

ROOT = Path(__file__).parents[1]
# As scripts/test sets it, for a pytest that is started by itself: uv is in .local/tools, and
# Debian leaves sbin out of a person's PATH.
os.environ["PATH"] = os.pathsep.join(
    (
        *(str(ROOT / folder) for folder in (".venv/bin", ".local/tools/bin")),
        os.environ.get("PATH", os.defpath),
        "/usr/sbin",
        "/sbin",
    )
)

settings.register_profile("wander", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "steady",  # a run says the same of the same commit, on a busy host as well
    settings.get_profile("wander"),
    derandomize=True,
    max_examples=budget(30, 100),
)
settings.load_profile("steady")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests with the marker `deep` to the deep run (tests/support/depth.py)."""
    if DEEP:
        return
    left = [item for item in items if item.get_closest_marker("deep") is not None]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item.get_closest_marker("deep") is None]


def pytest_collection_finish() -> None:
    """Keep the garbage collector from looking at all modules and tests again and again."""
    gc.collect()
    gc.freeze()
