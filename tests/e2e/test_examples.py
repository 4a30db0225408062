"""Programs of examples/ print what they say, side by side against one deployment.

A program ends with a comment `# Output:` and the lines of its standard output, in which `...` is
any text.
"""

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from doctest import ELLIPSIS, OutputChecker
from pathlib import Path

import pytest

from scripts.local.cloud import Cloud

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = sorted([*EXAMPLES.glob("*.py"), *EXAMPLES.glob("*.sh")])
SIDE_BY_SIDE = 8

Ran = subprocess.CompletedProcess[str]


def expected(program: Path) -> str:
    """What a program says that it prints."""
    _, _, said = program.read_text(encoding="utf-8").partition("\n# Output:\n")
    lines = said.splitlines()
    assert lines, "a program ends with what it prints"
    return "".join(f"{line.removeprefix('#').removeprefix(' ')}\n" for line in lines)


@pytest.fixture(name="ran", scope="module")
def _ran(
    cloud: Cloud,
    environment: dict[str, str],
    programs: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, Ran]]:
    """What became of each program; they run at the same time, as a person would start them."""
    if "local" not in cloud.agents:
        cloud.start_agent("local", threads=4)
    interpreters = {".py": str(programs / "joblane"), ".sh": "sh"}  # the first is forked

    def run(program: Path) -> Ran:
        home = tmp_path_factory.mktemp(program.stem)
        return subprocess.run(
            [interpreters[program.suffix], str(program)],
            env={**environment, "HOME": str(home)},
            cwd=home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    with ThreadPoolExecutor(SIDE_BY_SIDE) as threads:
        yield dict(zip((each.name for each in PROGRAMS), threads.map(run, PROGRAMS), strict=True))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_program_prints_what_it_says(ran: dict[str, Ran], program: Path):
    done = ran[program.name]
    assert (0, "") == (done.returncode, done.stderr)
    assert OutputChecker().check_output(expected(program), done.stdout, ELLIPSIS), done.stdout
