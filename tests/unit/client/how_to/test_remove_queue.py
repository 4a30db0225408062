"""What docs/how-to/remove-or-rename-a-queue.md says is so."""

import json
import re
import textwrap
from pathlib import Path

from infra.config import load_config
from joblane.config import Config
from scripts.deploying.preflight import Declared, Facts, findings
from scripts.deploying.stranded import Stranded
from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi

PAGE = (Path(__file__).parents[4] / "docs/how-to/remove-or-rename-a-queue.md").read_text(
    encoding="utf-8"
)


def blocks(kind: str) -> list[str]:
    """The fenced blocks of the page."""
    found = re.findall(rf"^ *```{kind}\n(.*?)^ *```", PAGE, re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(each) for each in found]


def config(folder: Path, text: str) -> Config:
    file = folder / "joblane.toml"
    file.write_text(f"[tenants.main]\n{text}", encoding="utf-8")
    return load_config(file)


def test_the_files_are_as_the_page_says(tmp_path: Path) -> None:
    first, second = blocks("toml")
    assert {"old": None} == config(tmp_path, first).retired
    assert {"old": "new"} == config(tmp_path, second).retired


def test_the_command_prints_what_the_page_shows(api: FakeApi, joblane: Joblane) -> None:
    settings = {"run_jobs": True, "threads": None, "threads_declared": 4, "cluster_threads": None}
    move = {"moved": 212, "kept": 3, "ended_at": "2025-11-21T02:05:00.000Z", "next_at": "x"}
    retired = {"moves_to": "new", "move": move}
    waiting, running = {"jobs": 15, "items": 15}, {"jobs": 2, "items": 2}
    oldest = {"job_id": "01KAJ5RJ00V3XW8TQZ9M4C2N7D", "age_s": 7510, "within_s": 0}
    answer = {
        "name": "old",
        "lanes": [],
        "activity": [],
        "settings": settings,
        "retired": retired,
        "jobs": {"waiting": waiting, "running": running, "oldest": oldest},
    }
    api.answers["/v1/queues/old"] = 200, {}, json.dumps(answer).encode()
    printed = joblane("queues", "show", "old").stdout.decode()
    shown = blocks("text")[0].splitlines()
    printed = re.sub(r"\(\d+\w+ ago\)", "(4m ago)", printed)
    assert shown == printed.splitlines()[: len(shown)]


def test_the_deployment_says_what_the_page_shows(tmp_path: Path) -> None:
    _, second = blocks("toml")
    declared = Declared("joblane.toml", "", config(tmp_path, second))
    facts = Facts("1", "eu-west-1", bootstrap=30, stranded=Stranded({("queues", "old"): 12}))
    (finding,) = findings(declared, facts, 0, "never")
    assert blocks("text")[1] == f"scripts/cdk deploy: {finding.text}\n"
    assert not finding.refuses


def test_its_list_is_taken_by_the_command(api: FakeApi, joblane: Joblane) -> None:
    api.answers["/v1/jobs"] = 200, {}, b'{"entries": [], "limit": 10, "next": null}'
    lines = [line.split("#")[0] for block in blocks("sh") for line in block.splitlines()]
    (listing,) = (line for line in lines if "--state" in line)
    ran = joblane(*listing.split()[1:])
    assert 0 == ran.code, ran.said
