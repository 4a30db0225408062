"""Filters of queues: what is true, what fails, what is refused, and that their cost is bounded."""

from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2_agent.sandbox.launcher import DEFAULTS
from joblane.job.spec import DEFAULT_MEMORY_MB, DEFAULT_PIDS, Resources, Retry, Submission
from joblane.queue.filters import MAX_FILTER_CHARS, CompiledFilter, Mistake, NotTrue, find_mistake
from joblane.queue.routing import HOUR_MS, VARIABLES, Value, attributes

NOON = 20_000 * 24 * HOUR_MS + 12 * HOUR_MS + 59 * 60_000
"""12:59 UTC of some day, in Unix milliseconds."""


def values(**fields: Any) -> dict[str, Value]:
    spec = Submission.model_validate({"command": ("true",), **fields})
    return attributes("acme", "ci", spec, NOON)


def matches(expression: str, **fields: Any) -> bool:
    return CompiledFilter(expression).matches(values(**fields))


def test_a_plain_submission_has_a_value_for_each_variable():
    assert values() == {
        "tenant": "acme",
        "submitter": "ci",
        "name": "",
        "job_type": "command",
        "priority": "default",
        "target": "",
        "network": "none",
        "labels": {},
        "items": 1,
        "timeout_s": 600.0,
        "heartbeat_timeout_s": 0.0,
        "restartable": True,
        "max_attempts": 3,
        "cpus": 0.0,
        "cores": "",
        "memory_mb": DEFAULT_MEMORY_MB,
        "tmp_mb": 256,
        "disk_mb": 0,
        "io_bps": 0,
        "pids": DEFAULT_PIDS,
        "mask_secrets": True,
        "merge_stderr": False,
        "reply_timeout_s": 0.0,
        "max_concurrency": 0,
        "max_failures": -1,
        "weekday": 5,
        "hour": 12,
        "minute": 59,
    }
    assert list(VARIABLES) == list(values())


NO_VARIABLES = {
    "queue": "a job that names one is not routed",
    "type": "job_type",
    "stdin": "content",
    "stdin_file": "content",
    "run_at": "weekday, hour, minute",
    "deadline": "a moment",
    "traceparent": "of tracing",
    "tracestate": "of tracing",
    "tolerate": "a number or a share, of how a group ends",
}
"""Scalar fields of a submission that filters do not see by this name, with the reason."""


def test_every_scalar_field_of_a_submission_is_a_variable():
    models = (Submission, Resources)
    fields = {n: f.annotation for model in models for n, f in model.model_fields.items()}
    scalar = {name for name, kind in fields.items() if is_scalar(kind)}
    assert {"timeout_s", "name", "target", "cores", "disk_mb"} < scalar
    assert scalar - NO_VARIABLES.keys() <= VARIABLES.keys()
    assert not NO_VARIABLES.keys() & VARIABLES.keys()


