"""The documents name only files, links and commands that exist."""

import ast
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from joblane.client.cli.app import app

ROOT = Path(__file__).parents[3]


def git(*arguments: str) -> str:
    """What a command of git prints."""
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


TRACKED = frozenset(git("ls-files", "--cached", "--others", "--exclude-standard").splitlines())

PAGES = sorted(name for name in TRACKED if name.endswith(".md") and (ROOT / name).exists())

TOP = {name.partition("/")[0] for name in TRACKED if "/" in name}

PACKAGES = ROOT / "layers" / "core" / "python"


def exists(name: str) -> bool:
    """Whether the repository has a path, which may be a folder or a pattern."""
    name = name.removesuffix("/")
    return any(next(base.glob(name), None) for base in (ROOT, PACKAGES))


def prose(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(
        r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links(page: str) -> Iterator[str]:
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", prose(page), flags=re.MULTILINE | re.DOTALL)
    yield from re.findall(r"\]\(([^)\s]+)\)", text)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str):
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        path = (ROOT / page).parent / target if target else ROOT / page
        assert path.exists(), f"{page}: {link}"
        if anchor:
            assert anchor in anchors(path), f"{page}: {link}"


@pytest.mark.parametrize("page", PAGES)
def test_paths_exist(page: str):
    named = re.findall(r"`([\w.-]+(?:/[\w.*-]+)+/?)`", prose(page))
    named += re.findall(r"(?<![\w/.-])((?:docs|tests|scripts)/[\w/.-]*\w)", prose(page))
    ours = {path for path in named if path.partition("/")[0] in TOP | {"joblane"}}
    assert [] == sorted(path for path in ours if not exists(path))


_PATH = r"`((?:joblane|ec2_agent|infra|scripts)/[\w/]+\.py)`"
_NAME = r"`([A-Za-z_][\w.]*)`"


def names_with_files(text: str) -> Iterator[tuple[str, str]]:
    """Each name and the file that a text names beside it.

    In the forms "`file` (`name`, `name`)", "`name` in `file`", and cells of a table that stand
    beside each other.
    """
    for path, inside in re.findall(rf"{_PATH} \(([^()]*)\)", text):
        yield from ((name, path) for name in re.findall(_NAME, inside))
    yield from re.findall(rf"{_NAME} in {_PATH}", text)
    yield from re.findall(rf"^\| {_NAME} \| {_PATH} \|", text, flags=re.MULTILINE)


def defined(path: str) -> set[str]:
    """The names that a module defines: `function`, `Class`, `Class.member`, `VALUE`."""
    (file,) = (base / path for base in (ROOT, PACKAGES) if (base / path).exists())
    tree = ast.parse(file.read_text(encoding="utf-8"))
    found = {name for node in tree.body for name in _names(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            members = {name for each in node.body for name in _names(each)}
            found |= members | {f"{node.name}.{member}" for member in members}
    return found


def _names(node: ast.stmt) -> set[str]:
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return {node.name}
        case ast.Assign():
            return {target.id for target in node.targets if isinstance(target, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return set()


def test_names_beside_files_are_read_in_each_form():
    text = (
        "| `A` | `joblane/a.py` | x |\n`b` in `joblane/b.py`; "
        "`infra/c.py` (`c`, `D.d`), `infra/d.py` (how often)"
    )
    assert set(names_with_files(text)) == {
        ("A", "joblane/a.py"),
        ("b", "joblane/b.py"),
        ("c", "infra/c.py"),
        ("D.d", "infra/c.py"),
    }


def test_the_architecture_names_what_its_files_define():
    named = list(names_with_files(prose("docs/ARCHITECTURE.md")))
    assert len(named) > 25
    assert [] == [(name, path) for name, path in named if name not in defined(path)]


def commands(page: str) -> Iterator[list[str]]:
    """The words of each `joblane` command that a page shows."""
    text = prose(page)
    blocks = re.findall(r"^```(?:sh|console)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    lines += re.findall(
        r"`((?:joblane)[ ][^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    )
    for line in lines:
        words = shlex.split(line.removeprefix("$ "), comments=True) if "joblane " in line else []
        if words and words[0] == "joblane":
            yield words[1:]


def test_commands_exist():
    seen = 0
    for page in PAGES:
        if page.startswith("docs/reference/cli") or page == "CHANGELOG.md":
            continue
        for words in commands(page):
            seen += 1
            assert known(words), f"{page}: joblane {' '.join(words)}"
    assert seen > 60


@cache
def joblane() -> Any:
    """The command line."""
    return typer.main.get_command(app)


def known(words: list[str]) -> bool:
    """Whether the command line has this command and these options."""
    command = joblane()
    options = options_of(command)
    for word in words:
        if word == "--" or command.name in {"agent", "doctor"}:  # the agent's own options follow
            return True
        if word.startswith("-"):
            if word.partition("=")[0] not in options:
                return False
        elif below := getattr(command, "commands", {}).get(word):
            command = below
            options |= options_of(command)
    return True


def options_of(command: Any) -> set[str]:
    """The options of a command, and of the command that a group runs without a verb."""
    own = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
    default = getattr(command, "commands", {}).get("show")
    return own | {"--help", "-h"} | (options_of(default) if default else set())


@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_installed_by_a_name_that_is_not_ours(page: str):
    """Nobody has registered `joblane` on PyPI: whoever does would have his code installed."""
    asks = r"(?:pip3? install|pipx install|uv add|uv tool install)"
    installs = asks + r"""[^\n`]*?[ '"](joblane(?:\[\w+\])?)(?=['"\s`]|$)"""
    assert [] == re.findall(installs, prose(page))


def test_scripts_exist():
    for page in PAGES:
        for script in re.findall(r"^(?:\$ )?(scripts/[\w-]+)", prose(page), flags=re.MULTILINE):
            assert (ROOT / script).exists(), f"{page}: {script}"


def test_the_readme_is_short():
    assert len(prose("README.md").splitlines()) < 120


def test_budgets_of_stages_are_those_of_the_runner():
    page, runner = prose("CONTRIBUTING.md"), prose("scripts/test")
    shown = re.findall(r"^\| ([\w-]+) \| (\d+) \|$", page, flags=re.MULTILINE)
    (declared,) = re.findall(r"^declare -rA BUDGETS=\((.*?)\)$", runner, re.MULTILINE | re.DOTALL)
    assert dict(re.findall(r"\[([\w-]+)\]=(\d+)", declared)) == dict(shown)
    assert f"readonly MOST={sum(int(seconds) for _, seconds in shown) // 2}\n" in runner


def test_the_last_deep_run_was_of_a_commit_before_this_one():
    """`scripts/test deep` writes the file when it has passed."""
    last = tomllib.loads(prose("tests/deep.toml"))
    assert {"commit", "date", "seconds"} == set(last)
    if git("rev-parse", "--is-shallow-repository").strip() == "true":
        pytest.skip("a shallow clone does not have the commit")
    git("merge-base", "--is-ancestor", last["commit"], "HEAD")  # raises if it is none
    made_s = int(git("show", "--no-patch", "--format=%ct", last["commit"]))
    assert datetime.fromtimestamp(made_s, UTC).date() <= last["date"]
