"""Metrics: what is written is the embedded metric format, and nothing can fail by it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblane.aws.metrics import Metrics, unit

NOW = 1_800_014_430.25
QUEUE = {"Deployment": "joblane", "Queue": "default"}

_DIRECTIVE = {
    "type": "object",
    "required": ["Namespace", "Dimensions", "Metrics"],
    "additionalProperties": False,
    "properties": {
        "Namespace": {"type": "string", "minLength": 1, "maxLength": 1024, "pattern": "^[^:]"},
        "Dimensions": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "array",
                "minItems": 1,
                "maxItems": 30,
                "items": {"type": "string", "minLength": 1, "maxLength": 250},
            },
        },
        "Metrics": {
            "type": "array",
            "minItems": 1,
            "maxItems": 100,
            "items": {
                "type": "object",
                "required": ["Name"],
                "additionalProperties": False,
                "properties": {
                    "Name": {"type": "string", "minLength": 1, "maxLength": 1024},
                    "Unit": {"enum": ["Seconds", "Milliseconds", "Percent", "Count"]},
                    "StorageResolution": {"enum": [1, 60]},
                },
            },
        },
    },
}
SCHEMA = {
    "type": "object",
    "required": ["_aws"],
    "properties": {
        "_aws": {
            "type": "object",
            "required": ["Timestamp", "CloudWatchMetrics"],
            "additionalProperties": False,
            "properties": {
                "Timestamp": {"type": "integer", "minimum": 1_500_000_000_000},
                "CloudWatchMetrics": {"type": "array", "minItems": 1, "items": _DIRECTIVE},
            },
        }
    },
    "additionalProperties": {
        "anyOf": [
            {"type": "string", "minLength": 1, "maxLength": 1024},
            {"type": "number"},
            {"type": "array", "minItems": 1, "maxItems": 100, "items": {"type": "number"}},
        ]
    },
}
"""The format's documents, after AWS's "Specification: Embedded metric format"."""

VALID = jsonschema_rs.validator_for(SCHEMA)

LOG_EVENT_BYTES = 256 * 1024 - 26
"""Of a log event at most, less what CloudWatch Logs adds to each."""


def written(
    values: Mapping[str, float | Sequence[float]], *, on: bool = True, at_ms: int | None = None
) -> list[dict[str, Any]]:
    """What an emission writes; each line is one document, below the limits."""
    lines: list[str] = []
    Metrics(on, lines.append, lambda: NOW).emit(QUEUE, values, at_ms=at_ms)
    found = []
    for line in lines:
        assert "\n" not in line
        assert len(line.encode()) < LOG_EVENT_BYTES
        document = json.loads(line)
        VALID.validate(document)
        for directive in document["_aws"]["CloudWatchMetrics"]:
            names = {metric["Name"] for metric in directive["Metrics"]}
            # Every metric and dimension is a member of the document, and every member is one.
            dimensions = {name for group in directive["Dimensions"] for name in group}
            assert {"_aws", *names, *dimensions} == document.keys()
            assert all(isinstance(document[name], str) for name in dimensions)
            assert not any(isinstance(document[name], str) for name in names)
        found.append(document)
    return found


def test_a_line_is_a_document_of_the_format():
    (document,) = written({"Started": 3, "WaitSeconds": [0.25, 0.25, 7.5]})
    assert {
        "_aws": {
            "Timestamp": 1_800_014_430_250,
            "CloudWatchMetrics": [
                {
                    "Namespace": "Joblane",
                    "Dimensions": [["Deployment", "Queue"]],
                    "Metrics": [
                        {"Name": "Started", "Unit": "Count"},
                        {"Name": "WaitSeconds", "Unit": "Seconds"},
                    ],
                }
            ],
        },
        "Deployment": "joblane",
        "Queue": "default",
        "Started": 3,
        "WaitSeconds": [0.25, 0.25, 7.5],
    } == document


def test_units_follow_names():
    assert ("Seconds", "Milliseconds", "Percent", "Count", "Count") == tuple(
        map(unit, ("RunSeconds", "HandoverMs", "BusyPercent", "Dead", "Seconds2"))
    )


def test_values_may_have_a_time_of_their_own():
    (document,) = written({"Dead": 1}, at_ms=1_800_000_000_000)
    assert 1_800_000_000_000 == document["_aws"]["Timestamp"]


def test_nothing_is_written_where_there_are_no_custom_metrics():
    assert [] == written({"Started": 3}, on=False)


def test_nothing_is_written_without_values():
    assert [] == written({})
    assert [] == written({"WaitSeconds": [], "RunSeconds": float("nan")})


@given(
    st.dictionaries(
        st.sampled_from([f"Metric{n}" for n in range(60)]),
        st.one_of(
            st.floats(),
            st.integers(-(2**53), 2**53),
            st.integers(0, 450).map(lambda size: [n / 8 for n in range(size)]),
        ),
    )
)
def test_every_finite_value_is_written_once(values: dict[str, float | list[float]]):
    def numbers(value: float | list[float]) -> list[float]:
        every = value if isinstance(value, list) else [value]
        return [each for each in every if abs(each) < float("inf")]

    found: dict[str, list[float]] = {}
    for document in written(values):
        for metric in document["_aws"]["CloudWatchMetrics"][0]["Metrics"]:
            found.setdefault(metric["Name"], []).extend(numbers(document[metric["Name"]]))
    wanted = {name: sorted(numbers(value)) for name, value in values.items()}
    assert {name: each for name, each in wanted.items() if each} == {
        name: sorted(each) for name, each in found.items()
    }


def test_the_largest_batch_is_ten_lines():
    """A batch of the projector has 1,000 changes, all of which may be starts."""
    assert 10 == len(written({"Started": 1000, "WaitSeconds": [0.123] * 1000}))


@pytest.mark.parametrize(
    ("dimensions", "values"),
    [
        ({}, {"Started": 1}),
        ({"Deployment": "a", "Queue": "b", "Fleet": "c", "Job": "d"}, {"Started": 1}),
        (QUEUE, {"Started": "three"}),
        (QUEUE, {"Started": object()}),
    ],
)
def test_a_metric_that_cannot_be_written_does_not_fail_the_function(
    capsys: pytest.CaptureFixture[str], dimensions: dict[str, str], values: Any
):
    Metrics(on=True).emit(dimensions, values)
    said = capsys.readouterr()
    assert "" == said.out
    assert "metrics not written" in said.err


def test_a_log_that_takes_no_line_does_not_fail_the_function(capsys: pytest.CaptureFixture[str]):
    def full(_line: str) -> None:
        raise OSError("no space left on device")

    Metrics(on=True, write=full).emit(QUEUE, {"Started": 1})
    assert "no space left" in capsys.readouterr().err


def test_lines_go_to_stdout(capsys: pytest.CaptureFixture[str]):
    Metrics(on=True).emit(QUEUE, {"Started": 1})
    VALID.validate(json.loads(capsys.readouterr().out))