def is_scalar(kind: Any) -> bool:
    """Whether a field is a text, a number or a truth: by its type without `Annotated` and None."""
    if get_origin(kind) is Annotated:
        return is_scalar(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return all(is_scalar(each) for each in get_args(kind) if each is not type(None))
    return kind in (str, int, float, bool) or get_origin(kind) is Literal


def test_long_jobs_have_a_queue_of_their_own():
    """What `timeout_s` is for: "a queue for long running jobs"."""
    long = "timeout_s > 3600.0 || name.startsWith('report') || target == 'host:big'"
    assert not matches(long)
    assert matches(long, timeout_s=3601.0)
    assert matches(long, name="report-7")
    assert matches(long, target="host:big")
    assert matches(long, target="big")  # which the job stores as host:big
    assert matches("target == ''", target="_any")
    limits = "cores == '0-2' && disk_mb >= 100 && tmp_mb == 64 && io_bps == 2048"
    assert matches(limits, resources=Resources(cores="0-2", disk_mb=100, tmp_mb=64, io_bps=2048))
    group = {"target": "_all", "max_concurrency": 2, "max_failures": 0, "reply_timeout_s": 5.0}
    assert matches("max_concurrency == 2 && max_failures == 0 && reply_timeout_s == 5.0", **group)
    assert matches(
        "!restartable && max_attempts == 1", restartable=False, retry=Retry(max_attempts=1)
    )
    assert matches(
        "heartbeat_timeout_s == 9.0 && merge_stderr && !mask_secrets",
        heartbeat_timeout_s=9.0,
        merge_stderr=True,
        mask_secrets=False,
    )


@pytest.mark.parametrize(
    ("run_at", "expected"),
    [
        ("2024-10-05T23:59:59Z", (6, 23, 59)),  # a Saturday
        ("2024-10-06T00:00:00Z", (7, 0, 0)),
        ("2024-10-07T00:01:00Z", (1, 0, 1)),
        ("2024-02-29T00:00:00Z", (5, 12, 59)),  # in the past: now, a Friday
    ],
)
def test_the_weekday_is_that_of_the_earliest_start(run_at: str, expected: tuple[int, int, int]):
    found = values(run_at=run_at)
    assert expected == (found["weekday"], found["hour"], found["minute"])


def test_the_defaults_are_those_of_the_sandbox():
    assert (DEFAULTS.memory_mb, DEFAULTS.pids) == (DEFAULT_MEMORY_MB, DEFAULT_PIDS)


def test_a_submission_has_its_own_values():
    fields: dict[str, Any] = {
        "priority": "high",
        "resources": Resources(cpus=2, memory_mb=4096, pids=10),
        "items": 7,
        "network": "egress",
        "labels": {"team": "web"},
    }
    expected = {"priority": "high", "cpus": 2.0, "memory_mb": 4096, "pids": 10, "items": 7}
    expected |= {"network": "egress", "labels": {"team": "web"}}
    assert {name: values(**fields)[name] for name in expected} == expected
    typed = {"command": (), "type": "sync", "params": {}}
    assert "sync" == values(**typed)["job_type"]


@pytest.mark.parametrize(
    ("run_at", "hour"),
    [
        ("2024-10-04T13:00:00Z", 13),  # within the hour
        ("2024-10-04T12:59:00Z", 12),
        ("2024-10-04T03:00:00Z", 12),  # in the past: now
        ("2024-10-05T03:00:00Z", 3),
        ("1999-12-31T23:59:59Z", 12),
    ],
)
def test_the_hour_is_that_of_the_earliest_start(run_at: str, hour: int):
    assert NOON == 1_728_046_740_000  # 2024-10-04T12:59:00Z
    assert hour == values(run_at=run_at)["hour"]


@pytest.mark.parametrize(
    ("expression", "fields"),
    [
        ("tenant == 'acme'", {}),
        ("submitter in ['ci', 'nightly']", {}),
        ("job_type == 'command' && priority != 'high'", {}),
        ("memory_mb > 500 && memory_mb <= 512", {}),
        ("cpus < 0.5", {}),
        ("hour >= 12 && hour < 13", {}),
        ("'team' in labels && labels.team == 'web'", {"labels": {"team": "web"}}),
        ("has(labels.team)", {"labels": {"team": ""}}),
        ("labels['cost-center'].matches('^[0-9]{4}$')", {"labels": {"cost-center": "1234"}}),
        ("labels.exists(k, k.startsWith('big'))", {"labels": {"bigger": "x"}}),
        ("network != 'host' // none or egress", {}),
    ],
)
def test_a_filter_is_true(expression: str, fields: dict[str, Any]):
    assert matches(expression, **fields)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("labels.team == 'web'", 'key not found in map : "team"'),
        ("labels['a-b'] == 'web'", 'key not found in map : "a-b"'),
        ("1 / (items - 1) > 0", "divide by zero"),
        ("items * 9223372036854775807 * 2 > 1", "integer overflow"),
        ("'a'.matches('(')", "invalid regular expression: missing ): ("),
        ("int(tenant) > 3", "cannot convert string to int"),
    ],
)
def test_what_cannot_be_evaluated_is_not_true_and_says_why(expression: str, problem: str):
    with pytest.raises(NotTrue) as raised:
        matches(expression)
    assert problem == str(raised.value)


def test_an_error_is_no_matter_where_the_rest_decides():
    assert matches("labels.team == 'web' || tenant == 'acme'")
    assert not matches("labels.team == 'web' && tenant == 'other'")


