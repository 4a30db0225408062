"""What the agent tells a job of an array: its index, how many there are, and its value."""

from dataclasses import replace
from typing import Any

import pytest

from ec2_agent.attempt.preparation import sandbox_spec
from joblane.group.array import InArray
from joblane.job.head import make_head
from tests.support.jobs import JOB, submission


def array_env(place: InArray | None, value: str | None = None) -> dict[str, Any]:
    head = replace(make_head(JOB, "acme", submission(), 1), in_array=place, value=value)
    env = sandbox_spec(head, 1.0).env
    return {name: text for name, text in env.items() if name.startswith("JOBLANE_ARRAY_")}


def test_a_job_of_no_array_is_told_nothing():
    assert {} == array_env(None)


def test_a_job_is_told_its_index_and_how_many_there_are():
    told = {"JOBLANE_ARRAY_INDEX": "7", "JOBLANE_ARRAY_SIZE": "100"}
    assert told == array_env(InArray(7, 100))


@pytest.mark.parametrize(
    ("value", "text"), [('"a b"', "a b"), ('{"n":1}', '{"n":1}'), ("null", "null"), ("5", "5")]
)
def test_a_text_is_told_as_it_is_and_anything_else_as_json(value: str, text: str):
    env = array_env(InArray(0, 1, has_value=True), value)
    assert text == env["JOBLANE_ARRAY_VALUE"]
