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

import pytest

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
from scripts.local.deploy import local_config
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


def layer(
    root: Path,
    architecture: assets.Architecture = "arm64",
    python: str = "3.13",
    *,
    bytecode: bool = False,
) -> Path:
    return bundle(
        root,
        label="layer",
        group=("--only-group", "layer"),
        target=(architecture, python),
        packages=(LAYER_SOURCES,),
        folder="python",
        bytecode=bytecode,
    )


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


def refuse_to_run(*_arguments: object, **_options: object) -> None:
    raise AssertionError("a program was started")


def test_wheels_are_for_the_machine_that_runs_them(checkout: Path) -> None:
    arm = {file.name: machine(file) for file in layer(checkout).rglob("*.so")}
    intel = {file.name: machine(file) for file in layer(checkout, "x86_64", "3.11").rglob("*.so")}

    assert "_pydantic_core.cpython-313-aarch64-linux-gnu.so" in arm
    assert "_pydantic_core.cpython-311-x86_64-linux-gnu.so" in intel
    assert {"_message.abi3.so", "jsonschema_rs.abi3.so"} == arm.keys() & intel.keys()
    assert ({EM_AARCH64}, {EM_X86_64}) == (set(arm.values()), set(intel.values()))


EM_X86_64, EM_AARCH64 = 62, 183
"""Architectures in ELF files (elf.h)."""


def machine(library: Path) -> int:
    with library.open("rb") as file:
        return int.from_bytes(file.read(20)[18:20], "little")


def test_a_layer_has_our_package_and_what_it_imports_but_no_leftovers(checkout: Path) -> None:
    built = layer(checkout)

    assert {"joblane", "pydantic", "aws_lambda_powertools", "botocore"} <= {
        entry.name for entry in (built / "python").iterdir()
    }
    assert not (built / "python" / "bin").exists()
    assert not (built / "python" / "boto3").exists()  # nothing needs it
    assert not [name for name in content(built) if "__pycache__" in name or "RECORD" in name]


def test_a_layer_has_the_botocore_that_is_tested_and_the_models_of_our_services(
    checkout: Path,
) -> None:
    """What the runtime has changes by itself; ours comes before it."""
    python = layer(checkout) / "python"
    locked = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))["package"]
    (wanted,) = (package["version"] for package in locked if package["name"] == "botocore")
    assert wanted == version("botocore")  # of the tests
    assert (python / f"botocore-{wanted}.dist-info").is_dir()
    data = python / "botocore" / "data"
    assert {each.name for each in data.iterdir() if each.is_dir()} == {*SERVICES, *OF_CREDENTIALS}
    unpacked = sum(file.stat().st_size for file in data.rglob("*") if file.is_file())
    assert unpacked < 5 * 2**20


