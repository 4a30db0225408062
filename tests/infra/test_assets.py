"""The Lambda layer and the agent's bundle: locked wheels for the target machine, built once."""

import json
import platform
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Environment

from infra import assets
from infra.assets import (
    AGENT_PACKAGES,
    KEPT_BUNDLES,
    THIS_PYTHON,
    build_assets,
    bundle,
    find_uv,
)
from infra.compose import compose
from infra.config import load_config
from infra.errors import AssetError
from joblane.deployment.services import OF_CREDENTIALS, SERVICES
from scripts.local.deploy import leave_the_agents_role, local_config, synthesize
from scripts.local.emulator import ACCOUNT, REGION
from tests.infra.synthesis import ROOT, new_app

LAYER_SOURCES = "layers/core/python/joblane"

UNCHECKED_HASH = b"\1\0\0\0"
"""Flags of bytecode that is not compared with its source (PEP 552)."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the real lock and a tiny package of our own."""
    (tmp_path / "packages" / "agent").mkdir(parents=True)
    for file in ("pyproject.toml", "packages/agent/pyproject.toml", "uv.lock"):
        shutil.copy(ROOT / file, tmp_path / file)
    tools = tmp_path / ".venv" / "bin"
    tools.mkdir(parents=True)
    (tools / "uv").symlink_to(find_uv(ROOT))
    package = tmp_path / LAYER_SOURCES
    (package / "__pycache__").mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "__pycache__" / "left.pyc").write_bytes(b"left")
    return tmp_path


@pytest.fixture(name="arm", scope="module")
def _arm() -> Path:
    """A layer for another machine and Python, as the repository's own joblane.toml has it.

    Built as within the CDK's command line, which wants colours.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FORCE_COLOR", "1")
        return layer(ROOT)


@pytest.fixture(name="here", scope="module")
def _here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The layer of a local deployment, for this machine and Python."""
    file = tmp_path_factory.mktemp("here") / "joblane.toml"
    file.write_text(local_config(platform.machine()), encoding="utf-8")
    return build_assets(ROOT, load_config(file), {}).layer


def layer(
    root: Path,
    architecture: assets.Architecture = "arm64",
    python: str = "3.13",
    *,
    packages: tuple[str, ...] = (LAYER_SOURCES,),
    bytecode: bool = False,
) -> Path:
    return bundle(
        root,
        label="layer",
        group=("--only-group", "layer"),
        target=(architecture, python),
        packages=packages,
        folder="python",
        bytecode=bytecode,
    )


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


def install_nothing(*arguments: Any) -> None:
    arguments[3].mkdir(parents=True)


def refuse_to_run(*_arguments: object, **_options: object) -> None:
    raise AssertionError("a program was started")


def test_wheels_are_for_the_machine_that_runs_them(arm: Path, here: Path) -> None:
    of_arm = {file.name: machine(file) for file in arm.rglob("*.so")}
    of_here = {file.name: machine(file) for file in here.rglob("*.so")}

    assert "_pydantic_core.cpython-313-aarch64-linux-gnu.so" in of_arm
    tag = f"cpython-{THIS_PYTHON.replace('.', '')}-{platform.machine()}-linux-gnu"
    assert f"_pydantic_core.{tag}.so" in of_here
    assert {"_message.abi3.so", "jsonschema_rs.abi3.so"} <= of_arm.keys() & of_here.keys()
    own = {"x86_64": EM_X86_64, "aarch64": EM_AARCH64}[platform.machine()]
    assert ({EM_AARCH64}, {own}) == (set(of_arm.values()), set(of_here.values()))


EM_X86_64, EM_AARCH64 = 62, 183
"""Architectures in ELF files (elf.h)."""


def machine(library: Path) -> int:
    with library.open("rb") as file:
        return int.from_bytes(file.read(20)[18:20], "little")


def test_a_bundle_takes_no_room_for_what_uv_has_in_its_cache(arm: Path) -> None:
    cache = subprocess.run([find_uv(ROOT), "cache", "dir"], capture_output=True, check=True)
    if Path(cache.stdout.decode().strip()).stat().st_dev != arm.stat().st_dev:
        pytest.skip("uv's cache is on another file system, where files are copied")
    assert {True} == {library.stat().st_nlink > 1 for library in arm.rglob("*.so")}


def test_a_layer_has_our_package_and_what_it_imports_but_no_leftovers(arm: Path) -> None:
    assert {"joblane", "pydantic", "aws_lambda_powertools", "botocore"} <= {
        entry.name for entry in (arm / "python").iterdir()
    }
    assert not (arm / "python" / "bin").exists()
    assert not (arm / "python" / "boto3").exists()  # nothing needs it
    assert list((ROOT / LAYER_SOURCES).rglob("__pycache__"))
    assert not [name for name in content(arm) if "__pycache__" in name or "RECORD" in name]
    # Python imports nothing else: a wheel may bring what it was built from.
    for entry in (arm / "python").iterdir():
        name = entry.name.removesuffix(".py")
        assert name.isidentifier() or name.endswith(".dist-info"), name


