"""Bundles for tests, of what this environment has installed: no network, no other architecture."""

import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from joblane.client.bundles import build
from joblane.client.bundles.archive import compile_modules, write_archive
from joblane.client.bundles.build import MAIN
from joblane.handler import runner
from tests.support.temporary import temporary_folder

DEPENDENCIES = (
    "annotated_types",
    "pydantic",
    "pydantic_core",
    "typing_extensions",
    "typing_inspection",
)
"""What pydantic consists of; one of them is native code."""

_JOBLANE = Path(runner.__file__).parents[1]
_OF_JOBLANE = {"__init__.py", "errors.py", "handler"}
"""What the runner needs; a bundle that is pushed has more (unit/client/files/test_push.py)."""


def _leave_out(folder: str, names: Sequence[str]) -> set[str]:
    """Those that no job here loads: of joblane all but the runner, and pydantic's first version."""
    if folder == str(_JOBLANE):
        return {*names} - _OF_JOBLANE
    return {"__pycache__", "v1"} & {*names}


@cache
def _base() -> Path:
    """A folder with the runner and what it needs."""
    folder = temporary_folder("bundle") / "base"
    add_dependencies(folder)
    shutil.copytree(_JOBLANE, folder / "joblane", ignore=_leave_out)
    (folder / "__main__.py").write_text(MAIN)
    compile_modules(folder)
    return folder


NOT_IN_JOBS = build._NOT_IN_JOBS
"""What `joblane types push` leaves out of bundles."""

SELDOM = {each.name for each in _JOBLANE.iterdir()} - _OF_JOBLANE
"""What it puts in besides the runner: 200 modules to copy, to compile and to compress."""


def add_dependencies(folder: Path) -> None:
    """Copy what pydantic consists of into a folder."""
    folder.mkdir(exist_ok=True)
    for name in DEPENDENCIES:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            raise LookupError(name)
        source = Path(spec.origin)
        if spec.submodule_search_locations:
            shutil.copytree(source.parent, folder / name, ignore=_leave_out)
        else:
            shutil.copyfile(source, folder / source.name)


def make_bundle(
    into: Path, code: Mapping[str, str], *, compiled: bool = False
) -> tuple[str, bytes]:
    """Zip modules with the runner and pydantic; returns the digest and the zip file.

    `compiled`: the modules too, not only what they need.
    """
    folder = into / "bundle"
    shutil.copytree(_base(), folder)
    for name, text in code.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    if compiled:
        compile_modules(folder)
    data = write_archive(folder, "x86_64").path.read_bytes()
    return sha256(data).hexdigest(), data


def plain_bundle(into: Path, main: str) -> tuple[str, bytes]:
    """Zip a program that needs nothing but the standard library; returns as `make_bundle`."""
    folder = into / "plain"
    folder.mkdir()
    (folder / "__main__.py").write_text(main)
    data = write_archive(folder, "x86_64").path.read_bytes()
    return sha256(data).hexdigest(), data
