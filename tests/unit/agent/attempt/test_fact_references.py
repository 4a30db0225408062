"""References to facts in jobs: replaced by the agent at the start of an attempt."""

import asyncio
import json
import tracemalloc
from typing import Any

import pytest

from ec2_agent.attempt import references
from ec2_agent.attempt.references import CannotResolve, with_facts
from ec2_agent.facts.known import KnownFacts
from ec2_agent.sandbox.launcher import Launcher
from functions.submission.handler import Settings, build
from joblane.job.fields import MAX_ARGUMENT_BYTES, MAX_ENV_VALUE_BYTES, MAX_PARAMS_BYTES
from joblane.job.head import Head
from joblane.job.spec import Submission
from joblane.state.lifecycle import Outcome, State
from joblane.target.facts import Facts
from tests.support.attempts import begin, finish, output
from tests.support.aws import Cloud, configure
from tests.support.jobs import submission
from tests.support.requests import Api

FACTS: Facts = {"kernel": "6.1", "cpus": 8, "nul": "a\0b", "long": "v" * 256}
LONG = "A" * 100


def run(aws: Cloud, launcher: Launcher, facts: Facts = FACTS, **fields: Any) -> Head:
    """Run an attempt on an agent with these facts; returns the job then."""
    parts, attempt = begin(aws, launcher, **fields)
    parts.facts.host(facts)
    return finish(aws, attempt)


def test_a_command_and_its_environment_have_the_facts_of_their_agent(
    aws: Cloud, launcher: Launcher
):
    command = ["/bin/sh", "-c", 'echo "$0 $1 $A"; echo "$2"', "@fact.kernel", "n=@fact.cpus"]
    command += ["@@fact.kernel @fact. @facts"]
    head = run(aws, launcher, command=command, env={"A": "<@fact.kernel>"})
    said = "".join(text or "" for _, text in output(aws, head))  # in one record or in two
    assert "6.1 n=8 <6.1>\n@fact.kernel @fact. @facts\n" == said
    assert (State.COMPLETED, tuple(command)) == (head.state, head.spec.command), "as submitted"
    assert {"A": "<@fact.kernel>"} == head.spec.env


def test_an_unknown_fact_fails_the_job_for_good_and_is_named(aws: Cloud, launcher: Launcher):
    head = run(aws, launcher, command=["/bin/echo", "@fact.cpus", "@fact.rack"])
    assert (State.FAILED, Outcome.PERMANENT, None) == (head.state, head.outcome, head.exit_code)
    reason = head.timeline[-1].reason
    assert reason == (
        "not started: command[2]: this agent has no fact rack; for the text itself write @@fact. "
        "(in @fact.rack); not tried again"
    )
    assert [] == output(aws, head)


def test_addresses_are_no_references(aws: Cloud, launcher: Launcher):
    words = ["ops@fact.example", "https://user:pw@fact.example.org/", "git@fact.io:x/y.git"]
    head = run(aws, launcher, command=["/bin/echo", *words])
    assert State.COMPLETED is head.state
    assert f"{' '.join(words)}\n" == "".join(text or "" for _, text in output(aws, head))


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"command": ["x", "@fact.cpus @fact.rack"]}, "command[1]"),
        ({"env": {"URL": "https://@fact.rack/"}}, "env.URL"),
        ({"env": {"A" * 50: "@fact.rack"}}, f"env.{'A' * 36}…"),
        ({"type": "t", "command": [], "params": {"a": [{"b": "@fact.rack"}]}}, "params.a.0.b"),
    ],
)
def test_the_error_says_where_the_fact_is_referred_to(fields: dict[str, Any], place: str):
    with pytest.raises(CannotResolve) as refused:
        resolve(**{"command": ["x"], **fields})
    assert str(refused.value).startswith(f"{place}: this agent has no fact rack;")


def test_a_name_that_is_too_long_is_shown_in_part():
    with pytest.raises(CannotResolve) as refused:
        resolve(command=["x", "@fact." + "n" * 100_000])
    assert f"has no fact {'n' * 63}…;" in str(refused.value)