def test_a_layer_has_the_botocore_that_is_tested_and_the_models_of_our_services(
    arm: Path,
) -> None:
    """What the runtime has changes by itself; ours comes before it."""
    python = arm / "python"
    locked = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))["package"]
    (wanted,) = (package["version"] for package in locked if package["name"] == "botocore")
    assert wanted == version("botocore")  # of the tests
    assert (python / f"botocore-{wanted}.dist-info").is_dir()
    data = python / "botocore" / "data"
    assert {each.name for each in data.iterdir() if each.is_dir()} == {*SERVICES, *OF_CREDENTIALS}
    unpacked = sum(file.stat().st_size for file in data.rglob("*") if file.is_file())
    assert unpacked < 5 * 2**20


def test_a_function_makes_its_clients_from_the_layer_alone(here: Path, tmp_path: Path) -> None:
    """What the tests have installed is not in reach."""
    python = here / "python"
    code = (
        f"import sys; sys.path.append('{python}'); import botocore\n"
        "from joblane.aws.clients import Clients\n"
        "from joblane.deployment.services import SERVICES\n"
        "clients = Clients()\n"
        "for service in SERVICES: clients.make(service)\n"
        "print(botocore.__file__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"AWS_DEFAULT_REGION": "eu-west-1", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (0, "") == (done.returncode, done.stderr)
    assert str(python) in done.stdout


def test_a_function_evaluates_a_filter_with_the_layer_alone(here: Path) -> None:
    """Without the library's extensions, which would be two thirds of it."""
    python = here / "python"
    code = (
        f"import sys; sys.path.append('{python}')\n"
        "from joblane.queue.filters import CompiledFilter\n"
        "print(CompiledFilter('labels.a.matches(\"^b\")').matches({'labels': {'a': 'b'}}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False
    )
    assert (0, "", "True\n") == (done.returncode, done.stderr, done.stdout)
    library = python / "cel_expr_python"
    assert not (library / "ext").exists()
    assert sum(file.stat().st_size for file in library.rglob("*") if file.is_file()) < 20 * 2**20


def test_the_agents_bundle_runs_with_nothing_beside_it(checkout: Path) -> None:
    """Built for this machine instead of an instance, and started as the instance would."""
    shutil.rmtree(checkout / LAYER_SOURCES)
    for package in AGENT_PACKAGES:
        shutil.copytree(ROOT / package, checkout / package)
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    architecture = platform.machine().replace("aarch64", "arm64")
    assert architecture in ("x86_64", "arm64")
    built = bundle(
        checkout,
        label="agent",
        group=("--package", "joblane-agent", "--no-default-groups"),
        target=("arm64" if architecture == "arm64" else "x86_64", python),
        packages=AGENT_PACKAGES,
        folder="lib",
        bytecode=False,
    )
    imports = f"import sys; sys.path.append('{built}/lib')"
    for code, said in (
        (
            "from joblane.client.cli import main; sys.argv = ['joblane', '--version']; main()",
            "joblane ",
        ),
        ("import ec2_agent.command_line as agent; agent.main(['run', '--help'])", "--deployment"),
        ("from ec2_agent.sandbox.native import Native; print(Native().library)", "slot-"),
    ):
        # -S: without the site-packages of this machine, which hold everything anyway.
        done = subprocess.run(
            [
                sys.executable,
                "-I",
                "-S",
                "-c",
                f"{imports}; {code}",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (0, "") == (done.returncode, done.stderr)
        assert said in done.stdout


def test_a_second_build_starts_nothing(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assets, "_install", install_nothing)
    built = layer(checkout, bytecode=True)
    monkeypatch.undo()
    monkeypatch.setattr(subprocess, "run", refuse_to_run)
    assert layer(checkout, bytecode=True) == built

    (checkout / LAYER_SOURCES / "__init__.py").write_text("changed = 1\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="a program was started"):
        layer(checkout, bytecode=True)


def test_another_checkout_builds_the_same_bytes(checkout: Path, arm: Path) -> None:
    shutil.rmtree(checkout / LAYER_SOURCES)
    shutil.copytree(ROOT / LAYER_SOURCES, checkout / LAYER_SOURCES)
    other = layer(checkout)
    assert content(arm) == content(other)
    assert len(content(other)) > 100


PACKAGES = ("layers/core/python/joblane/job",)
"""Of our package, as much as has all kinds of constants."""


@pytest.mark.parametrize(
    "packages",
    [PACKAGES, pytest.param((LAYER_SOURCES,), marks=pytest.mark.deep)],
    ids=["some", "everything"],
)
def test_two_checkouts_compile_the_same_bytes(
    checkout: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    packages: tuple[str, ...],
) -> None:
    """The libraries as well only at full depth: compiling them takes seconds."""
    if packages == PACKAGES:
        monkeypatch.setattr(assets, "_install", install_nothing)
    for package in packages:
        shutil.rmtree(checkout / package, ignore_errors=True)
        shutil.copytree(ROOT / package, checkout / package)
    other = tmp_path_factory.mktemp("other") / "checkout"
    shutil.copytree(checkout, other)

    one, two = (
        layer(root, python=THIS_PYTHON, packages=packages, bytecode=True)
        for root in (checkout, other)
    )

    assert one.name == two.name
    assert content(one) == content(two)
    assert len([name for name in content(one) if name.endswith(".pyc")]) > 10


def test_the_layer_of_this_python_has_bytecode_that_is_never_out_of_date(here: Path) -> None:
    """Extracted, its sources are newer than when they were compiled."""
    compiled = {cache_from_source(str(source)): source for source in here.rglob("*.py")}
    assert {str(file) for file in here.rglob("*.pyc")} == compiled.keys()
    for cached, source in compiled.items():
        content = Path(cached).read_bytes()
        assert (MAGIC_NUMBER, UNCHECKED_HASH) == (content[:4], content[4:8])
        assert f"/opt/{source.relative_to(here)}".encode() in content  # for tracebacks


def test_the_layer_of_another_python_has_sources_only(arm: Path) -> None:
    config = load_config(ROOT / "joblane.toml")
    assert f"python{THIS_PYTHON}" != config.functions.runtime
    assert [] == list(arm.rglob("*.pyc"))


def test_a_module_that_cannot_be_compiled_is_named(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(assets, "_install", install_nothing)
    (checkout / LAYER_SOURCES / "broken.py").write_text("def", encoding="utf-8")
    with pytest.raises(AssetError, match=r"compileall: .*broken.py.*invalid syntax"):
        layer(checkout, python=THIS_PYTHON, bytecode=True)


def test_only_the_newest_bundles_are_kept(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assets, "_install", install_nothing)
    built = []
    for number in range(KEPT_BUNDLES + 2):
        (checkout / LAYER_SOURCES / "__init__.py").write_text(f"n = {number}\n", encoding="utf-8")
        built.append(layer(checkout))

    assert set(built[-KEPT_BUNDLES:]) == set((checkout / ".build").iterdir())


def test_without_uv_the_error_says_where_it_was_looked_for(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkout / ".venv" / "bin" / "uv").unlink()
    monkeypatch.setenv("PATH", str(checkout))
    with pytest.raises(AssetError, match=r"uv: not found on PATH, in .venv/bin .* scripts/setup"):
        layer(checkout)


def test_a_failed_build_says_so_in_one_line_and_leaves_nothing(checkout: Path) -> None:
    (checkout / "uv.lock").write_text("version = 1\n", encoding="utf-8")

    with pytest.raises(AssetError) as raised:
        layer(checkout)

    (line,) = raised.value.lines
    assert line.startswith("uv export: failed")
    assert "\n" not in line
    assert [] == list((checkout / ".build").iterdir())


def test_a_function_without_a_handler_cannot_be_shipped(checkout: Path) -> None:
    config = load_config(ROOT / "joblane.toml")
    with pytest.raises(AssetError, match=r"functions/submission/handler.py: missing"):
        build_assets(checkout, config, {})


def test_an_agent_without_its_compiled_part_cannot_be_shipped(checkout: Path) -> None:
    (checkout / "functions").symlink_to(ROOT / "functions")
    config = load_config(ROOT / "joblane.toml")
    with pytest.raises(AssetError, match=r"slot-aarch64\.so: not compiled; run scripts/setup"):
        build_assets(checkout, config, {})


def test_the_app_synthesizes_offline(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With the result of another process; end-to-end tests find it in `.build`.

    `here` may have fetched wheels before, into uv's cache.
    """
    assert here.is_dir()
    nowhere = "http://127.0.0.1:9"
    for name, value in ("UV_OFFLINE", "1"), ("HTTP_PROXY", nowhere), ("HTTPS_PROXY", nowhere):
        monkeypatch.setenv(name, value)
    assembly = synthesize(tmp_path)
    assert {True} == {copy.stat().st_nlink > 1 for copy in assembly.glob("asset.*.zip")}

    config = load_config(tmp_path / "joblane.toml")
    app = new_app(tmp_path / "here")
    environment = Environment(account=ACCOUNT, region=REGION)
    compose(app, config, build_assets(ROOT, config, {}), environment)
    app.synth()
    leave_the_agents_role(tmp_path / "here")
    templates, again = (
        {file.name: json.loads(file.read_bytes()) for file in folder.glob("*.template.json")}
        for folder in (assembly, tmp_path / "here")
    )
    assert 12 == len(templates)
    assert templates == again
