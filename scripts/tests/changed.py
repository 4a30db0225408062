"""Which tests a change concerns: python scripts/tests/changed.py [BASE].

Prints the files of tests/unit and tests/infra that import a changed file, at once or by way of
others, the nearest first; then the names of other stages with such a test. Changed is what differs
from the commit BASE (the last one, if it is left out), and new files. A file that is not Python
counts as imported by those that write its name, if that has a suffix, and concerns what `CONCERNS`
says.
"""

import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[2]

PACKAGES = ("joblane", "ec2_agent", "infra", "functions", "scripts", "tests")

STAGES = {
    "tests/sandbox/": "kernel",
    "tests/kernel/": "kernel",
    "tests/e2e/": "e2e",
    "tests/console/": "console",
    "tests/fuzz/": "fuzz",
    "tests/second_opinion/": "second-opinion",
}

ALL = ("tests/unit", "tests/infra", "kernel", "e2e", "console")

CONCERNS = {
    "README.md": ("tests/unit/scripts/test_docs.py",),
    "app.py": ("tests/infra",),
    "console/": ("tests/unit/console/test_files.py", "console"),
    "docs/": ("tests/unit/scripts/test_docs.py", "tests/unit/scripts/test_reference.py"),
    "ec2_agent/sandbox/": ("kernel",),
    "ec2_agent/sandbox/program.h": ("fuzz",),
    "ec2_agent/sandbox/slot.c": ("fuzz",),
    "examples/": ("tests/unit/scripts/test_reference.py", "e2e"),
    "package": ALL,
    "pyproject.toml": ALL,
    "scripts/setup": ALL,
    "scripts/test": ("tests/unit/scripts/test_docs.py",),
    "tests/console/unit/": ("console",),
    "tests/infra/snapshots/": ("tests/infra/test_snapshot.py",),
    "uv.lock": ALL,
}
"""What no import shows: the tests and stages that a file concerns whose path begins like this."""


def list_changed(base: str) -> list[str]:
    """What differs from a commit, and what git does not know yet; deleted files too."""
    asked = f"diff --name-only --merge-base {base}", "ls-files --others --exclude-standard"
    found = [
        subprocess.check_output(["git", *words.split()], cwd=ROOT, text=True) for words in asked
    ]
    return "".join(found).splitlines()


def module_of(file: str) -> str:
    """The name of a Python file's module."""
    parts = Path(file.removeprefix("layers/core/python/")).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def naming(files: Iterable[str]) -> Iterator[str]:
    """The Python files that write the name of one of these files."""
    names = {Path(file).name.encode() for file in files if Path(file).suffix}
    for package in PACKAGES if names else ():
        folder = ROOT / ("layers/core/python" if package == "joblane" else ".") / package
        for path in folder.rglob("*.py"):
            content = path.read_bytes()
            if any(name in content for name in names):
                yield str(path.relative_to(ROOT))


def importing(files: Sequence[str]) -> Iterator[str]:
    """These Python files' modules and all that import them, the nearest first.

    What a conftest imports is not imported by the tests beside it: they would be all tests.
    """
    graph = _graph()
    near = {module for file in files for module in _with_parts(graph, file)}
    seen: set[str] = set()
    while near:
        yield from sorted(near)
        seen |= near
        asked = [module for module in near if not module.endswith(".conftest")]
        near = {by for each in asked for by in graph.find_modules_that_directly_import(each)} - seen


@cache
def _graph() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES, cache_dir=None)


def _with_parts(graph: grimp.ImportGraph, file: str) -> set[str]:
    module = module_of(file)
    if file.endswith("conftest.py"):
        folder = module.removesuffix("conftest")
        return {each for each in graph.modules if each.startswith(folder)}
    if module not in graph.modules:
        return set()
    parts = graph.find_descendants(module) if file.endswith("__init__.py") else set()
    return {module, *parts}


def find_concerned(files: Sequence[str]) -> list[str]:
    """Test files, the nearest first, and then stages."""
    known = [what for file in files for name, what in CONCERNS.items() if file.startswith(name)]
    others = [file for file in files if not file.endswith(".py")]
    python = [file for file in files if file.endswith(".py")]
    modules = importing([*python, *naming(others)])
    tests = [f"{module.replace('.', '/')}.py" for module in modules if ".test_" in module]
    found = [*(each for what in known for each in what), *tests]
    named = [_stage(each) for each in found]
    return sorted(dict.fromkeys(named), key=lambda each: "/" not in each)


def _stage(test: str) -> str:
    return next((stage for folder, stage in STAGES.items() if test.startswith(folder)), test)


if __name__ == "__main__":
    print("\n".join(find_concerned(list_changed(*sys.argv[1:] or ["HEAD"]))))
