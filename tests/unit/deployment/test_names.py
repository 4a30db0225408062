"""Names of SQS queues: short enough for SQS, and a policy on one kind reaches no other."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import product

import pytest
from pydantic import TypeAdapter, ValidationError

from joblane.config import Config
from joblane.deployment.names import (
    AGENT_NAME_PATTERN,
    KINDS,
    LANES,
    Name,
    alternate_name,
    dead_letter_name,
    inbox_name,
    lane_name,
)

SQS_CHARACTERS = 80

AWKWARD = (
    "a",
    "inbox",
    "lane",
    "dlq",
    "alternate",
    "default",
    "default-high",
    "high",
    "a--b",
    "b-",
)
"""Names of queues that look like parts of other names."""

AGENTS = ("i-0123456789abcdef0", "a_high", "lane-a_high", "dlq-a_high", "a")


def longest(pattern: str) -> str:
    """The longest text that a pattern of names allows."""
    found = re.search(r"\{\d,(\d+)\}", pattern)
    assert found is not None
    fixed = "a" if "[a-z][" in pattern else ""
    text = fixed + "x" * int(found[1])
    assert re.fullmatch(pattern, text)
    assert not re.fullmatch(pattern, f"{text}x")
    return text


def test_the_longest_names_are_short_enough_for_sqs() -> None:
    pattern = TypeAdapter(Name).json_schema()["pattern"]
    deployment, queue = longest(pattern), longest(pattern)
    names = [lane_name(deployment, queue, lane) for lane in LANES]
    names += [inbox_name(deployment, longest(AGENT_NAME_PATTERN)), alternate_name(deployment)]
    assert [] == [(name, len(name)) for name in names if len(name) > SQS_CHARACTERS]
    assert 78 == max(map(len, names))


def kinds(deployment: str) -> dict[str, list[str]]:
    """Names of a deployment's SQS queues, by kind."""
    return {
        "lane": [lane_name(deployment, queue, lane) for queue, lane in product(AWKWARD, LANES)],
        "inbox": [inbox_name(deployment, agent) for agent in AGENTS],
        "others": [alternate_name(deployment), dead_letter_name(deployment)],
    }


def patterns(deployment: str) -> Iterator[tuple[str, str]]:
    """Patterns in policies of a deployment, each with the kind that it is for."""
    yield lane_name(deployment, "*", "*"), "lane"
    yield inbox_name(deployment, "*"), "inbox"


@pytest.mark.parametrize("other", ["a", "a-b", "a-alternate", "lane", "inbox-a"])
def test_a_pattern_reaches_its_kind_in_its_deployment_only(other: str) -> None:
    """Of two deployments in an account, `a` and another one."""
    for pattern, kind in patterns("a"):
        reached = {
            (deployment, of)
            for deployment in {"a", other}
            for of, names in kinds(deployment).items()
            for name in names
            if fnmatchcase(name, pattern)
        }
        assert {("a", kind)} == reached


def test_the_lanes_of_one_queue_are_no_others() -> None:
    for queue in AWKWARD:
        reached = {
            other
            for other, lane in product(AWKWARD, LANES)
            if fnmatchcase(lane_name("joblane", other, lane), lane_name("joblane", queue, "*"))
        }
        assert {queue} == reached


@pytest.mark.parametrize("kind", KINDS)
def test_a_deployment_that_a_pattern_of_another_would_reach_is_refused(kind: str) -> None:
    rest: dict[str, object] = {"tenants": {"main": {}}, "queues": {"default": {}}}
    for name in (f"a-{kind}", f"a-{kind}-b"):
        with pytest.raises(ValidationError, match=f"'{name}' has the word '{kind}' .* of 'a'"):
            Config.model_validate({"name": name, **rest})
    Config.model_validate({"name": kind, **rest})
