"""Targets and labels: what they look like, and what they select."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from joblane.target.choose import find_host
from joblane.target.match import (
    MOST_LABELS,
    Target,
    check_labels,
    parse_labels,
    parse_target,
)
from tests.support.fleet import heartbeat
from tests.support.jobs import submission

SEGMENT = st.text("abcXYZ019_-", min_size=1, max_size=6)
VALUE = st.lists(SEGMENT, min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("_any", None),
        ("_all", Target()),
        ("host:web-1", Target(host="web-1")),
        ("group:web.dev", Target(label=("group", "web.dev"))),
        ("_all:x", Target(label=("_all", "x"))),
    ],
)
def test_a_target_reads_as_it_is_written(text: str, expected: Target | None):
    assert expected == parse_target(text)
    if expected is not None:
        assert text == str(expected)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "must be _any, _all, host:NAME"),
        ("_web", "must be _any, _all, host:NAME"),
        ("web.dev", "must be _any, _all, host:NAME"),
        ("host:", "must name an agent"),
        ("host:a.b", "must name an agent"),
        ("host:" + 41 * "a", "must name an agent"),
        (":web", "must have a key"),
        ("gr oup:web", "must have a key"),
        ("group:", "must have a value of segments"),
        ("group:web.", "must have a value of segments"),
        ("group:web..dev", "must have a value of segments"),
        ("group:wéb", "must have a value of segments"),
        ("group:web\n", "must have a value of segments"),
        ("group:" + 256 * "a", "at most 255 characters"),
    ],
)
def test_what_is_no_target(text: str, problem: str):
    with pytest.raises(ValueError, match=problem):
        parse_target(text)
    with pytest.raises(ValidationError, match=problem):
        submission(target=text)


def test_a_name_alone_is_an_agents():
    assert Target(host="web-1") == parse_target("web-1")
    agents = [
        heartbeat("w1", 0, labels={"group": "web.dev.w1"}),
        heartbeat("web", 0),
        heartbeat("db", 0, queues=("nightly",)),
    ]
    assert "host:w1" == str(find_host(agents, "w1", "default"))
    for name, problem in (
        ("db", "names no agent that serves queue default; it must be _any, _all, host:NAME, or"),
        ("dev", "names no agent that serves queue default; did you mean group:web.dev.w1?"),
        ("web", "may mean host:web or the label group:web.dev.w1; write the one you mean"),
    ):
        with pytest.raises(ValueError, match=re.escape(problem)):
            find_host(agents, name, "default")


@pytest.mark.parametrize(
    ("target", "selected"),
    [
        ("group:web", True),
        ("group:web.dev", True),
        ("group:web.dev.us-east", True),
        ("group:web.development", False),
        ("group:web.de", False),
        ("group:web.dev.us-east.a", False),
        ("role:web", False),
        ("host:one", True),
        ("host:on", False),
        ("_all", True),
    ],
)
def test_a_target_selects_by_segments(target: str, *, selected: bool):
    parsed = parse_target(target)
    assert parsed is not None
    assert selected == parsed.matches("one", {"group": "web.dev.us-east"})


@given(value=VALUE, wanted=VALUE)
def test_a_value_is_selected_by_what_it_begins_with(value: list[str], wanted: list[str]):
    target = Target(label=("group", ".".join(wanted)))
    labels = {"group": ".".join(value)}
    assert (value[: len(wanted)] == wanted) == target.matches("any", labels)


def test_an_agent_has_five_labels_at_most():
    labels = {f"k{n}": "v" for n in range(MOST_LABELS)}
    assert labels == check_labels(labels)
    with pytest.raises(ValueError, match="at most 5 labels; these are 6"):
        check_labels({**labels, "one-more": "v"})


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["group"], "must be KEY=VALUE"),
        (["group=web", "group=db"], "has the key group twice"),
        (["host=web"], "another key than host"),
        (["group=a..b"], "label 'group' must have a value of segments"),
        (["=web"], "must have a key"),
    ],
)
def test_labels_of_a_command_line_that_are_refused(words: list[str], problem: str):
    with pytest.raises(ValueError, match=problem):
        parse_labels(words)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"reply_timeout_s": 5}, "allowed with a target only"),
        ({"target": "_any", "reply_timeout_s": 5}, "allowed with a target only"),
        ({"target": "host:a", "max_concurrency": 2}, "a target of several agents only"),
        ({"max_concurrency": 2}, "a target of several agents only"),
        ({"target": "_all", "max_failures": 2}, "allowed with max_concurrency only"),
        ({"target": "_all", "concurrency": {"key": ["a"]}}, "not allowed with concurrency"),
        ({"target": "_all", "max_concurrency": 1001}, "less than or equal to 1000"),
        ({"target": "_all", "reply_timeout_s": 0}, "greater than or equal to 1"),
    ],
)
def test_fields_of_a_target_that_do_not_go_together(fields: dict[str, object], problem: str):
    with pytest.raises(ValidationError, match=problem):
        submission(**fields)


def test_the_target_of_any_agent_is_none():
    assert submission(target="_any") == submission()
