"""The files of commands on the page about many jobs are valid."""

import re
import shlex
from pathlib import Path

from joblane.client.cli.job.each import Common, read_jobs

HOW_TO = Path(__file__).parents[4] / "docs" / "how-to"


def blocks(page: str, kind: str) -> list[str]:
    text = (HOW_TO / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def test_the_lines_of_the_page_are_valid(tmp_path: Path) -> None:
    """Those with JSON as well, and the wrong one says what the page says."""
    first, second, *_ = blocks("run-many-jobs.md", "text")
    assert all(shlex.split(line) for line in first.splitlines() if not line.startswith("#"))
    for text, count in ((first, 3), (second, 2)):
        (tmp_path / "jobs.txt").write_text(text)
        assert count == len(read_jobs(tmp_path / "jobs.txt", Common({}, (), None)))
