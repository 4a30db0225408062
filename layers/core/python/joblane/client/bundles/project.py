"""A package's sources, and what it depends on."""

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from importlib.util import find_spec
from pathlib import Path

from joblane.client.bundles.errors import BundleError

REQUIRED = ("pydantic>=2.12,<3",)
"""What `joblane.handler` needs; a test compares it with pyproject.toml."""

_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")


@dataclass(frozen=True, slots=True)
class Project:
    """A top-level package or module, and what it depends on."""

    source: Path
    """Its folder, or its file if it is a module."""
    root: Path
    """Folder where uv runs: it has the project's settings, such as its indexes."""
    requirements: tuple[str, ...]
    """Requirements as in pyproject.toml, without joblane itself."""
    locked: bool
    """Whether `root` has a uv.lock, whose versions are used."""


def find_project(package: str) -> Project:
    """Find the sources and dependencies of an imported package's top-level package.

    Dependencies are those of its project: the first pyproject.toml at or above the folder that has
    the package, else a requirements.txt there; of an installed package, those that it was installed
    with. Raises `BundleError`.
    """
    top = package.partition(".")[0]
    source = _source(top)
    if "site-packages" in source.parts:
        return Project(source, Path.cwd(), tuple(_ours(_list_installed(top))), locked=False)
    for folder in source.parents:
        if (folder / "pyproject.toml").is_file():
            locked = (folder / "uv.lock").is_file()
            found = tuple(_ours(_read_declared(folder / "pyproject.toml")))
            return Project(source, folder, found, locked)
    folder = source.parent
    listed = folder / "requirements.txt"
    lines = _lines(listed) if listed.is_file() else []
    return Project(source, folder, tuple(_ours(lines)), locked=False)


def _source(top: str) -> Path:
    spec = find_spec(top)
    if spec is None:
        raise BundleError(f"there is no package {top} here, nor is one installed")
    if spec.submodule_search_locations:
        folders = list(spec.submodule_search_locations)
        if len(folders) > 1:
            raise BundleError(f"{top} is a namespace of several folders: {', '.join(folders)}")
        return Path(folders[0]).resolve()
    if spec.origin is None or not spec.origin.endswith(".py"):
        raise BundleError(f"{top} is not a package with sources")
    return Path(spec.origin).resolve()


def _read_declared(pyproject: Path) -> list[str]:
    try:
        project = tomllib.loads(pyproject.read_text(encoding="utf-8")).get("project", {})
    except (OSError, ValueError) as error:
        raise BundleError(f"{pyproject} cannot be read: {error}") from error
    if "dependencies" in project.get("dynamic", []):
        raise BundleError(
            f"{pyproject}: dependencies are dynamic; list them as dependencies of [project]"
        )
    return [str(line) for line in project.get("dependencies", [])]


def _list_installed(top: str) -> Iterator[str]:
    """The requirements of the distribution that brought an installed package."""
    try:
        for name in packages_distributions().get(top, []):
            for line in distribution(name).requires or []:
                if "extra ==" not in line:
                    yield line
    except PackageNotFoundError as error:
        raise BundleError(f"{top} is installed without its metadata") from error


def _lines(listed: Path) -> list[str]:
    lines = (line.partition(" #")[0].strip() for line in listed.read_text("utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _ours(lines: Iterable[str]) -> Iterator[str]:
    """What the handler needs, and the requirements without joblane: its runner is copied."""
    yield from REQUIRED
    for line in lines:
        found = _NAME.match(line)
        if found is None or re.sub(r"[-_.]+", "-", found[1]).lower() != "joblane":
            yield line
