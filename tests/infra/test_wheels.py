"""The wheels: what they install, what their modules import, and that the command line starts."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from email.message import Message
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple

import pytest

import joblane
from infra.assets import AGENT_LIBRARIES, find_uv
from tests.infra.synthesis import ROOT

IMPORT_ALL = """
import importlib, json, sys
from importlib.metadata import packages_distributions
for name in json.load(sys.stdin):
    importlib.import_module(name)
json.dump(packages_distributions(), sys.stdout)
"""
"""Imports modules, and prints which distribution each top-level name comes from."""


class Wheel(NamedTuple):
    """A built wheel."""

    path: Path
    files: frozenset[str]
    metadata: Message

    @property
    def modules(self) -> list[str]:
        """Names of its modules, except those that run a program when they are imported."""
        names = sorted(file for file in self.files if file.endswith(".py"))
        dotted = [name.removesuffix(".py").removesuffix("/__init__") for name in names]
        return [name.replace("/", ".") for name in dotted if not name.endswith("__main__")]

    @property
    def requires(self) -> set[str]:
        """Names of the distributions that it requires without an extra."""
        lines = self.metadata.get_all("Requires-Dist", [])
        plain = [line for line in lines if "extra ==" not in line]
        return {normal(re.split(r"[^\w.-]", line)[0]) for line in plain}

    def imports(self) -> Iterator[tuple[str, str]]:
        """Yield each file with each top-level name that it imports when it runs, early or late."""
        with zipfile.ZipFile(self.path) as archive:
            for file in sorted(self.files):
                if not file.endswith(".py"):
                    continue
                for node in runtime_nodes(ast.parse(archive.read(file))):
                    if isinstance(node, ast.Import):
                        yield from ((file, alias.name.partition(".")[0]) for alias in node.names)
                    elif isinstance(node, ast.ImportFrom) and node.module:
                        yield file, node.module.partition(".")[0]


def runtime_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is no expression at and below a node, without bodies of `if TYPE_CHECKING`."""
    nodes = [node]
    while nodes:
        node = nodes.pop()
        yield node
        below: Iterable[ast.AST] = ast.iter_child_nodes(node)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            below = node.orelse
        nodes += (child for child in below if not isinstance(child, ast.expr))


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def run(*argv: object, cwd: Path, env: dict[str, str] | None = None, text: str = "") -> str:
    done = subprocess.run(
        [str(word) for word in argv],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout


def build(package: str, into: Path) -> Wheel:
    run(find_uv(ROOT), "build", "--wheel", "--package", package, "--out-dir", into, cwd=ROOT)
    (path,) = into.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        files = frozenset(name for name in archive.namelist() if ".dist-info/" not in name)
        (info,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Wheel(path, files, Parser().parsestr(archive.read(info).decode()))


def environment(folder: Path, package: str, *wheels: Wheel, extra: str | None = None) -> Path:
    """Make an environment of the package's locked dependencies and the wheels; return its bin.

    The dependencies come out of uv's cache. `uv pip check` says whether they are what the wheels
    declare.
    """
    uv = find_uv(ROOT)
    python = folder / "bin" / "python"
    sync = [uv, "sync", "--frozen", "--no-default-groups", "--no-install-workspace"]
    sync += ["--package", package, "--python", sys.executable]
    sync += [] if extra is None else ["--extra", extra]
    run(*sync, cwd=ROOT, env={"UV_PROJECT_ENVIRONMENT": str(folder)})
    paths = [wheel.path for wheel in wheels]
    run(uv, "pip", "install", "--no-deps", "--no-index", "--python", python, *paths, cwd=folder)
    run(uv, "pip", "check", "--python", python, cwd=folder)
    return folder / "bin"


OF_EXTRAS = tuple(
    f"joblane/{part}"
    for part in (
        *("aws/", "compose/", "http/", "service/", "testing/"),
        # What computes due times; the fields of schedules are for everybody.
        *("schedule/clock_changes", "schedule/cron", "schedule/decide", "schedule/record"),
        "schedule/times",
    )
)
"""Import what `joblane[testing]` or the agent brings."""


def find_undeclared(
    wheel: Wheel, bin_: Path, declared: set[str], own: set[str]
) -> set[tuple[str, str]]:
    """Import every module of the wheel; return its imports of what is not declared."""
    floors = tuple(floor.replace("/", ".").rstrip(".") for floor in OF_EXTRAS)
    modules = [name for name in wheel.modules if not name.startswith(floors)]
    printed = run(bin_ / "python", "-IWerror", "-c", IMPORT_ALL, cwd=bin_, text=json.dumps(modules))
    homes = {name: {normal(home) for home in found} for name, found in json.loads(printed).items()}
    return {
        (file, name)
        for file, name in wheel.imports()
        if name not in sys.stdlib_module_names | own
        and not homes.get(name, set()) & declared
        and not file.startswith(OF_EXTRAS)
    }


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    return build("joblane", tmp_path_factory.mktemp("joblane"))


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    return build("joblane-agent", tmp_path_factory.mktemp("joblane-agent"))


@pytest.fixture(name="bin_", scope="module")
def _bin(client: Wheel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the client alone."""
    return environment(tmp_path_factory.mktemp("client") / "venv", "joblane", client)


def test_the_client_installs_one_name_and_imports_what_it_declares(
    client: Wheel, bin_: Path, tmp_path: Path
) -> None:
    assert {"joblane"} == {file.partition("/")[0] for file in client.files}
    # Of an extra: tests/unit/client/test_signing.py shows that it is asked for.
    signing = {("joblane/client/signing.py", "botocore")}
    assert signing == find_undeclared(client, bin_, client.requires, {"joblane"})
    names = "from joblane import AsyncClient, Client; print(Client.__name__, AsyncClient.__name__)"
    assert "Client AsyncClient\n" == run(bin_ / "python", "-Ic", names, cwd=tmp_path)
    assert f"joblane {joblane.__version__}\n" == run(bin_ / "joblane", "--version", cwd=tmp_path)
    assert "Usage: joblane" in run(bin_ / "joblane", "--help", cwd=tmp_path)


def test_the_client_says_how_to_install_the_agent(client: Wheel, bin_: Path, tmp_path: Path):
    done = subprocess.run(
        [bin_ / "joblane", "agent"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    expected = (
        "joblane: the agent is not installed beside this command; its wheel is built in a checkout "
        "by: scripts/wheel agent (docs/how-to/install.md)\n"
    )
    assert (78, "", expected) == (done.returncode, done.stdout, done.stderr)
    extra = [line for line in client.metadata.get_all("Requires-Dist", []) if "extra ==" in line]
    assert [
        "joblane-agent; extra == 'agent'",
        "jsonschema-rs<1,>=0.60; extra == 'agent'",
        "botocore<2,>=1.43; extra == 'iam'",
        "aws-lambda-powertools<4,>=3.37; extra == 'testing'",
        "botocore<2,>=1.43; extra == 'testing'",
        "cronsim==2.8; extra == 'testing'",
        "jsonschema-rs<1,>=0.60; extra == 'testing'",
        "tzdata>=2026.1; extra == 'testing'",
    ] == extra


def test_the_project_of_the_page_is_tested_with_the_wheel_and_its_extra_alone(
    client: Wheel, tmp_path: Path
) -> None:
    """That of docs/how-to/test-your-code.md, by pytest, away from the checkout."""
    bin_ = environment(tmp_path / "venv", "joblane", client, extra="testing")
    shutil.copytree(ROOT / "examples/testing", tmp_path / "project")
    # pytest is no part of the extra; nothing else of this checkout's libraries is to be found.
    (libraries := tmp_path / "pytest").mkdir()
    for name in ("pytest", "pluggy", "iniconfig", "packaging", "pygments"):
        installed = distribution(name)
        tops = {file.parts[0] for file in installed.files or ()} - {".."}
        for top in tops:
            (libraries / top).symlink_to(str(installed.locate_file(top)))
    env = {"PYTHONPATH": str(libraries)}
    said = run(bin_ / "python", "-m", "pytest", cwd=tmp_path / "project", env=env)

    assert re.search(r"\b14 passed\b", said), said


def test_the_test_kit_says_which_extra_it_needs(bin_: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [bin_ / "python", "-Ic", "import joblane.testing"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "ModuleNotFoundError: joblane.testing needs " in done.stderr
    assert (
        "install the wheel with its extra, joblane-VERSION-py3-none-any.whl[testing]" in done.stderr
    )


def test_the_agent_brings_its_compiled_part_for_both_architectures(agent: Wheel) -> None:
    assert set(AGENT_LIBRARIES.values()) <= agent.files


def test_the_agent_brings_its_own_files_beside_the_client_of_its_version(
    client: Wheel, agent: Wheel, tmp_path: Path
) -> None:
    bin_ = environment(tmp_path / "venv", "joblane-agent", client, agent)

    assert client.metadata["Version"] == agent.metadata["Version"] == joblane.__version__
    assert f"joblane=={joblane.__version__}" in agent.metadata.get_all("Requires-Dist", [])
    assert set() == client.files & agent.files
    assert {"ec2_agent"} == {file.partition("/")[0] for file in agent.files}
    assert set() == find_undeclared(agent, bin_, agent.requires, {"joblane", "ec2_agent"})
    assert "--deployment" in run(bin_ / "joblane", "agent", "--help", cwd=tmp_path)


OF_THE_PAGE = {
    "scripts/wheel": "its uv build, as the fixture `client`",
    "scripts/wheel agent": "its uv build, as the fixture `agent`; scripts/native by scripts/setup",
    "python3 -m venv ~/joblane": "by uv, in `environment`",
    ". ~/joblane/bin/activate": "not run: programs of `environment` are named with their folder",
    "pip install dist/joblane-*.whl": "by uv, without an index, as in `environment`",
    "joblane --version": "test_the_client_installs_one_name_and_imports_what_it_declares",
    'pip install dist/joblane-*.whl dist/joblane_agent-*.whl "jsonschema-rs>=0.60,<1"': (
        "by uv, without an index, as in `environment`"
    ),
    "scp dist/joblane-*.whl laptop:": "not run: it needs another machine",
    "aws s3 cp dist/ s3://BUCKET/joblane/ --recursive --exclude '*' --include '*.whl'": (
        "not run: AWS's command line is its own"
    ),
    "aws s3 cp s3://BUCKET/joblane/ . --recursive": "not run: AWS's command line is its own",
    "python3 -m venv ~/joblane && ~/joblane/bin/pip install ./joblane-*.whl": (
        "by uv, without an index, as in `environment`"
    ),
}
"""Commands of docs/how-to/install.md: what runs each here, or why nothing does."""


def test_each_command_of_the_page_is_run_here_or_has_a_reason() -> None:
    page = (ROOT / "docs/how-to/install.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    shown = [line.partition("  #")[0].strip() for block in blocks for line in block.splitlines()]
    assert set(OF_THE_PAGE) == set(shown)
