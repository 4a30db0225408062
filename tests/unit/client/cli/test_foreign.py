"""Words that people type from other tools: one line that says what to type here."""

import pytest
import typer

from joblane.client.cli.app import app
from joblane.client.cli.foreign import COMMANDS, STATES, VERBS
from joblane.state.lifecycle import State
from tests.support.client.command import Joblane
from tests.support.client.fake_api import FakeApi

ROOT = typer.main.get_command(app)
GROUPS = ("queues", "schedules", "agents", "dlq", "conditions", "types", "keys")


def commands_of(*path: str) -> dict[str, object]:
    group: object = ROOT
    for name in path:
        group = group.commands[name]  # type: ignore[attr-defined]
    return dict(group.commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize("word", sorted(COMMANDS))
def test_a_word_of_another_tool_is_answered_with_a_command(
    api: FakeApi, joblane: Joblane, word: str
) -> None:
    ran = joblane(word, "x", "-f")
    assert (64, b"") == (ran.code, ran.stdout)
    assert f"joblane: there is no command {word}; use: {COMMANDS[word]}\n" == ran.said
    assert not api.requests


def test_no_word_of_another_tool_is_a_command_and_each_names_one() -> None:
    assert set() == set(COMMANDS) & set(commands_of())
    named = {text.split()[1] for text in COMMANDS.values()}
    assert named - {"--help", "--version", "--url"} <= set(commands_of())
    assert {*STATES.values()} <= set(State)
    assert set() == set(STATES) & set(State)
    assert {verb for verbs in VERBS.values() for verb in verbs} <= {
        name for group in GROUPS for name in commands_of(group)
    }


@pytest.mark.parametrize(
    ("typed", "use"),
    [
        (("queues", "list"), "queues show"),
        (("queues", "ls"), "queues show"),
        (("agents", "list"), "agents ls"),
        (("agents", "describe", "web-1"), "agents get"),
        (("dlq", "list"), "dlq ls"),
        (("dlq", "retry", "01J"), "dlq replay"),
        (("types", "show", "sync"), "types get"),
        (("conditions", "list"), "conditions ls"),
        (("keys", "delete"), "keys clear"),
        (("schedules", "create"), "schedules add"),
        (("schedules", "trigger", "nightly"), "schedules run"),
    ],
)
def test_so_are_the_words_of_groups(
    api: FakeApi, joblane: Joblane, typed: tuple[str, ...], use: str
) -> None:
    ran = joblane(*typed)
    assert (64, b"", []) == (ran.code, ran.stdout, api.requests)
    said = f"there is no command joblane {typed[0]} {typed[1]}; use: joblane {use}"
    assert f"joblane: {said}\n" == ran.said


@pytest.mark.parametrize("word", sorted(STATES))
@pytest.mark.parametrize("command", ["ls", "cancel", "delete"])
def test_so_are_their_states(api: FakeApi, joblane: Joblane, command: str, word: str) -> None:
    more = [] if command == "ls" else ["--yes"]
    ran = joblane(command, "--state", "pending", "--state", word.upper(), *more)
    assert (64, b"", []) == (ran.code, ran.stdout, api.requests)
    said = f"there is no state {word.upper()}; use: --state {STATES[word]}"
    assert f"joblane: {said}\n" == ran.said


def test_a_state_is_one_in_capitals_too_and_unknown_ones_are_left_to_the_api(
    api: FakeApi, joblane: Joblane
) -> None:
    assert 0 == joblane("ls", "--state", "ACTIVE", "--state", "newer").code
    assert "active,newer" == api.requests[0].query["state"]


def test_other_words_are_usage_errors(api: FakeApi, joblane: Joblane) -> None:
    ran = joblane("lgos")
    assert (2, b"", []) == (ran.code, ran.stdout, api.requests)
    assert "No such command 'lgos'" in ran.said
