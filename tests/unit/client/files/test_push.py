"""`joblane types`: bundles by a real uv, what is sent, and one clear line for what fails."""

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from joblane.client.bundles import archive, build
from joblane.client.bundles.project import REQUIRED
from tests.support.bundle import NOT_IN_JOBS, SELDOM
from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi, Request, ok, problem
from tests.support.client.wheelhouse import only_from, wheel

ROOT = Path(__file__).parents[4]

JOBS = """
from pydantic import BaseModel
from joblane import Job, Key, job_type

print("imported")

class Params(BaseModel):
    origin: str
    numbers: list[int] = []

class Result(BaseModel):
    total: int

@job_type("sum", queue="slow", items="/numbers")
def total(params: Params, job: Job) -> Result:
    return Result(total=sum(params.numbers))
"""

PYPROJECT = """
[project]
name = "shop"
version = "1"
dependencies = ["joblane[agent]>=0.1", "native>=1", "plain"]
"""


@pytest.fixture(name="cache", scope="module")
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of uv: it would start this Python for each test. Wheels are other files in each."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(name="shop")
def _shop(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project in the current directory, and the wheels that it needs."""
    wheels = tmp_path / "wheels"
    wheel(wheels, "pydantic", "2.12.0")
    wheel(wheels, "plain", "2.0")
    for tag in ("cp311-cp311-manylinux2014_aarch64", "cp311-cp311-manylinux2014_x86_64"):
        wheel(wheels, "native", tag=tag, files={"native/_native.so": tag})
    for name, value in only_from(wheels, cache).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(build, "_NOT_IN_JOBS", (*NOT_IN_JOBS, *SELDOM))
    project = tmp_path / "project"
    (project / "shop/__pycache__").mkdir(parents=True)
    (project / "shop/__pycache__/old.pyc").write_bytes(b"old")
    (project / "shop/__init__.py").write_text("")
    (project / "shop/jobs.py").write_text(JOBS)
    (project / "shop/prices.csv").write_text("1;2\n")
    (project / "pyproject.toml").write_text(PYPROJECT)
    monkeypatch.chdir(project)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield project
    for name in set(sys.modules) - before:
        if name.partition(".")[0] == "shop":
            del sys.modules[name]


@pytest.fixture(name="whole")
def _whole(shop: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, whose bundles have all that a job may use of joblane: 200 files to compile."""
    monkeypatch.setattr(build, "_NOT_IN_JOBS", NOT_IN_JOBS)
    return shop


class Deployment:
    """The API's part: keeps bundles and definitions."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.bundles: dict[str, bytes] = {}
        self.types: dict[str, Any] = {}
        self.refusals: dict[str, Any] = {}
        self.kind = "update"
        self.why: str | None = None
        api.answers["/v1/types"] = ok({"architectures": ["arm64", "x86_64"], "entries": []})
        api.before = self.before

    def before(self, request: Request) -> None:
        """Answer the next request."""
        match request.method, request.path.strip("/").split("/"):
            case "POST", ["v1", "bundles"]:
                digest = request.body["sha256"]
                place = {"url": f"{self.api.url}/bucket/{digest}", "headers": {"x-a": "b"}}
                there = digest in self.bundles
                where = {"exists": there, "upload": None if there else place}
                self.api.faults.append(ok(where))
            case "PUT", ["bucket", digest]:
                assert request.headers["x-a"] == "b"
                assert "Authorization" not in request.headers
                assert digest == hashlib.sha256(request.body).hexdigest()
                self.bundles[digest] = request.body
                self.api.faults.append((200, {}, b""))
            case "PUT", ["v1", "types", name]:
                if name in self.refusals:
                    self.api.faults.append(self.refusals[name])
                    return
                change = "unchanged" if self.types.get(name) == request.body else "updated"
                if request.query.get("check") != "true":
                    self.types[name] = request.body
                changes = [{"field": "bundles", "kind": self.kind, "why": self.why}]
                answer = {"type": name, "version": 4, "change": change, "changes": changes}
                self.api.faults.append(ok(answer))

    def zip(self, architecture: str) -> zipfile.ZipFile:
        """The bundle of the type `sum`."""
        digest = self.types["sum"]["bundles"][architecture]
        return zipfile.ZipFile(io.BytesIO(self.bundles[digest]))


@pytest.fixture(name="deployment")
def _deployment(api: FakeApi) -> Deployment:
    return Deployment(api)


def forget() -> None:
    """Forget the imported package, as another process would not know it."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]


@pytest.mark.usefixtures("whole")
def test_push(deployment: Deployment, joblane: Joblane):
    ran = joblane("types", "push", "shop")
    printed = b"sum updated, version 4\n  bundles: update\n"
    assert (0, printed) == (ran.code, ran.stdout), ran.said
    assert "imported\n" in ran.said
    assert ran.said.count(": uploaded") == 2
    definition = deployment.types["sum"]
    assert definition["entry"] == "shop.jobs:total"
    assert definition["python"] == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert definition["defaults"] == {"queue": "slow"}
    assert definition["params_schema"]["required"] == ["origin"]
    for architecture, machine in (("arm64", "aarch64"), ("x86_64", "x86_64")):
        with deployment.zip(architecture) as bundle:
            names = set(bundle.namelist())
            assert (
                f"cp311-cp311-manylinux2014_{machine}" == bundle.read("native/_native.so").decode()
            )
        assert {
            "__main__.py",
            "shop/jobs.py",
            "shop/prices.csv",
            "shop/__pycache__/jobs.cpython-311.pyc",
            "pydantic/__init__.py",
            "plain/__init__.py",
            "joblane/handler/runner.py",
            "joblane/key/__init__.py",
        } <= names
        floors = ("aws", "client/cli", "compose", "http", "service", "testing")
        left_out = (*(f"joblane/{floor}/" for floor in floors), "bin/", ".lock")
        assert not [name for name in names if name.startswith(left_out) or "old.pyc" in name]
        assert not [name for name in names if name.endswith(("RECORD", "INSTALLER"))]
    # Nothing has changed: the same digests, nothing is sent again.
    forget()
    again = joblane("types", "push", "shop", "--json", "--reason", "again")
    document = json.loads(again.stdout)
    assert again.code == 0
    assert definition["bundles"] == document["bundles"]
    assert len(deployment.bundles) == 2
    assert "again" == deployment.types["sum"]["reason"]


def test_a_changed_line_is_another_bundle(shop: Path, deployment: Deployment, joblane: Joblane):
    options = ("--architecture", "arm64", "--migrate")
    assert joblane("types", "push", "shop", *options).code == 0
    (shop / "shop/jobs.py").write_text(JOBS.replace("sum(params", "1 + sum(params"))
    forget()
    assert joblane("types", "push", "shop", *options).code == 0
    assert len(deployment.bundles) == 2
    assert {"migrate": "true"} == deployment.api.requests[-1].query
    assert ["arm64"] == list(deployment.types["sum"]["bundles"])


@pytest.mark.usefixtures("shop")
def test_a_check_shows_what_would_change_and_sends_nothing(
    deployment: Deployment, joblane: Joblane
):
    deployment.kind, deployment.why = "narrows", "no bundle for arm64"
    ran = joblane("types", "push", "shop", "--architecture", "x86_64", "--check")
    printed = b"sum would be updated, version 4\n  bundles: narrows (no bundle for arm64)\n"
    assert (0, printed) == (ran.code, ran.stdout), ran.said
    assert ({}, {}) == (deployment.types, deployment.bundles)


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("kind", ["narrows", "breaks-producers"])
def test_what_narrows_is_written_with_yes_only(deployment: Deployment, joblane: Joblane, kind: str):
    deployment.kind = kind
    options = ("--architecture", "x86_64")
    ran = joblane("types", "push", "shop", *options)
    assert ran.code == 64
    assert "add --yes to write it" in ran.said
    assert ({}, {}) == (deployment.types, deployment.bundles)
    forget()
    assert joblane("types", "push", "shop", *options, "--yes").code == 0
    assert ["sum"] == list(deployment.types)


def test_a_package_of_which_a_type_is_refused_is_not_written(
    shop: Path, deployment: Deployment, joblane: Joblane
):
    (shop / "shop/more.py").write_text(JOBS.replace('"sum"', '"worse"'))
    refusal = problem(409, "Conflict", detail="key in use; wait, or use --migrate")
    deployment.refusals["worse"] = refusal
    ran = joblane("types", "push", "shop", "--architecture", "x86_64")
    assert ran.code == 64
    assert "type worse was refused" in ran.said
    assert "no type was written" in ran.said
    assert ({}, {}) == (deployment.types, deployment.bundles)


@pytest.mark.usefixtures("whole")
def test_the_bundle_runs(deployment: Deployment, joblane: Joblane, tmp_path: Path):
    """With its own copy of joblane; pydantic is this environment's."""
    assert joblane("types", "push", "shop", "--architecture", "x86_64").code == 0
    unpacked = tmp_path / "unpacked"
    with deployment.zip("x86_64") as bundle:
        bundle.extractall(unpacked)
    shutil.rmtree(unpacked / "pydantic")
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from joblane.handler.collect import load; import joblane\n"
        "print(load('shop.jobs:total').name, joblane.__file__, joblane.__cached__)"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-c", script, str(unpacked)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"sum {unpacked}/joblane/__init__.py" in ran.stdout
    assert f"{unpacked}/joblane/__pycache__/__init__.cpython-311.pyc" in ran.stdout


def test_locked_versions_are_used(shop: Path, deployment: Deployment, joblane: Joblane):
    """Those of uv.lock, also when newer ones are there."""
    (shop / "pyproject.toml").write_text(
        PYPROJECT.replace('"joblane[agent]>=0.1", ', "") + 'requires-python = ">=3.11"\n'
    )
    environment = {**os.environ, "UV_PYTHON": sys.executable}
    subprocess.run(["uv", "lock", "-q"], cwd=shop, env=environment, check=True)
    wheel(shop.parent / "wheels", "plain", "3.0")
    assert joblane("types", "push", "shop", "--architecture", "arm64").code == 0
    with deployment.zip("arm64") as bundle:
        assert b"2.0" in bundle.read("plain/__init__.py")
    (shop / "uv.lock").unlink()
    forget()
    assert joblane("types", "push", "shop", "--architecture", "arm64").code == 0
    with deployment.zip("arm64") as bundle:
        assert b"3.0" in bundle.read("plain/__init__.py")


def test_requirements_txt_of_a_module(shop: Path, deployment: Deployment, joblane: Joblane):
    (shop / "pyproject.toml").unlink()
    (shop / "requirements.txt").write_text("# what it needs\nplain  # this\n\n")
    shutil.rmtree(shop / "shop")
    (shop / "shop.py").write_text(JOBS)
    assert joblane("types", "push", "shop", "--architecture", "arm64").code == 0
    assert deployment.types["sum"]["entry"] == "shop:total"
    with deployment.zip("arm64") as bundle:
        assert {"shop.py", "plain/__init__.py"} <= set(bundle.namelist())
        assert "native/__init__.py" not in bundle.namelist()


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("shop/other.py", JOBS, "two job types are called sum: shop.jobs:total and shop.other:"),
        ("shop/jobs.py", "", "shop has no job types; a handler is decorated with @job_type"),
        ("shop/jobs.py", "1 / 0", "cannot import shop.jobs: ZeroDivisionError: division by zero"),
        ("shop/jobs.py", "import absent", "cannot import shop.jobs: No module named 'absent'"),
        (
            "shop/jobs.py",
            JOBS.replace('"sum"', '"Sum of"'),
            "type Sum of (shop.jobs:total): name: String should match pattern",
        ),
        (
            "shop/jobs.py",
            JOBS.replace('"slow"', '"Slow one"'),
            "type sum (shop.jobs:total): defaults.queue: ",
        ),
        (
            "shop/jobs.py",
            JOBS.replace('"/numbers"', '"numbers"'),
            "type sum (shop.jobs:total): items: ",
        ),
        (
            "shop/jobs.py",
            JOBS.replace('"/numbers"', '"/number"'),
            "type sum (shop.jobs:total): items: /number leads to no field of the params",
        ),
        (
            "shop/jobs.py",
            JOBS.replace('items="/numbers"', 'key=Key("shop", "/orgin")'),
            "type sum (shop.jobs:total): key: /orgin leads to no field of the params",
        ),
        (
            "shop/jobs.py",
            JOBS.replace("params: Params,", "params,"),
            "cannot import shop.jobs: TypeError: the handler of sum must declare params as a",
        ),
        (
            "pyproject.toml",
            PYPROJECT.replace("plain", "absent"),
            "cannot install the dependencies for arm64 and Python 3.11: ",
        ),
        (
            "pyproject.toml",
            "[project]\nname = 'shop'\ndynamic = ['dependencies']\n",
            "dependencies are dynamic; list them as dependencies of [project]",
        ),
        ("pyproject.toml", "[project", "pyproject.toml cannot be read: "),
    ],
)
def test_what_cannot_be_pushed(
    shop: Path, deployment: Deployment, joblane: Joblane, file: str, text: str, said: str
):
    """One line, and nothing is sent."""
    (shop / file).write_text(text)
    ran = joblane("types", "push", "shop", "--architecture", "arm64")
    assert 64 == ran.code
    assert said in ran.said
    assert [line for line in ran.said.splitlines() if line.startswith("joblane: ")] == [
        ran.said.splitlines()[-1]
    ]
    assert deployment.api.requests == []


