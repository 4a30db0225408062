"""The console's libraries are what their npm packages hold, in the versions of the lock file."""

import json
import re

import pytest

from scripts.console.vendor import FOLDER, LIBRARIES, PACKAGES, ROOT, files, relative_imports

MADE = files()


@pytest.mark.parametrize("name", MADE)
def test_a_library_is_what_its_package_has(name: str):
    assert MADE[name] == (FOLDER / name).read_text("utf-8"), "run scripts/vendor"


def test_nothing_else_is_there_but_types():
    others = {path.name for path in FOLDER.iterdir()} - set(MADE)
    assert {path for path in others if not path.endswith(".d.ts")} == set()


@pytest.mark.parametrize("package", sorted({library.package for library in LIBRARIES}))
def test_the_installed_package_is_the_one_that_is_named(package: str):
    named = json.loads((ROOT / "package.json").read_text("utf-8"))["devDependencies"][package]
    locked = json.loads((ROOT / "package-lock.json").read_text("utf-8"))["packages"]
    installed = json.loads((PACKAGES / package / "package.json").read_text("utf-8"))
    assert (named, named) == (installed["version"], locked[f"node_modules/{package}"]["version"])


def test_modules_import_files_only():
    for library in LIBRARIES:
        found = re.findall(r'\bfrom\s*"([^"]*)"', MADE[library.name])
        assert all(specifier.startswith("./") for specifier in found), library.name
        assert all(specifier.removeprefix("./") in MADE for specifier in found), library.name


def test_no_library_evaluates_text_or_asks_for_a_source_map():
    for library in LIBRARIES:
        found = re.findall(r"\beval\(|\bnew Function|sourceMappingURL", MADE[library.name])
        assert [] == found, library.name


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('import{a as b}from"preact";x', 'import{a as b}from"./preact.js";x'),
        ('import"preact"', 'import"./preact.js"'),
        ('export * from "preact"', 'export * from "./preact.js"'),
        ('import{a}from"./hooks.js"', 'import{a}from"./hooks.js"'),
        ('x="from preact"', 'x="from preact"'),
    ],
)
def test_bare_imports_become_relative(before: str, after: str):
    assert after == relative_imports(before)


def test_an_import_of_what_is_not_here_is_refused():
    with pytest.raises(ValueError, match="'preact/compat'"):
        relative_imports('import{a}from"preact/compat";')
