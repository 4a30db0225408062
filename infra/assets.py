"""Builds the code that the stacks deploy: the Lambda layer and the agent's bundle.

Both are folders below `.build/` named by a hash of their inputs, so a second synth reuses them.
Dependencies come from uv.lock with their hashes, as wheels for the target platform, without docker.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from infra.errors import AssetError
from joblane.config import Config
from joblane.deployment.services import OF_CREDENTIALS, SERVICES

Architecture = Literal["arm64", "x86_64"]

FUNCTIONS = (
    "submission",
    "admin",
    "status",
    "requeue",
    "dead_letter",
    "recovery",
    "tester",
    "instance_end",
    "instance_watch",
    "scaler",
    "projector",
    "sequel",
    "notifier",
    "tracer",
    "exporter",
    "due",
)
"""Folders of `functions/` that become Lambda functions with the layer; `console` has none."""

AGENT_PYTHON = "3.12"
"""Python version of the agent: one that Amazon Linux 2023 packages beside its own 3.9."""

AGENT_PACKAGES = ("layers/core/python/joblane", "ec2_agent")

AGENT_LIBRARIES: Mapping[Architecture, str] = {
    "arm64": "ec2_agent/sandbox/slot-aarch64.so",
    "x86_64": "ec2_agent/sandbox/slot-x86_64.so",
}
"""What `scripts/native` compiles, by the architecture of fleets that need it; a bundle has what is
there, 10 KB each."""

THIS_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

KEPT_BUNDLES = 4

_LAYER_GROUP = ("--only-group", "layer")
_AGENT_GROUP = ("--package", "joblane-agent", "--no-default-groups")
_PLATFORMS: Mapping[Architecture, str] = {
    "arm64": "aarch64-manylinux_2_28",
    "x86_64": "x86_64-manylinux_2_28",
}
"""Amazon Linux 2023 has glibc 2.34; jsonschema-rs for arm64, and cel-expr-python, need 2.28.
Functions with Python 3.11 run on Amazon Linux 2, which has 2.26: they load neither, so
the preflight of scripts/cdk refuses filters there. All other wheels are older ones."""


@dataclass(frozen=True)
class Assets:
    """Folders that the stacks upload; tests use empty ones."""

    functions: Path
    """Holds a folder for each of FUNCTIONS, and `console`."""
    console: Path
    """The files of the console."""
    layer: Path
    """Holds `python/`, as a Lambda layer must."""
    agents: Mapping[Architecture, Path]
    """The agent's code and dependencies for each architecture of a fleet."""
    setups: Mapping[str, Path] = field(default_factory=dict)
    """The setup files of fleets that have one, by the fleet's name."""


def build_assets(root: Path, config: Config, setups: Mapping[str, Path]) -> Assets:
    """Build the missing assets of this configuration from the checkout at `root`.

    `setups` are the setup files of fleets. Raises AssetError when a folder or uv is missing, or
    when uv cannot fetch the wheels.
    """
    functions = root / "functions"
    for name in (*FUNCTIONS, "console"):
        if not (functions / name / "handler.py").is_file():
            raise AssetError(
                [f"functions/{name}/handler.py: missing; the function {name} cannot be deployed"]
            )
    architectures = sorted({fleet.architecture for fleet in config.fleets.values()})
    for library in (AGENT_LIBRARIES[architecture] for architecture in architectures):
        if not (root / library).is_file():
            raise AssetError([f"{library}: not compiled; run scripts/setup"])
    python = config.functions.runtime.removeprefix("python")
    layer = bundle(
        root,
        label="layer",
        group=_LAYER_GROUP,
        target=(config.functions.architecture, python),
        packages=("layers/core/python/joblane",),
        folder="python",
        bytecode=python == THIS_PYTHON,
    )
    agents = {
        architecture: bundle(
            root,
            label=f"agent-{architecture}",
            group=_AGENT_GROUP,
            target=(architecture, AGENT_PYTHON),
            packages=AGENT_PACKAGES,
            folder="lib",
            bytecode=False,  # install.sh writes it with the instance's Python
        )
        for architecture in architectures
    }
    console = root / "console"
    return Assets(functions, console, layer, agents, setups)


def bundle(
    root: Path,
    *,
    label: str,
    group: tuple[str, ...],
    target: tuple[Architecture, str],
    packages: tuple[str, ...],
    folder: str,
    bytecode: bool,
) -> Path:
    """Return `.build/<label>-<hash>` with our packages and their locked dependencies in `folder`.

    `target` is the architecture and the Python version that will import them; `group` says to
    `uv export` which dependencies. With `bytecode`, for a target that has the Python version of
    this process, the bundle has that as well.
    """
    sources = [root / package for package in packages]
    for source in sources:
        if not source.is_dir():
            raise AssetError([f"{source.relative_to(root)}: no such package"])
    # The bytes differ between patch releases.
    recipe = (*group, *target, folder, platform.python_version() if bytecode else "")
    inputs = [root / "uv.lock", root / "pyproject.toml", Path(__file__), *sources]
    built = root / ".build" / f"{label}-{digest(root, recipe, inputs)}"
    if built.is_dir():
        return built
    built.parent.mkdir(exist_ok=True)
    # Built elsewhere and renamed: a synth that fails, or two at once, leave no partial bundle.
    with tempfile.TemporaryDirectory(dir=built.parent, prefix=".making-") as aside:
        content = Path(aside) / "bundle"
        _install(root, group, target, content / folder, Path(aside) / "requirements.txt")
        for source in sources:
            shutil.copytree(
                source,
                content / folder / source.name,
                ignore=shutil.ignore_patterns("__pycache__", "testing"),  # of users' tests
            )
        if bytecode:
            _compile(content)
        content.chmod(0o755)
        try:
            content.rename(built)
        except OSError:
            if not built.is_dir():  # otherwise another synth was faster, with the same content
                raise
    _forget_old(built.parent.glob(f"{label}-*"))
    return built


