"""The commands of the pages about many jobs and the command line are run as they are written."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.client.fake_api import FakeApi, Fault, Request, ok
from tests.support.warm import Warm

HOW_TO = Path(__file__).parents[4] / "docs" / "how-to"
FILES = {
    "params.jsonl": '{"origin": "a"}\n',
    "a.csv": "",
    "job.env": "# one\nA=1\nHOME\n",
    "words.json": '{"text": "one two"}',
    "ids.txt": "01MCC5RM002VP5C98RFS3H2QM0\n",
}


def blocks(page: str, kind: str) -> list[str]:
    text = (HOW_TO / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[str]:
    """The lines that have a joblane command, but those that ask."""
    lines = [line for block in blocks(page, "sh") for line in block.splitlines() if line]
    asks = re.compile(r"joblane (cancel|retry|resubmit|delete) ")
    return [line for line in lines if not asks.match(line)]


def answers(api: FakeApi) -> None:
    """Let the API take batches, and have the job whose id the pages show a part of."""
    api.add("01MCC5RM002VP5C98RFS3H2QM0").end(reason="exit code 0")
    api.add("01M90Y4J8W6V7S0F2M4J3T9QX8").end(reason="exit code 0")

    def more(request: Request) -> Fault | None:
        if request.path != "/v1/jobs/batch":
            return None
        entries: list[dict[str, Any]] = []
        for job in request.body["jobs"]:
            made = api.add(f"01J{len(api.jobs)}", **job)
            made.end()
            entries.append({"status": 202, "job": made.data})
        return ok({"entries": entries})

    api.more = more


@pytest.mark.parametrize(
    ("page", "line"),
    [
        (page, line)
        for page in ("run-many-jobs.md", "use-the-command-line.md")
        for line in commands(page)
    ],
)
def test_a_command_of_a_page_works(
    api: FakeApi, forked: Warm, tmp_path: Path, page: str, line: str
) -> None:
    answers(api)
    file, *_ = blocks("run-many-jobs.md", "text")
    (tmp_path / "jobs.txt").write_text(file)
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    program = tmp_path / "bin" / "joblane"
    program.parent.mkdir()
    forked.write_script(program)
    environment = {
        "PATH": f"{program.parent}:/usr/bin:/bin",
        "JOBLANE_URL": api.url,
        "JOBLANE_TOKEN": "secret",
        "HOME": str(tmp_path),
        "TZ": "Europe/Berlin",
    }
    bash = shutil.which("bash")
    assert bash is not None
    ran = subprocess.run(
        [bash, "--norc", "-c", line],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == ran.returncode, f"{page}: {ran.stderr}"


def test_the_lines_of_the_page_are_valid(api: FakeApi, tmp_path: Path) -> None:
    """Those with JSON as well, and the wrong one says what the page says."""
    del api
    first, second, *_ = blocks("run-many-jobs.md", "text")
    assert all(shlex.split(line) for line in first.splitlines() if not line.startswith("#"))
    from joblane.client.cli.job.each import Common, read_jobs  # needs no API

    for text, count in ((first, 3), (second, 2)):
        (tmp_path / "jobs.txt").write_text(text)
        assert count == len(read_jobs(tmp_path / "jobs.txt", Common({}, (), None)))
