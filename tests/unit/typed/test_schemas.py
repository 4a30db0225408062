"""Schemas of job types: what they take, how they say what is wrong, and what they cost."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from joblane.http.json_schema import MAX_PROBLEMS, JsonSchema
from joblane.service.typed.schemas import SchemaError
from joblane.typed.built_in import built_in_types


def test_each_built_in_type_has_a_schema_that_can_be_used():
    for built_in in built_in_types().values():
        JsonSchema(built_in.contract.params_schema)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"properties": {"a": {"type": "nonsense"}}}, "properties.a.type"),
        ({"properties": {"a": {"pattern": "("}}}, "properties.a.pattern"),
        ({"properties": {"a": {"pattern": "^(?=a)"}}}, "properties.a.pattern"),
        ({"properties": {"a": {"$ref": "#/nowhere"}}}, "/nowhere"),
        ({"properties": {"a": {"$ref": "http://127.0.0.1:1/x"}}}, "127.0.0.1"),
    ],
)
def test_a_schema_that_cannot_be_used_says_where(schema: dict[str, Any], said: str):
    with pytest.raises(SchemaError, match=said):
        JsonSchema({"type": "object", **schema})


def test_a_schema_has_no_file_read(tmp_path: Path):
    file = tmp_path / "schema.json"
    file.write_text('{"type": "integer"}')
    with pytest.raises(SchemaError, match="must refer to itself only"):
        JsonSchema({"type": "object", "properties": {"a": {"$ref": file.as_uri()}}})


def test_a_pattern_takes_linear_time():
    """One that cannot is refused: a reference to a group needs an engine that backtracks."""
    with pytest.raises(SchemaError):
        JsonSchema({"type": "object", "properties": {"a": {"pattern": r"^(a+)+\1$"}}})
    schema = JsonSchema({"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}}})
    began = time.process_time()
    (problem,) = schema.problems({"a": "a" * 50_000 + "!"}, "params")
    assert "must match the pattern ^(a+)+$" == problem.problem
    assert time.process_time() - began < 5  # a backtracking engine takes years


def test_very_many_wrong_fields_are_cut():
    schema = JsonSchema({"type": "object", "additionalProperties": {"type": "integer"}})
    found = schema.problems({f"f{n}": "x" for n in range(5000)}, "params")
    assert MAX_PROBLEMS + 1 == len(found)
    assert ("params", True) == (found[-1].field, "has more wrong fields" in found[-1].problem)


def test_numbers_and_recursion_of_any_size_are_answered():
    schema = JsonSchema({"type": "object", "properties": {"a": {"type": "integer", "maximum": 5}}})
    assert ["must be at most 5"] == [p.problem for p in schema.problems({"a": 10**400}, "params")]
    assert [] == schema.problems({"a": -(10**400)}, "params")
    endless = JsonSchema({"type": "object", "$ref": "#"})
    assert [] == endless.problems({"a": {"b": 1}}, "params")
    tree = {"$ref": "#/$defs/T", "$defs": {"T": {"properties": {"t": {"$ref": "#/$defs/T"}}}}}
    deep: dict[str, Any] = {}
    for _ in range(30):  # what strict_json allows
        deep = {"t": deep}
    assert [] == JsonSchema({"type": "object", **tree}).problems(deep, "params")


@pytest.mark.parametrize(
    ("schema", "value", "problems"),
    [
        ({"enum": ["a", 1, None]}, "x", {"p": 'must be one of "a", 1, null'}),
        ({"const": {"k": 1}}, 1, {"p": 'must be {"k": 1}'}),
        ({"multipleOf": 3}, 4, {"p": "must be a multiple of 3"}),
        ({"exclusiveMinimum": 1}, 1, {"p": "must be above 1"}),
        ({"minItems": 1}, [], {"p": "must have at least 1 item(s)"}),
        ({"uniqueItems": True}, [1, 1], {"p": "must not have an item twice"}),
        ({"maxProperties": 1}, {"a": 1, "b": 1}, {"p": "must have at most 1 field(s)"}),
        ({"properties": {"a": False}}, {"a": 1}, {"p.a": "is not allowed"}),
        ({"not": {"type": "null"}}, None, {"p": "does not match the schema's not"}),
        (
            {"propertyNames": {"maxLength": 3}},
            {"SECRET": 1},
            {"p": "has a field whose name the schema does not allow"},
        ),
        (
            {"oneOf": [{"type": "integer"}, {"minimum": 1}]},
            5,
            {"p": "matches several of the schemas of which one is allowed"},
        ),
        (
            {"anyOf": [{"type": "string"}, {"type": ["array", "null"]}]},
            5,
            {"p": "must be a string or an array or null"},
        ),
        (
            {  # a discriminated union
                "oneOf": [
                    {"properties": {"kind": {"const": "a"}, "n": {"type": "integer"}}},
                    {"properties": {"kind": {"const": "b"}}},
                ]
            },
            {"kind": "a", "n": "SECRET"},
            {"p.n": "must be an integer"},
        ),
        (
            {"anyOf": [{"items": {"type": "integer"}}, {"items": {"type": "string"}}]},
            [None],
            {"p": "matches none of the schemas that are allowed"},
        ),
        ({"type": "string", "format": "date-time"}, "soon", {}),  # pydantic checks it
    ],
)
def test_problems_are_sentences_without_values(
    schema: dict[str, Any], value: object, problems: dict[str, str]
):
    found = {each.field: each.problem for each in JsonSchema(schema).problems(value, "p")}
    assert problems == found


_PLAIN = """
import sys, time
from functions.submission.handler import Settings, build
from tests.support.aws import configure
from tests.support.aws import FUNCTION_ENVIRONMENT
from tests.support.memory import Memory
from tests.support.requests import Api
settings = configure(Settings)
api = Api(build(settings, Memory().cloud().clients, time.time))
for name in ("jsonschema_rs", "joblane.service.typed.admission", "joblane.aws.typed.types"):
    sys.modules.pop(name, None)  # the test support may have imported it
for body in {"command": ["true"]}, {"type": "sleep", "params": {"ms": 1}}:
    status, _ = api("POST", "/v1/jobs", body)
    print(status, "jsonschema_rs" in sys.modules)
"""


def test_a_command_is_submitted_without_the_validator():
    program = [sys.executable, "-W", "ignore", "-c", _PLAIN]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    printed = [line for line in done.stdout.splitlines() if line.startswith("202 ")]
    assert ["202 False", "202 True"] == printed, done.stderr
