import pytest

from builds import sync
from joblane.testing import FakeDeployment


@pytest.fixture
def deployment() -> FakeDeployment:
    return FakeDeployment([sync])