def test_a_nul_in_a_fact_fails_the_job_for_good(aws: Cloud, launcher: Launcher):
    head = run(aws, launcher, command=["/bin/echo", "@fact.nul"])
    assert (State.FAILED, Outcome.PERMANENT) == (head.state, head.outcome)
    assert "command[1] contains a NUL" in head.timeline[-1].reason


def resolve(**fields: Any) -> Submission:
    """A submission with the facts above."""
    known = KnownFacts()
    known.host(FACTS)
    return asyncio.run(with_facts(submission(**fields), known))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (
            {"command": ["x", "@fact.long " + "y" * (MAX_ARGUMENT_BYTES - 256)]},
            "command[1] is longer",
        ),
        ({"env": {LONG: "@fact.long " + "y" * (MAX_ENV_VALUE_BYTES - 11)}}, "env.AAA"),
        ({"env": {"A": "@fact.nul"}}, "env.A contains a NUL"),
        (
            {"command": ["x", *["/@fact.long" * 400] * 21], "env": {}},
            "command and env take 2158",
        ),
        (
            {"type": "t", "command": [], "params": {"a": ["/@fact.long" * 1030]}},
            "params take 2647",
        ),
    ],
)
def test_values_that_are_too_long_are_refused(fields: dict[str, Any], why: str):
    with pytest.raises(CannotResolve) as refused:
        resolve(**{"command": ["x"], **fields})
    assert str(refused.value).startswith(why)


def test_values_up_to_the_limits_are_taken():
    word = "@fact.long " + "y" * (MAX_ARGUMENT_BYTES - 257)
    value = "@fact.long " + "y" * (MAX_ENV_VALUE_BYTES - 11)
    name = LONG[: MAX_ARGUMENT_BYTES - MAX_ENV_VALUE_BYTES - 246 - len("=")]
    spec = resolve(command=["x", word], env={name: value})
    assert MAX_ARGUMENT_BYTES == len(spec.command[1]) == len(f"{name}={spec.env[name]}")
    filling = "z" * (MAX_PARAMS_BYTES - len('{"a":""}') - 257)
    spec = resolve(type="t", command=[], params={"a": f"@fact.long {filling}"})
    assert spec.params == {"a": "v" * 256 + " " + filling}


def test_params_are_replaced_in_strings_at_any_depth():
    params = {"@fact.cpus": ["@fact.cpus", {"a": "on @fact.kernel"}], "n": [1, None, True]}
    spec = resolve(type="t", command=[], params=params)
    assert {"@fact.cpus": ["8", {"a": "on 6.1"}], "n": [1, None, True]} == spec.params


def test_a_job_without_references_is_neither_copied_nor_read_for_them(
    aws: Cloud, launcher: Launcher, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delattr(references, "resolve")
    monkeypatch.delattr(references, "resolve_strings")
    head = run(aws, launcher, command=["/bin/echo", "fact.kernel"], env={"A": "@fact"})
    assert State.COMPLETED is head.state


@pytest.mark.parametrize("reference", ["secretsmanager:joblane/acme/@fact.zone", "@fact.zone"])
def test_a_secret_is_not_chosen_by_a_fact(aws: Cloud, reference: str):
    api = Api(build(configure(Settings), aws.clients, lambda: 2e9))
    body = {"command": ["x"], "secret_env": {"TOKEN": reference}}
    status, problem = api("POST", "/v1/jobs", body)
    assert 400 == status
    assert [
        ("secret_env.TOKEN", "must not refer to a fact of the agent; name the secret itself")
    ] == [(error["field"], error["problem"]) for error in problem["errors"]]
    assert "zone" not in json.dumps(problem)


def test_a_fact_that_only_one_of_two_texts_with_one_path_names_is_missed():
    with pytest.raises(CannotResolve, match=r"params\.a\.b: this agent has no fact rack"):
        resolve(type="t", command=[], params={"a.b": "@fact.rack", "a": {"b": "text"}})


def test_long_names_in_params_are_not_copied_for_each_text():
    params = {"k" * 100_000: ["a"] * 1000, "b": "@fact.cpus"}
    tracemalloc.start()
    try:
        resolve(type="t", command=[], params=params)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10_000_000
