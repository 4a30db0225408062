"""What the tests of the stage second-opinion share: a deployment, and who judges it."""

from collections.abc import Iterator

import pytest

from tests.infra.conftest import varied  # noqa: F401 - the fixture; it has all filters that there are
from tests.second_opinion.engines import Engine, running


@pytest.fixture(scope="session")
def localstack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """LocalStack's engines (scripts/second-opinion-deps)."""
    home = tmp_path_factory.mktemp("localstack")
    with running("localstack", "second-opinion-venv", home) as engine:
        yield engine


@pytest.fixture(scope="session")
def ministack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The engines of the local AWS that end-to-end tests run on."""
    with running("ministack", "ministack-venv", tmp_path_factory.mktemp("ministack")) as engine:
        yield engine
