"""A field of a submission is declared once; the answers of the API follow from it."""

import pytest
from pydantic import ValidationError

from joblane.contract.job import Job, job_view
from joblane.job.head import make_head
from joblane.job.spec import Submission

NOW_MS = 1_800_000_000_000

OTHERS = {
    "name": "nightly report, März",
    "type": "sleep",
    "params": {"ms": 5},
    "queue": "bulk",
    "priority": "low",
    "resources": {"memory_mb": 64, "disk_mb": 9},
    "network": "egress",
    "env": {"A": "b"},
    "secret_env": {"S": "ssm:/joblane/acme/s"},
    "mask_secrets": False,
    "merge_stderr": True,
    "stdin": "text",
    "inputs": ({"path": "a", "sha256": "0" * 64, "mode": "0755"},),
    "outputs": ("out/**",),
    "timeout_s": 5,
    "heartbeat_timeout_s": 2,
    "concurrency": "per-customer",
    "restartable": False,
    "retry": {"max_attempts": 1},
    "exit_codes": {"permanent": (3,), "blocked": (4,), "skipped": (5,)},
    "labels": {"team": "web"},
    "items": 7,
    "run_at": "2030-01-01T00:00:00Z",
    "deadline": "2031-01-01T00:00:00Z",
    "requires": ("app:billing",),
    "notify": {"url": "https://example.com/hook", "on": ("failed", "dead")},
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "tracestate": "congo=t61rcWkgMzE",
}
"""A value for each field that is not its default; a type sets the command."""

ARRAY = {
    "array": {"first": 1, "last": 9, "step": 2},
    "tolerate": "5 %",
}
"""Values for those that exclude `concurrency` and `target`."""

TARGETED = {
    "target": "group:web",
    "reply_timeout_s": 5,
    "max_concurrency": 2,
    "max_failures": 1,
    "stdin_file": "0" * 64,
}
"""Values for the others, which exclude `concurrency` and `stdin`."""


@pytest.mark.parametrize(
    "fields",
    [
        OTHERS,
        {n: v for n, v in OTHERS.items() if n != "concurrency"} | ARRAY,
        {n: v for n, v in OTHERS.items() if n not in {"concurrency", "stdin"}} | TARGETED,
    ],
)
def test_the_api_shows_each_field_of_a_submission_as_it_was_submitted(fields: dict[str, object]):
    known = OTHERS.keys() | ARRAY.keys() | TARGETED.keys() | {"command"}
    assert known == Submission.model_fields.keys()
    spec = Submission.model_validate(fields)
    assert fields.keys() <= spec.model_dump(exclude_defaults=True).keys()
    job = job_view(make_head("01KAJ5RJ00V3XW8TQZ9M4C2N7D", "acme", spec, NOW_MS))
    assert spec.model_dump() == job.model_dump(include=set(Submission.model_fields))


def test_an_answer_requires_each_field_so_that_none_can_be_missing():
    schema = Job.model_json_schema(mode="serialization")
    assert set(Job.model_fields) == set(schema["required"])


@pytest.mark.parametrize("name", ["x", "x" * 128, "Café 7/9: naïve? (draft)"])
def test_a_name_is_one_line_of_up_to_128_characters(name: str):
    spec = Submission(command=("true",), name=name)
    assert name == Submission.model_validate_json(spec.model_dump_json()).name


@pytest.mark.parametrize("name", ["", "x" * 129, "two\nlines", "tab\t", "esc\x1b[0m", 7])
def test_another_name_is_refused(name: object):
    with pytest.raises(ValidationError):
        Submission.model_validate({"command": ("true",), "name": name})
