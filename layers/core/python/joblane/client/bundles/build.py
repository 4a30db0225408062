"""Building the bundles of a package."""

import shutil
from collections.abc import Iterable
from pathlib import Path

import joblane
from joblane.client.bundles import wheels
from joblane.client.bundles.archive import Bundle, compile_modules, write_archive
from joblane.client.bundles.errors import BundleError
from joblane.client.bundles.project import find_project
from joblane.typed.definition import MAX_BUNDLE_BYTES

MAIN = "from joblane.handler.runner import main\n\nmain()\n"
"""The program of a bundle: python <bundle> package.module:function."""

_NOT_CODE = shutil.ignore_patterns("__pycache__", "*.pyc", ".git", ".venv")

# What a job may use of this package: the runner, and the SDK if the project brings httpx.
_NOT_IN_JOBS = (
    "__pycache__",
    "aws",
    "cli",
    "compose",
    "config",
    "http",
    "openapi.json",
    "service",
    "testing",
)


def build_bundles(package: str, architectures: Iterable[str], into: Path) -> tuple[Bundle, ...]:
    """Build the bundle of an imported package for each architecture, in the folder `into`.

    It has the top-level package, its dependencies, `joblane` and `__main__.py`. Raises
    `BundleError`.
    """
    project = find_project(package)
    uv = wheels.find_uv()
    constraints = wheels.read_locked(uv, project)
    built = []
    for architecture in architectures:
        if architecture not in wheels.PLATFORMS:
            known = ", ".join(sorted(wheels.PLATFORMS))
            raise BundleError(f"unknown architecture {architecture}; allowed: {known}")
        folder = into / architecture
        wheels.install(uv, project, constraints, architecture, folder)
        _add_code(project.source, folder)
        compile_modules(folder)
        bundle = write_archive(folder, architecture)
        if bundle.size > MAX_BUNDLE_BYTES:
            raise BundleError(
                f"the bundle for {architecture} has {bundle.size} bytes; at most "
                f"{MAX_BUNDLE_BYTES} are allowed"
            )
        built.append(bundle)
    return tuple(built)


def _add_code(source: Path, folder: Path) -> None:
    """Copy the package, joblane and the program."""
    target = folder / source.name
    if target.exists():
        raise BundleError(f"a dependency also has a package {source.name}; rename yours")
    if source.is_dir():
        shutil.copytree(source, target, ignore=_NOT_CODE)
    else:
        shutil.copyfile(source, target)
    # A dependency may depend on joblane; the runner is that of who pushes.
    shutil.rmtree(folder / "joblane", ignore_errors=True)
    ignore = shutil.ignore_patterns(*_NOT_IN_JOBS)
    shutil.copytree(Path(joblane.__file__).parent, folder / "joblane", ignore=ignore)
    (folder / "__main__.py").write_text(MAIN, "utf-8")