def _forget_old(bundles: Iterable[Path]) -> None:
    """Delete all but the newest bundles of a kind: every change of the source makes one."""
    folders = (path for path in bundles if path.is_dir())
    newest_first = sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True)
    for old in newest_first[KEPT_BUNDLES:]:
        _archive_of(old).unlink(missing_ok=True)
        shutil.rmtree(old, ignore_errors=True)


@dataclass(frozen=True)
class Archive:
    """A zip file and its SHA-256 in hexadecimal."""

    path: Path
    sha256: str


def archive(folder: Path) -> Archive:
    """Zip a bundle into a file beside it, unless that is there.

    The CDK CLI would zip a folder when it uploads it; an instance can check only what has a
    SHA-256 when the stack is synthesized. The same content and zlib give the same bytes.
    """
    made = _archive_of(folder)
    if not made.is_file():
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".making-") as aside:
            file = Path(aside) / made.name
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bundle_zip:
                for path in sorted(folder.rglob("*")):
                    if path.is_file():
                        entry = zipfile.ZipInfo(str(path.relative_to(folder)))  # of 1980
                        bundle_zip.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
            file.rename(made)
    return Archive(made, hashlib.sha256(made.read_bytes()).hexdigest())


def _archive_of(folder: Path) -> Path:
    return folder.with_name(folder.name + ".zip")


def find_uv(root: Path) -> Path:
    """Return uv from PATH or from where scripts/setup installs it. Raises AssetError."""
    places = [*os.get_exec_path(), str(root / ".venv/bin"), str(root / ".local/tools/bin")]
    if (found := shutil.which("uv", path=os.pathsep.join(places))) is not None:
        return Path(found)
    raise AssetError(
        ["uv: not found on PATH, in .venv/bin or in .local/tools/bin; run scripts/setup"]
    )


def _install(
    root: Path,
    group: tuple[str, ...],
    target: tuple[Architecture, str],
    into: Path,
    requirements: Path,
) -> None:
    """Fill `into` with the locked wheels of a dependency group."""
    architecture, python = target
    uv = str(find_uv(root))
    export = [uv, "export", *group, "--frozen", "--no-emit-workspace", "--no-header", "--quiet"]
    requirements.write_text(_run(root, export), encoding="utf-8")
    install = [uv, "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    install += ["--only-binary", ":all:"]  # linked to uv's cache: what follows only deletes
    install += ["--python-platform", _PLATFORMS[architecture], "--python-version", python]
    install += ["--target", str(into), "--requirement", str(requirements)]
    _run(root, install)
    _trim(into / "botocore" / "data")
    # Extensions of CEL, which no filter uses: 37 MB of 51.
    shutil.rmtree(into / "cel_expr_python" / "ext", ignore_errors=True)
    # What its wheels for arm64 were built with, which no module imports: 823 files, 3.5 MB.
    shutil.rmtree(into / "bazel-project", ignore_errors=True)
    # Console scripts name this machine's Python, and RECORD has their hashes: without both,
    # every machine builds the same bytes and an unchanged layer is not published again.
    shutil.rmtree(into / "bin", ignore_errors=True)
    for leftover in [into / ".lock", *into.glob("*.dist-info/RECORD")]:
        leftover.unlink(missing_ok=True)


def _compile(layer: Path) -> None:
    """Add the bytecode of every module: a cold start cannot keep it, since /opt is read-only.

    It is not compared with its source: what extracts the layer sets new times. In a process of its
    own, since the bytes depend on what is loaded.
    """
    command = [sys.executable, "-I", "-W", "ignore", "-m", "compileall", "-q"]
    command += ["--invalidation-mode", "unchecked-hash", "-s", str(layer), "-p", "/opt", str(layer)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssetError([f"compileall: {' '.join(done.stdout.split())}"])


def _trim(models: Path) -> None:
    """Delete botocore's models of services that nothing here calls: 93 % of its 30 MB."""
    for folder in models.glob("*/"):
        if folder.name not in (*SERVICES, *OF_CREDENTIALS):
            shutil.rmtree(folder)


def _run(root: Path, command: list[str]) -> str:
    """Return the command's output; its last line becomes the error's when it fails."""
    # The CDK CLI sets FORCE_COLOR, and uv would then colour the list of requirements too.
    plain = [*command, "--color", "never"]
    done = subprocess.run(plain, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        words = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise AssetError([f"uv {command[1]}: failed while fetching the locked wheels: {words}"])
    return done.stdout


def digest(root: Path, recipe: Sequence[str], places: Iterable[Path]) -> str:
    """Hash what is built from: the files at and below these places, and how."""
    found = hashlib.sha256(repr(recipe).encode())
    for place in places:
        for file in (place, *sorted(place.rglob("*"))):
            if file.is_file() and "__pycache__" not in file.parts:
                name = file.relative_to(root) if file.is_relative_to(root) else file.name
                found.update(f"\0{name}\0".encode())
                found.update(hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()[:16]
