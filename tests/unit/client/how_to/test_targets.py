"""What docs/how-to/run-on-many-agents.md says is so."""

import re
import shlex
from pathlib import Path

import pytest

from joblane.client.cli.group.follower import OUTPUT_KB
from joblane.target.match import ALL, ANY, REPLY_TIMEOUT_S, parse_target
from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi
from tests.support.client.fake_group import GROUP, FakeGroup

PAGE = (Path(__file__).parents[4] / "docs/how-to/run-on-many-agents.md").read_text(encoding="utf-8")


def commands() -> list[list[str]]:
    """The commands of the page's blocks, without `joblane`, about the group of the fake API."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    lines = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    return [[GROUP if word == "GROUP" else word for word in line[1:]] for line in lines]


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_every_command_is_one(api: FakeApi, joblane: Joblane, command: list[str]) -> None:
    group = FakeGroup(api, ["web-1", "web-2"])
    group.end(0)
    group.end(1)
    group.take_submissions()
    ran = joblane(*command)
    assert ran.code in {0, 66}, ran.said  # 66: the fake API cannot delete or submit again
    assert api.requests


def test_the_targets_of_the_table_are_targets() -> None:
    found = [parse_target(text) for text in re.findall(r"^\| `([^`-]\S*)`", PAGE, re.MULTILINE)]
    assert [None, ALL, "host:web-1", "group:web"] == [each and str(each) for each in found]
    assert f"`{ANY}`, or nothing" in PAGE


def test_the_example_is_matched_as_it_says() -> None:
    target = parse_target("group:web.dev")
    assert target is not None
    assert target.matches("a", {"group": "web.dev.us-east"})
    assert not target.matches("a", {"group": "web.development"})


def test_the_numbers_are_those_of_the_code() -> None:
    assert f"`--reply-timeout-s` ({REPLY_TIMEOUT_S:.0f})" in PAGE
    assert f"at most {OUTPUT_KB} KB of each host" in PAGE