def test_a_wheel_that_is_not_there_is_named(shop: Path, deployment: Deployment, joblane: Joblane):
    (shop.parent / "wheels/native-1.0-cp311-cp311-manylinux2014_aarch64.whl").unlink()
    ran = joblane("types", "push", "shop", "--architecture", "x86_64", "--architecture", "arm64")
    assert ran.code == 64
    assert "joblane: native==1.0 has no wheel for arm64 and Python 3.11 (" in ran.said
    assert deployment.types == {}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("absent",), "there is no package absent here, nor is one installed"),
        (("shop", "--architecture", "m68k"), "unknown architecture m68k; allowed: arm64, x86_64"),
    ],
)
@pytest.mark.usefixtures("shop")
def test_arguments_that_cannot_be(
    deployment: Deployment, joblane: Joblane, args: tuple[str, ...], said: str
):
    ran = joblane("types", "push", *args)
    assert (64, f"joblane: {said}") == (ran.code, ran.said.splitlines()[-1])
    assert deployment.bundles == {}


@pytest.mark.usefixtures("shop")
def test_without_uv(deployment: Deployment, joblane: Joblane, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    ran = joblane("types", "push", "shop", "--architecture", "arm64")
    assert ran.code == 64
    assert ran.said.splitlines()[-1].startswith("joblane: uv is not installed; it builds bundles: ")
    assert deployment.bundles == {}


@pytest.mark.usefixtures("shop")
def test_a_deployment_without_fleets(deployment: Deployment, joblane: Joblane):
    deployment.api.answers["/v1/types"] = ok({"architectures": [], "entries": []})
    ran = joblane("types", "push", "shop")
    assert ran.code == 64
    assert "joblane: the deployment has no fleets; name an --architecture" in ran.said


@pytest.mark.usefixtures("shop")
def test_a_type_that_is_refused(deployment: Deployment, joblane: Joblane):
    deployment.refusals["sum"] = problem(
        409, "Conflict", detail="key in use; wait, or use --migrate"
    )
    ran = joblane("types", "push", "shop", "--architecture", "arm64")
    assert ran.code == 64
    assert "joblane: type sum was refused:" in ran.said
    assert "key in use; wait, or use --migrate" in ran.said


@pytest.mark.usefixtures("shop")
def test_a_bundle_that_is_too_large(
    deployment: Deployment, joblane: Joblane, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("joblane.client.bundles.build.MAX_BUNDLE_BYTES", 1000)
    ran = joblane("types", "push", "shop", "--architecture", "arm64")
    assert ran.code == 64
    assert "at most 1000 are allowed" in ran.said
    assert deployment.bundles == {}


def test_ls_get_rm(api: FakeApi, joblane: Joblane):
    entry = {
        "type": "sum",
        "version": 3,
        "defaults": {"queue": "slow"},
        "description": "Sum up.\n\nAll.",
        "pushed_at": "2026-11-22T00:00:00.000Z",
    }
    api.answers["/v1/types"] = ok({"entries": [entry], "architectures": ["arm64"]})
    api.answers["/v1/types/sum"] = ok(entry)
    listed = joblane("types", "ls").stdout.decode().splitlines()
    assert listed[0].split() == ["TYPE", "VERSION", "QUEUE", "PUSHED", "DESCRIPTION"]
    assert listed[1].split()[:3] == ["sum", "3", "slow"]
    assert listed[1].endswith("Sum up.")
    assert json.loads(joblane("types", "ls", "--json").stdout)["architectures"] == ["arm64"]
    assert {"counts": "true"} == api.requests[-1].query
    oldest = {"job_id": None, "submitted_at": entry["pushed_at"], "age_s": 125, "within_s": 8}
    running = {"jobs": 1, "items": 1}
    jobs = {"waiting": {"jobs": 2, "items": 80}, "running": running, "oldest": oldest}
    api.answers["/v1/types"] = ok({"entries": [{**entry, "jobs": jobs}]})
    heading, row = joblane("types", "ls").stdout.decode().splitlines()[:2]
    assert ["QUEUE", "WAITING", "RUNNING", "OLDEST"] == heading.split()[2:6]
    assert ["slow", "2", "(80)", "1", "2m05s"] == row.split()[2:7]
    assert json.loads(joblane("types", "get", "sum", "--json").stdout) == entry
    assert b"version      3" in joblane("types", "get", "sum").stdout
    assert joblane("types", "get", "absent").code == 66
    api.answers["/v1/types/sum"] = (204, {}, b"")
    assert joblane("types", "rm", "sum", "--reason", "old").code == 0
    assert api.requests[-1].body == {"reason": "old"}


def test_what_handlers_need_is_as_pyproject_says():
    [required] = REQUIRED
    assert f'"{required}"' in (ROOT / "pyproject.toml").read_text()
    assert archive.MOUNT_POINT == "/opt/joblane/type"


def test_wait(api: FakeApi, joblane: Joblane):
    api.add("01A").end(reason="exit code 0")
    api.add("01B").end("dead", exit_code=3, reason="exit code 3")
    api.add("01C")
    ran = joblane("wait", "01A", "01B")
    assert (3, b"01A completed: exit code 0\n01B dead: exit code 3\n") == (ran.code, ran.stdout)
    ran = joblane("wait", "01A", "--json")
    assert (0, "01A") == (ran.code, json.loads(ran.stdout)["id"])
    ran = joblane("wait", "01C", "01A", "--timeout-s", "0.3")
    assert (124, b"") == (ran.code, ran.stdout)
    assert "joblane: 1 of 2 jobs had not ended after 0.3 s: 01C pending\n" == ran.said
