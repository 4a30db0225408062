"""The contract of `joblane.testing`: scenarios over it and over the deployed stacks agree."""

from pathlib import Path
from typing import Any

import pytest

from joblane import Client
from joblane.testing import FakeDeployment
from tests.e2e.conftest import Run
from tests.support import scenario_types
from tests.support.scenarios import SCENARIOS, has_a_result, how_it_ends

PYPROJECT = """
[project]
name = "scenariotypes"
version = "1"
dependencies = ["joblane"]
"""


@pytest.fixture(name="project", scope="module")
def _project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the type of the scenarios."""
    folder = tmp_path_factory.mktemp("scenariotypes", numbered=False)
    (folder / "scenariotypes").mkdir()
    (folder / "scenariotypes/__init__.py").touch()
    source = Path(scenario_types.__file__).read_text("utf-8")
    (folder / "scenariotypes/jobs.py").write_text(source)
    (folder / "pyproject.toml").write_text(PYPROJECT)
    return folder


@pytest.mark.usefixtures("agent")
def test_the_deployment_in_memory_answers_as_the_deployed_one(client: Client, push: Run) -> None:
    pushed = push()
    assert 0 == pushed.returncode, pushed.stderr.decode()
    memory = FakeDeployment([scenario_types.count], commands=how_it_ends).client()

    assert run(memory) == run(client)


def run(client: Client) -> dict[str, Any]:
    return {scenario.__name__: scenario(client) for scenario in (*SCENARIOS, has_a_result)}
