"""How hypothesis works in all tests, and which tests only a deep run makes.

`--hypothesis-profile=wander` looks for other examples than the last run did.
"""

import pytest
from hypothesis import HealthCheck, settings

from tests.support.depth import DEEP, budget

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
