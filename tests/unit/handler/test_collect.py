"""Collecting the job types of a package: all modules, one name each, errors that name the cause."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from joblane.handler.collect import CollectError, collect, load

TYPE = """
from pydantic import BaseModel
from joblane import Job, job_type

class Params(BaseModel):
    n: int = 0

@job_type("{name}")
def {function}(params: Params, job: Job) -> None: ...
"""


@pytest.fixture(name="folder")
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package `pkg` of this test alone."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    yield package
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in {"pkg", "other"}:
            del sys.modules[name]


def test_types_of_all_modules_by_name(folder: Path):
    """One that is exported again counts once, and under the module that defines it."""
    (folder / "__init__.py").write_text("from pkg.b import one")
    (folder / "b.py").write_text(TYPE.format(name="z", function="one"))
    (folder / "__main__.py").write_text("raise SystemExit(3)")
    (folder / "sub").mkdir()
    (folder / "sub/c.py").write_text(TYPE.format(name="a", function="two"))
    (folder / "sub/__init__.py").write_text("")
    (folder.parent / "other.py").write_text(TYPE.format(name="foreign", function="three"))
    (folder / "d.py").write_text("from other import three")
    assert [("pkg.sub.c:two", "a"), ("pkg.b:one", "z")] == [
        (found.entry, found.job_type.name) for found in collect("pkg")
    ]
    assert load("pkg.b:one").name == "z"
    assert ["other:three"] == [found.entry for found in collect("other")]


def test_two_of_one_name(folder: Path):
    (folder / "a.py").write_text(TYPE.format(name="same", function="one"))
    (folder / "b.py").write_text(TYPE.format(name="same", function="two"))
    message = r"two job types are called same: pkg\.a:one and pkg\.b:two"
    with pytest.raises(CollectError, match=message):
        collect("pkg")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "pkg has no job types; a handler is decorated with @job_type"),
        ("import not_there", "cannot import pkg.a: No module named 'not_there'"),
        ("import pkg.c", "cannot import pkg.a: No module named 'pkg.c'"),
        ("1 / 0", "cannot import pkg.a: ZeroDivisionError: division by zero"),
        ("raise SystemExit('no')", "cannot import pkg.a: SystemExit: no"),
        ("def (", "cannot import pkg.a: SyntaxError: "),
    ],
)
def test_packages_that_cannot_be_pushed(folder: Path, text: str, message: str):
    (folder / "a.py").write_text(text)
    with pytest.raises(CollectError) as caught:
        collect("pkg")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("name", ["not_there", "pkg.not_there"])
def test_a_package_that_is_not_there(folder: Path, name: str):
    assert folder.exists()
    with pytest.raises(
        CollectError, match=f"there is no package {name} here, nor is one installed"
    ):
        collect(name)
