"""Fixtures of the unit tests."""

from collections.abc import Iterator

import pytest

from tests.support.aws import Cloud, cloud


@pytest.fixture(name="aws")
def _aws() -> Iterator[Cloud]:
    """The deployment, in moto."""
    with cloud() as made:
        yield made
