"""Arrays in a submission: which are allowed, which indices they have, and how these are written."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joblane.contract.problems import Invalid, parse_model
from joblane.group.array import (
    MAX_VALUE_BYTES,
    MAX_VALUES_BYTES,
    Array,
    InArray,
    Indices,
    NotAnIndex,
    as_ranges,
    parse_ranges,
    tolerated,
    value_text,
)
from joblane.job.head import abridge
from joblane.job.spec import Submission

TOO_LONG = (
    f"take 300010 bytes as JSON; together they may take {MAX_VALUES_BYTES}. Upload longer ones as "
    "input files, and name these"
)


def parse(**fields: Any) -> Submission:
    return parse_model(Submission, json.dumps({"command": ["true"], **fields}))


def refusal(**fields: Any) -> list[tuple[str, str]]:
    with pytest.raises(Invalid) as refused:
        parse(**fields)
    return [(problem.field, problem.problem) for problem in refused.value.errors]


@pytest.mark.parametrize(
    ("array", "jobs", "indices"),
    [
        ({"size": 3}, 3, [0, 1, 2]),
        ({"size": 10_000}, 10_000, None),
        ({"first": 7, "last": 7}, 1, [7]),
        ({"first": 1, "last": 9, "step": 4}, 3, [1, 5, 9]),
        ({"first": 0, "last": 9, "step": 4}, 3, [0, 4, 8]),
        ({"first": 1, "last": 10_000}, 10_000, None),
        ({"values": ["a", 5, None, {"x": [1]}]}, 4, [0, 1, 2, 3]),
    ],
)
def test_an_array_has_the_indices_that_it_says(
    array: dict[str, Any], jobs: int, indices: list[int] | None
):
    made = parse(array=array).array
    assert made is not None
    assert jobs == made.jobs
    if indices is not None:
        assert indices == [made.indices.of(number) for number in range(jobs)]
    assert jobs == made.bare.jobs


@pytest.mark.parametrize(
    ("array", "field", "problem"),
    [
        ({"size": 0}, "array.size", "should be greater than or equal to 1"),
        ({"size": 10_001}, "array.size", "should be less than or equal to 10000"),
        ({"size": "5"}, "array.size", "should be a valid integer"),
        ({"first": 1, "last": 9, "step": 0}, "array.step", "should be greater than or equal to 1"),
        ({}, "array", "must have size, or first and last, or values, and one of them only"),
        (
            {"size": 2, "values": [1, 2]},
            "array",
            "must have size, or first and last, or values, and one of them only",
        ),
        ({"first": 1}, "array", "must have both first and last for a range"),
        ({"step": 2}, "array", "must have both first and last for a range"),
        ({"first": 9, "last": 1}, "array", "last must be at least first, which is 9"),
        (
            {"first": 0, "last": 20_000, "step": 2},
            "array",
            "makes 10001 jobs; an array has at most 10000",
        ),
        ({"values": []}, "array.values", "must have at least 1 item(s)"),
        ({"values": [0] * 10_001}, "array.values", "must have at most 10000 item(s)"),
        (
            {"values": ["x" * 100_000] * 3},
            "array.values",
            TOO_LONG,
        ),
        ({"values": [1, "a\0b"]}, "array.values.1", "must not contain a NUL character"),
        (
            {"values": [1, "x" * 131_041]},
            "array.values.1",
            f"takes 131041 bytes; a value may take {MAX_VALUE_BYTES}",
        ),
        ({"sizes": 3}, "array.sizes", "unknown field"),
    ],
)
def test_what_is_no_array_is_refused_with_its_field(
    array: dict[str, Any], field: str, problem: str
):
    assert (field, problem) in refusal(array=array)


@pytest.mark.parametrize(
    ("fields", "field", "problem"),
    [
        (
            {"concurrency": {"key": ["a"]}, "array": {"size": 2}},
            "array",
            (
                "not allowed with concurrency: give max_concurrency in its place, or submit the "
                "jobs one by one"
            ),
        ),
        (
            {"target": "_all", "array": {"size": 2}},
            "target",
            "not allowed with array: its jobs run on any agents of the queue",
        ),
        (
            {"target": "host:w1", "array": {"size": 2}},
            "target",
            "not allowed with array: its jobs run on any agents of the queue",
        ),
        ({"reply_timeout_s": 5, "array": {"size": 2}}, "reply_timeout_s", None),
        (
            {"tolerate": 2},
            "tolerate",
            "allowed with a target of several agents only: _all, or a label; or with an array",
        ),
        (
            {"array": {"size": 1000}, "max_failures": 1},
            "max_failures",
            "allowed with max_concurrency only: without it all jobs begin at once",
        ),
        (
            {"array": {"size": 2}, "tolerate": "150 %"},
            "tolerate",
            "must be a number of jobs, or a share from 0 % to 100 %, such as 5 %",
        ),
        ({"array": {"size": 2}, "tolerate": "a few"}, "tolerate", None),
        (
            {"array": {"size": 2}, "tolerate": -1},
            "tolerate",
            "should be greater than or equal to 0",
        ),
    ],
)
def test_what_does_not_fit_an_array_is_refused(
    fields: dict[str, Any], field: str, problem: str | None
):
    found = refusal(**fields)
    assert [field] == [name for name, _ in found]
    assert problem is None or [(field, problem)] == found


def test_values_are_the_params_so_there_are_no_others():
    values = {"values": [{"ms": 2}]}
    with pytest.raises(Invalid) as refused:
        parse_model(Submission, json.dumps({"type": "sleep", "params": {"ms": 1}, "array": values}))
    (problem,) = refused.value.errors
    assert ("array", "has values, which are the params; leave params out") == (
        problem.field,
        problem.problem,
    )


def test_a_large_array_may_have_max_failures_as_its_jobs_do_not_all_begin_at_once():
    assert 1 == parse(array={"size": 1001}, max_failures=1).max_failures


def test_lists_show_the_number_of_long_values():
    spec = parse(array={"values": ["x" * 200] * 5})
    assert Array(size=5) == abridge(spec).array
    short = parse(array={"values": ["x"]})
    assert short is abridge(short)


@pytest.mark.parametrize(
    ("numbers", "indices", "text"),
    [
        ([], None, ""),
        ([1, 3, 4, 5, 7], None, "1,3-5,7"),
        ([0], None, "0"),
        ([2, 1, 1, 0], None, "0-2"),
        ([0, 1, 3], Indices(10, 1), "10-11,13"),
        ([0, 1, 3], Indices(1, 2), "1,3,7"),
    ],
)
def test_indices_are_written_as_ranges(numbers: list[int], indices: Indices | None, text: str):
    assert text == as_ranges(numbers, indices)


@given(st.sets(st.integers(0, 200)), st.integers(0, 50), st.integers(1, 5))
def test_ranges_select_what_they_were_written_of(numbers: set[int], first: int, step: int):
    indices = Indices(first, step)
    if numbers:
        assert sorted(numbers) == parse_ranges(as_ranges(numbers, indices), 201, indices)


def test_a_range_selects_the_indices_in_it():
    assert [1, 2, 3] == parse_ranges("2-7", 5, Indices(0, 2))
    assert [1, 2, 3, 4, 5, 9] == parse_ranges("5,2-4,1-3,9,9,2", 10)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "must be indices and ranges of them, such as 3,5-9"),
        ("3,", "must be indices and ranges of them, such as 3,5-9"),
        ("a-b", "must be indices and ranges of them, such as 3,5-9"),
        ("9-5", "9-5 must rise, such as 5-9"),
        ("10", "10 is outside of the array, whose indices are 0 to 9"),
        ("5-10", "5-10 is outside of the array, whose indices are 0 to 9"),
    ],
)
def test_what_selects_nothing_of_an_array_is_refused(text: str, why: str):
    with pytest.raises(NotAnIndex) as refused:
        parse_ranges(text, 10)
    assert why == str(refused.value)


def test_an_index_that_the_steps_do_not_meet_is_refused():
    with pytest.raises(NotAnIndex) as refused:
        parse_ranges("4", 5, Indices(1, 2))
    assert "4 is no index of the array: 1 to 9 in steps of 2" == str(refused.value)


@pytest.mark.parametrize(
    ("tolerance", "members", "most"),
    [
        (None, 10, 0),
        (3, 10, 3),
        ("5 %", 100, 5),
        ("5%", 39, 1),
        ("0.5 %", 1000, 5),
        ("100 %", 7, 7),
    ],
)
def test_a_share_tolerates_whole_jobs(tolerance: int | str | None, members: int, most: int):
    assert most == tolerated(tolerance, members)


def test_a_text_is_a_value_as_it_is():
    assert ["a b", "5", '{"x":[1,null]}', "true"] == [
        value_text(value) for value in ("a b", 5, {"x": [1, None]}, True)
    ]


@given(st.builds(InArray, st.integers(0, 10**9), st.integers(1, 10_000), st.booleans()))
def test_a_place_in_an_array_is_read_as_it_was_written(place: InArray):
    assert place == InArray.decode(place.encode())