def test_a_function_makes_its_clients_from_the_layer_alone(checkout: Path) -> None:
    """Built for this machine; what the tests have installed is not in reach."""
    shutil.rmtree(checkout / LAYER_SOURCES)
    shutil.copytree(ROOT / LAYER_SOURCES, checkout / LAYER_SOURCES)
    version_info = f"{sys.version_info.major}.{sys.version_info.minor}"
    intel = platform.machine() == "x86_64"
    python = layer(checkout, "x86_64" if intel else "arm64", version_info) / "python"
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
        env={"AWS_DEFAULT_REGION": "eu-west-1", "HOME": str(checkout)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (0, "") == (done.returncode, done.stderr)
    assert str(python) in done.stdout


def test_a_function_evaluates_a_filter_with_the_layer_alone(checkout: Path) -> None:
    """Without the library's extensions, which would be two thirds of it."""
    shutil.rmtree(checkout / LAYER_SOURCES)
    shutil.copytree(ROOT / LAYER_SOURCES, checkout / LAYER_SOURCES)
    version_info = f"{sys.version_info.major}.{sys.version_info.minor}"
    intel = platform.machine() == "x86_64"
    python = layer(checkout, "x86_64" if intel else "arm64", version_info) / "python"
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
    built = layer(checkout)
    monkeypatch.setattr(subprocess, "run", refuse_to_run)
    assert layer(checkout) == built

    (checkout / LAYER_SOURCES / "__init__.py").write_text("changed = 1\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="a program was started"):
        layer(checkout)


@pytest.mark.parametrize(("python", "bytecode"), [("3.13", False), (THIS_PYTHON, True)])
def test_two_checkouts_build_the_same_bytes(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory, python: str, *, bytecode: bool
) -> None:
    other = tmp_path_factory.mktemp("other") / "checkout"
    shutil.copytree(checkout, other)

    one, two = (layer(root, "arm64", python, bytecode=bytecode) for root in (checkout, other))

    assert one.name == two.name
    assert content(one) == content(two)
    assert len(content(one)) > 100


def test_the_layer_of_this_python_has_bytecode_that_is_never_out_of_date(tmp_path: Path) -> None:
    """Extracted, its sources are newer than when they were compiled."""
    file = tmp_path / "joblane.toml"
    file.write_text(local_config(platform.machine()), encoding="utf-8")
    built = build_assets(ROOT, load_config(file)).layer
    compiled = {cache_from_source(str(source)): source for source in built.rglob("*.py")}
    assert {str(file) for file in built.rglob("*.pyc")} == compiled.keys()
    for cached, source in compiled.items():
        content = Path(cached).read_bytes()
        assert (MAGIC_NUMBER, UNCHECKED_HASH) == (content[:4], content[4:8])
        assert f"/opt/{source.relative_to(built)}".encode() in content  # for tracebacks


def test_the_layer_of_another_python_has_sources_only() -> None:
    config = load_config(ROOT / "joblane.toml")
    assert f"python{THIS_PYTHON}" != config.functions.runtime
    assert [] == list(build_assets(ROOT, config).layer.rglob("*.pyc"))


def test_a_module_that_cannot_be_compiled_is_named(checkout: Path) -> None:
    (checkout / LAYER_SOURCES / "broken.py").write_text("def", encoding="utf-8")
    with pytest.raises(AssetError, match=r"compileall: .*broken.py.*invalid syntax"):
        layer(checkout, python=THIS_PYTHON, bytecode=True)


def test_colours_do_not_get_into_the_requirements(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as the CDK CLI does
    assert (layer(checkout) / "python" / "pydantic").is_dir()


def test_only_the_newest_bundles_are_kept(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assets, "_install", lambda *arguments: arguments[3].mkdir(parents=True))
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
        build_assets(checkout, config)


def test_an_agent_without_its_compiled_part_cannot_be_shipped(checkout: Path) -> None:
    (checkout / "functions").symlink_to(ROOT / "functions")
    config = load_config(ROOT / "joblane.toml")
    with pytest.raises(AssetError, match=r"slot-x86_64\.so: not compiled; run scripts/setup"):
        build_assets(checkout, config)


def test_the_app_synthesizes_offline_and_without_an_account(tmp_path: Path) -> None:
    """Twice with the same result; the first time, in this process, may fetch wheels."""
    config = load_config(ROOT / "joblane.toml")
    app = new_app(tmp_path / "online")
    compose(app, config, build_assets(ROOT, config))
    app.synth()

    settings = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))
    nowhere = "http://127.0.0.1:9"
    env = {
        "PATH": f"{Path(sys.executable).parent}:{ROOT}/.local/tools/bin:/usr/bin:/bin",
        "CDK_OUTDIR": str(tmp_path / "offline"),
        "CDK_CONTEXT_JSON": json.dumps(settings["context"]),  # as the CDK's CLI does
        "UV_OFFLINE": "1",
        "HTTP_PROXY": nowhere,
        "HTTPS_PROXY": nowhere,
    }
    done = subprocess.run(
        [sys.executable, "app.py"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (0, "") == (done.returncode, done.stderr)
    templates = {
        attempt: {
            file.name: file.read_bytes() for file in (tmp_path / attempt).glob("*.template.json")
        }
        for attempt in ("online", "offline")
    }
    assert 13 == len(templates["online"])
    assert templates["online"] == templates["offline"]
