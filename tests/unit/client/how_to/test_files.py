"""The commands of the pages about files are run, and those of the comparison counted."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from joblane.client.files import storage
from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi, FakeJob
from tests.support.client.fake_files import FakeFiles, digest
from tests.support.warm import Warm

PAGES = Path(__file__).parents[4] / "docs/how-to"


def blocks(page: str, kind: str) -> list[str]:
    """The fenced blocks of a page."""
    text = (PAGES / page).read_text(encoding="utf-8")
    found = re.findall(rf"^( *)```{kind}\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    return [re.sub(rf"^{indent}", "", block, flags=re.MULTILINE) for indent, block in found]


@pytest.fixture(name="files", autouse=True)
def _files(
    api: FakeApi, forked: Warm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> FakeFiles:
    """A folder with the files of the pages, and jobs that leave files."""
    monkeypatch.setattr(storage, "BACKOFF_S", 0.01)
    here = tmp_path / "here"
    (here / "src").mkdir(parents=True)
    (here / "data.csv").write_text("b\na\n")
    (here / "names.txt").write_text("one\ntwo\n")
    for name in ("report.sh", "src/report.sh"):
        (here / name).write_text("#!/bin/sh\ncat\n")
    (here / "src/report.sh").chmod(0o755)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "joblane"
    forked.write_script(program)
    monkeypatch.chdir(here)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("JOBLANE_URL", api.url)
    monkeypatch.setenv("JOBLANE_TOKEN", "secret")

    def leave(job: FakeJob) -> None:
        job.end(output_files={"count": 1})

    api.on_submit = leave
    files = FakeFiles(api)
    files.leave("out/summary.csv", b"1\n")
    return files


def shell(block: str) -> str:
    """Run a block as a person would, and return what it said."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert 0 == done.returncode, done.stderr
    assert not [line for line in done.stderr.splitlines() if line.startswith("joblane:")]
    return done.stdout


@pytest.mark.parametrize("number", range(len(blocks("bring-files.md", "sh"))))
def test_the_commands_of_the_page_run(api: FakeApi, number: int) -> None:
    shell(blocks("bring-files.md", "sh")[number])
    assert api.requests


def submissions(api: FakeApi) -> list[dict[str, object]]:
    return [each.body for each in api.requests if (each.method, each.path) == ("POST", "/v1/jobs")]


def test_the_first_command_does_what_the_page_says(api: FakeApi) -> None:
    shell(blocks("bring-files.md", "sh")[0])
    (body,) = submissions(api)
    script = digest(b"#!/bin/sh\ncat\n")
    assert [
        {"path": "data.csv", "sha256": digest(b"b\na\n"), "mode": "0644"},
        {"path": "src/report.sh", "sha256": script, "mode": "0755"},
    ] == body["inputs"]
    assert b"1\n" == Path("out/summary.csv").read_bytes()


def test_scripts_are_standard_input(api: FakeApi) -> None:
    shell(blocks("bring-files.md", "sh")[1])
    assert ["#!/bin/sh\ncat\n", 'print("hello")\n'] == [body["stdin"] for body in submissions(api)]


def test_the_table_says_where_files_go(api: FakeApi, joblane: Joblane) -> None:
    text = (PAGES / "bring-files.md").read_text(encoding="utf-8")
    Path("hosts").write_text("")
    rows = re.findall(r"^\| (`-i .*?) \| (.*?) \|$", text, re.MULTILINE)
    assert 6 == len(rows)
    for options, place in rows:
        for option in re.findall(r"`(-i [^`]+)`", options):
            api.requests.clear()
            words = shlex.split(option.replace("../hosts", "../here/hosts"))
            assert 0 == joblane("submit", *words, "--", "true").code
            (body,) = submissions(api)
            paths = [file["path"] for file in body["inputs"]]  # type: ignore[attr-defined]
            expected = "report.sh" if place.startswith("the content") else place.split("`")[1]
            assert [expected.replace("...", "report.sh")] == paths


def test_a_loop_keeps_its_lines(api: FakeApi) -> None:
    (loop,) = [block for block in blocks("bring-files.md", "sh") if "while" in block]
    shell(loop)
    assert [["echo", "one"], ["echo", "two"]] == [body["command"] for body in submissions(api)]
    api.requests.clear()
    shell(loop.replace(" --no-stdin", ""))
    assert [(["echo", "one"], "two\n")] == [
        (body["command"], body["stdin"]) for body in submissions(api)
    ]


def test_the_comparison_counts_commands() -> None:
    page = "compare-with-batch-and-nomad.md"
    text = (PAGES / page).read_text(encoding="utf-8")
    found = re.findall(r"^\| (\w[\w ]*) \| (\d+) \|", text, re.MULTILINE)
    counts = {name: int(count) for name, count in found}
    commands = [*blocks(page, "sh"), *blocks(page, "bash")]
    shown = [len(re.findall(r"^(?:joblane|aws|nomad) ", block, re.MULTILINE)) for block in commands]
    assert {"Joblane": 1, "AWS Batch": 7, "Nomad": 6} == counts
    assert list(counts.values()) == shown


def test_the_command_of_the_comparison_brings_the_files_home(api: FakeApi) -> None:
    shell(blocks("compare-with-batch-and-nomad.md", "sh")[0])
    (body,) = submissions(api)
    assert ["data.csv", "report.sh"] == [file["path"] for file in body["inputs"]]  # type: ignore[attr-defined]
    assert b"1\n" == Path("out/summary.csv").read_bytes()
