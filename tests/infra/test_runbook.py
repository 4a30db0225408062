"""The runbook has a page for each alarm, with commands that exist.

tests/e2e/test_runbook.py runs them.
"""

import re
import shlex
from pathlib import Path

import pytest

from infra.alarms import BURNS, IDS
from tests.infra.aws_commands import check_by_aws
from tests.support.runbook import INTRODUCTION, PAGE, blocks, inline, sections

WINDOWS = {window for burn in BURNS for window in burn.windows}

IN_ACCOUNT = {
    "autoscaling describe-auto-scaling-groups": "the local deployment has no group",
    "autoscaling describe-scaling-activities": "the local deployment has no group",
    "autoscaling set-desired-capacity": "the local deployment has no group",
    "logs filter-log-events": "the function scaler",
    "service-quotas get-service-quota": "MiniStack has no such service",
    "sqs start-message-move-task": "MiniStack does not know the action",
    "ssm describe-instance-associations-status": "MiniStack does not know the action",
}
"""Commands that no test runs, and why."""

DEPLOY = "scripts/cdk deploy --all"
"""Run by every end-to-end test, as it deploys."""


def test_each_alarm_has_a_page_and_each_page_an_alarm():
    (introduction, *pages) = sections()
    assert INTRODUCTION == introduction
    assert [] == [each for each in IDS if each not in pages]
    assert set(pages) == set(IDS)
    assert len(pages) == len(re.findall("^## ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)) - 1


@pytest.mark.parametrize("alarm", [each for each in sections() if each != INTRODUCTION])
def test_a_page_says_what_it_means_how_to_look_what_to_do_and_when_it_is_over(alarm: str):
    text = sections()[alarm]
    if alarm in WINDOWS:
        (burn,) = (burn.id for burn in BURNS if alarm in burn.windows)
        assert f"(#{burn})" in text
        return
    parts = ["**Means.**", "**Look.**", "**Do.**", "**Over.**"]
    places = [text.find(part) for part in parts]
    assert -1 not in places
    assert sorted(places) == places
    # How to look is commands, which the page has itself.
    assert "```sh" in text[places[1] : places[2]]


def test_commands_in_sentences_are_run_as_well():
    """By a block of the page that begins with the same words."""
    run = " ".join(" ".join(block.text.split()) for block in blocks())
    for section, text in sections().items():
        for code in inline(text):
            if code.startswith(("aws ", "joblane ")):
                assert code in run, f"{section}: {code} is in no block"
            assert not code.startswith("scripts/") or code == DEPLOY


def account_commands() -> list[list[str]]:
    """The commands that need an account, as words."""
    found = []
    for block in blocks():
        if block.in_account:
            lines = block.text.replace("\\\n", " ").splitlines()
            found += [shlex.split(line) for line in lines]
    return found


def test_commands_that_no_test_runs_are_these():
    said = {" ".join(words[1:3]) for words in account_commands()}
    assert set(IN_ACCOUNT) == said


def test_commands_that_no_test_runs_are_those_of_aws(tmp_path: Path):
    commands = account_commands()
    assert {"aws"} == {words[0] for words in commands}
    ended = check_by_aws([words[1:] for words in commands], tmp_path)
    for words, ran in zip(commands, ended, strict=True):
        assert (0, "") == (ran.code, ran.err), words
