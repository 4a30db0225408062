"""Dependencies for an architecture, installed into a folder by uv.

Wheels only: nothing is built for another machine here, and no code of a dependency runs.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from joblane.client.bundles.errors import BundleError
from joblane.client.bundles.project import Project

PLATFORMS: Final[Mapping[str, str]] = {
    "arm64": "aarch64-manylinux_2_28",
    "x86_64": "x86_64-manylinux_2_28",
}
"""uv's names of the architectures; glibc 2.28 is older than that of every supported host."""

# What uv says about a package without a wheel that fits.
_NO_WHEEL = (
    re.compile(r"Wheels are required for `([^`]+)`"),
    re.compile(r"(\S+) has no (?:usable )?wheels"),
)


def find_uv() -> str:
    """Return the path of uv. Raises `BundleError` without one."""
    beside = Path(sys.executable).parent
    found = shutil.which("uv") or shutil.which("uv", path=str(beside))
    if found is None:
        raise BundleError(
            "uv is not installed; it builds bundles: https://docs.astral.sh/uv/ or pip install uv"
        )
    return found


def read_locked(uv: str, project: Project) -> str:
    """Return the versions in a project's uv.lock, as constraints. Raises `BundleError`."""
    if not project.locked:
        return ""
    options = ["--frozen", "--no-hashes", "--no-header", "--no-annotate", "--no-emit-project"]
    listed = _run([uv, "export", "--quiet", *options], project.root, "cannot read uv.lock")
    # Paths and URLs cannot be constraints; they are requirements of the project, or of none.
    lines = [line for line in listed.splitlines() if re.match(r"[A-Za-z0-9][^@]*==", line)]
    return "".join(f"{line}\n" for line in lines)


def install(uv: str, project: Project, constraints: str, architecture: str, into: Path) -> None:
    """Install a project's dependencies for an architecture and this version of Python.

    Raises `BundleError`, which names the dependency that has no wheel for it.
    """
    aside = into.with_name(f"{into.name}.requirements")
    aside.mkdir()
    (aside / "requirements.txt").write_text("\n".join([*project.requirements, ""]), "utf-8")
    (aside / "constraints.txt").write_text(constraints, "utf-8")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    command = [uv, "pip", "install", "--quiet", "--python", sys.executable]
    command += ["--only-binary", ":all:", "--link-mode", "copy"]
    command += ["--python-platform", PLATFORMS[architecture], "--python-version", version]
    command += ["--target", str(into), "--constraint", str(aside / "constraints.txt")]
    command += ["--requirement", str(aside / "requirements.txt")]
    into.mkdir(exist_ok=True)
    what = f"cannot install the dependencies for {architecture} and Python {version}"
    _run(command, project.root, what, missing=f"{architecture} and Python {version}")
    # Console scripts and these files name this machine or the time of the installation.
    shutil.rmtree(into / "bin", ignore_errors=True)
    (into / ".lock").unlink(missing_ok=True)
    for name in ("RECORD", "REQUESTED", "INSTALLER", "direct_url.json", "uv_*.json"):
        for file in into.glob(f"*.dist-info/{name}"):
            file.unlink()


def _run(command: Sequence[str], folder: Path, what: str, missing: str | None = None) -> str:
    try:
        done = subprocess.run(
            [*command, "--color", "never"], cwd=folder, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise BundleError(f"cannot start uv: {error}") from error
    if done.returncode == 0:
        return done.stdout
    said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
    if missing is not None:
        for pattern in _NO_WHEEL:
            if found := pattern.search(said):
                raise BundleError(f"{found[1]} has no wheel for {missing} ({said})")
    raise BundleError(f"{what}: {said}")