def test_text_that_is_not_unicode_is_not_true():
    with pytest.raises(NotTrue):
        CompiledFilter("submitter == 'ci'").matches({**values(), "submitter": "\ud800"})


LABELS = {f"label-{number}": "x" * 255 for number in range(20)}


def test_iterations_are_bounded():
    """9,999 of all loops together."""
    three = "labels.all(a, labels.all(b, labels.all(c, true)))"  # 20 + 400 + 8,000
    assert matches(three, labels=LABELS)
    for expression in (f"{three} && {three}", f"labels.all(d, {three})"):
        with pytest.raises(NotTrue) as raised:
            matches(expression, labels=LABELS)
        assert "iteration budget exceeded" == str(raised.value)


def test_a_regular_expression_takes_linear_time():
    """A backtracking engine would take 2^255 steps; this one is RE2."""
    assert not matches("labels.all(k, labels[k].matches('^(x+x+)+y$'))", labels=LABELS)


KNOWN = ", ".join(VARIABLES)


@pytest.mark.parametrize(
    ("expression", "line", "column", "problem"),
    [
        ("", 1, 1, "is empty"),
        (" \n ", 1, 1, "is empty"),
        (
            "tenant == 'a' && tenan == 'b'",
            *(1, 18),
            f"'tenan' is unknown; the variables are {KNOWN}",
        ),
        ("type == 'sync'", 1, 6, "'==' does not take (type(type), string)"),
        ("tenant == 1", 1, 8, "'==' does not take (string, int)"),
        (
            "cpus > 1",
            *(1, 6),
            "'>' does not take (double, int); write a decimal number with a point, as 1.0",
        ),
        ("tenant == 'ä😀' && foo", 1, 19, f"'foo' is unknown; the variables are {KNOWN}"),
        ("memory_mb >\n\t 4000 &&\n foo", 3, 2, f"'foo' is unknown; the variables are {KNOWN}"),
        (
            "tenant ==",
            *(1, 10),
            "syntax error: unexpected end",
        ),
        ("tenant = 'a'", 1, 8, "syntax error: token recognition error at: '= '"),
        ("tenant LIKE 'a%'", 1, 8, "syntax error: unexpected 'LIKE'"),
        ("has(labels)", 1, 5, "has() argument must be a field selection"),
        ("tenant", 1, 1, "is of the type string; a filter is true or false: bool"),
        ("memory_mb + 1", 1, 1, "is of the type int; a filter is true or false: bool"),
        ("labels", 1, 1, "is of the type map<string, string>; a filter is true or false: bool"),
        ("dyn(true)", 1, 1, "is of the type dyn; a filter is true or false: bool"),
        ("tenant.foo()", 1, 11, f"'foo' is unknown; the variables are {KNOWN}"),
        ("math.greatest(1, 2) > 1", 1, 1, f"'math' is unknown; the variables are {KNOWN}"),
        (
            "(" * 40 + "true" + ")" * 40,
            *(1, 1),
            "is nested too deeply: the library allows a depth of 32",
        ),
        (
            "items > " + "+".join(["1"] * 200),
            *(1, 1),
            "is nested too deeply: the library allows a depth of 32",
        ),
        ("true" + " " * 1997, 1, 1, "has 2001 characters; 2000 are allowed"),
    ],
)
def test_a_mistake_says_where_and_what(expression: str, line: int, column: int, problem: str):
    found = find_mistake(expression)
    assert found is not None
    assert (line, column) == (found.line, found.column)
    assert problem == found.problem
    with pytest.raises(ValueError, match=r"."):
        CompiledFilter(expression)


def test_the_longest_expression_is_compiled():
    longest = "true" + " " * (MAX_FILTER_CHARS - 4)
    assert find_mistake(longest) is None
    assert matches(longest)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=80) | st.sampled_from(KNOWN))
def test_any_text_is_a_filter_or_a_mistake_in_one_line(text: str):
    found = find_mistake(text)
    if found is None:
        assert CompiledFilter(text).matches(values()) in (True, False)
        return
    assert isinstance(found, Mistake)
    assert found.line <= text.count("\n") + 1
    assert "\n" not in found.problem
