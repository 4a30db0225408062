"""`joblane types run`: what it builds and starts, and one line for what is wrong.

`tests/unit/agent/test_type_run.py` has what it starts.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ec2_agent.attempt.typed import find_python
from joblane.client.bundles import build
from tests.sandbox.running import REPOSITORY
from tests.support.bundle import NOT_IN_JOBS, SELDOM, add_dependencies
from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi

HANDLERS = """
from pydantic import BaseModel
from joblane import Job, job_type

print("imported")

class Params(BaseModel):
    numbers: list[int]

@job_type("sum")
def total(params: Params, job: Job) -> int:
    return sum(params.numbers)

def other(params, job):
    pass
"""


@pytest.fixture(name="shop")
def _shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project in the current directory whose dependencies come from this environment."""
    folder = tmp_path / "project"
    (folder / "shop").mkdir(parents=True)
    (folder / "shop" / "__init__.py").touch()
    (folder / "shop" / "jobs.py").write_text(HANDLERS)
    (folder / "shop" / "broken.py").write_text("import no_such_module\n")
    (folder / "pyproject.toml").write_text('[project]\nname = "shop"\nversion = "1"\n')
    (folder / "params.json").write_text('{"numbers": [4, 5]}')
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    # tests/unit/client/files/test_push.py has what uv does; here is no wheel of pydantic.
    monkeypatch.setattr(
        "joblane.client.bundles.wheels.install", lambda *given: add_dependencies(given[-1])
    )
    monkeypatch.setattr(build, "_NOT_IN_JOBS", (*NOT_IN_JOBS, *SELDOM))
    monkeypatch.setenv("PYTHONPATH", f"{REPOSITORY}:{REPOSITORY}/layers/core/python")
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]


@pytest.mark.skipif(find_python("3.11") is None, reason="jobs here have no python3.11 in /usr")
@pytest.mark.usefixtures("shop")
def test_a_handler_runs_in_a_sandbox_and_no_deployment_is_asked(joblane: Joblane, api: FakeApi):
    ran = joblane("types", "run", "shop.jobs:total", "--params", "params.json")
    assert (0, 9) == (ran.code, json.loads(ran.stdout)), ran.said
    assert "joblane: succeeded: exit code 0" in ran.said
    assert [] == api.requests


@pytest.mark.skipif(find_python("3.11") is None, reason="jobs here have no python3.11 in /usr")
def test_params_are_checked_before_the_job_starts(joblane: Joblane, shop: Path):
    (shop / "params.json").write_text('{"numbers": ["four"]}')
    ran = joblane("types", "run", "shop.jobs:total", "--params", "params.json")
    assert (65, b"") == (ran.code, ran.stdout)
    assert "joblane: not started: params.numbers.0: must be an integer\n" in ran.said
    assert "four" not in ran.said


@pytest.mark.parametrize(
    ("entry", "params", "said"),
    [
        ("shop.jobs:nothing", "params.json", "shop.jobs:nothing is not a job type; there are: "),
        ("shop.jobs:other", "params.json", "there are: shop.jobs:total"),
        ("shop.jobs", "params.json", "shop.jobs is not a handler: write PACKAGE:FUNCTION"),
        (":total", "params.json", "write PACKAGE:FUNCTION"),
        ("shop.nothing:total", "params.json", "there is no package shop.nothing here"),
        ("shop.broken:total", "params.json", "No module named 'no_such_module'"),
        ("shop.jobs:total", "nothing.json", "nothing.json: No such file or directory"),
    ],
)
@pytest.mark.usefixtures("shop")
def test_a_wrong_reference_is_one_line(joblane: Joblane, entry: str, params: str, said: str):
    ran = joblane("types", "run", entry, "--params", params)
    assert (64, b"") == (ran.code, ran.stdout)
    lines = [line for line in ran.said.splitlines() if line != "imported"]
    assert 1 == len(lines), ran.said
    assert said in lines[0]
