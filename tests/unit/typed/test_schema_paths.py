"""How often a JSON Schema is applied: bounded when a type is pushed, and for each value."""

import time
from typing import Any

import pytest
from pydantic import BaseModel, create_model

from joblane.http.json_schema import JsonSchema
from joblane.service.typed.schemas import SchemaError
from joblane.typed.built_in import built_in_types
from joblane.typed.schema_paths import MAX_PATHS, STEPS, SchemaPaths, UnknownPlace

CPU_S = 20.0
"""The longest that anything here may take: without a bound it is minutes to years."""


def chain(keyword: str, length: int = 60) -> dict[str, Any]:
    """Definitions that each apply the one before twice; 4 KB."""
    parts = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n - 1}"}] * 2} for n in range(1, length)}
    return {
        "type": "object",
        "$defs": {"d0": {"maxProperties": 100}, **parts},
        "$ref": f"#/$defs/d{length - 1}",
    }


def levels(length: int = 20) -> dict[str, Any]:
    """The same by levels of the value: each doubles what is applied to the next."""
    parts = {
        f"d{n}": {"allOf": [{"properties": {"a": {"$ref": f"#/$defs/d{n - 1}"}}}] * 2}
        for n in range(1, length)
    }
    return {"type": "object", "$defs": {"d0": {}, **parts}, "$ref": f"#/$defs/d{length - 1}"}


@pytest.mark.parametrize(
    "schema",
    [chain("allOf"), chain("anyOf"), chain("oneOf"), levels()],
    ids=["allOf", "anyOf", "oneOf", "levels"],
)
def test_a_schema_with_very_many_paths_is_refused_with_the_place(schema: dict[str, Any]):
    began = time.process_time()
    with pytest.raises(SchemaError, match=rf"\$defs\.d\d+.*too many paths.* {MAX_PATHS}"):
        JsonSchema(schema)
    assert time.process_time() - began < CPU_S


def test_as_many_as_are_allowed_are_followed_in_time():
    schema = JsonSchema(chain("anyOf", 12))
    began = time.process_time()
    assert [] == schema.problems({"a": 1}, "params")
    assert [] != schema.problems(dict.fromkeys(map(str, range(101))), "params")
    assert time.process_time() - began < CPU_S


BRANCHES = 8

FORK: dict[str, Any] = {
    "type": "object",
    "$defs": {
        "T": {
            "anyOf": [
                {"properties": {"t": {"$ref": "#/$defs/T"}, "n": {"const": n}}}
                for n in range(BRANCHES)
            ]
        }
    },
    "properties": {"t": {"$ref": "#/$defs/T"}},
}
"""Each level of a value is looked at eight times as often as the one above it."""


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {"n": -1}
    for _ in range(depth):
        value = {"t": value}
    return value


def test_a_definition_that_refers_to_itself_is_followed_as_deep_as_time_allows():
    schema = JsonSchema(FORK)
    assert [] != schema.problems(nested(3), "params")
    began = time.process_time()
    (problem,) = schema.problems(nested(25), "params")
    assert ("params", True) == (problem.field, "nested too deeply" in problem.problem)
    assert time.process_time() - began < CPU_S


def test_a_large_value_of_a_costly_schema_is_refused():
    each = {**chain("allOf", 12), "type": ["object", "integer"]}
    schema = JsonSchema(
        {
            "type": "object",
            "$defs": each["$defs"],
            "properties": {"a": {"items": {"$ref": each["$ref"]}}},
        }
    )
    began = time.process_time()
    assert [] == schema.problems({"a": [1] * 1000}, "params")
    (problem,) = schema.problems({"a": [1] * 60_000}, "params")
    assert "too large" in problem.problem
    assert time.process_time() - began < CPU_S


class Leaf(BaseModel):
    """A part of a tree."""

    kind: str
    values: list[int] = []


class Tree(BaseModel):
    """One that refers to itself twice."""

    left: "Tree | Leaf | None" = None
    right: "Tree | Leaf | None" = None


def test_what_people_write_is_far_from_the_bounds():
    many = create_model("Many", **{f"f{n}": (Leaf | None, None) for n in range(100)})  # type: ignore[call-overload]
    for model in (Leaf, Tree, many):
        paths = SchemaPaths(model.model_json_schema())
        assert paths.count < MAX_PATHS / 10
    deep: dict[str, Any] = {"left": None}
    for _ in range(28):
        deep = {"left": deep, "right": {"kind": "a", "values": [1, 2]}}
    assert SchemaPaths(Tree.model_json_schema()).allow(deep)
    flat = {f"f{n}": {"kind": "a", "values": list(range(1000))} for n in range(100)}
    assert SchemaPaths(many.model_json_schema()).allow(flat)
    for built_in in built_in_types().values():
        assert SchemaPaths(built_in.contract.params_schema).count < STEPS


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"$ref": "other.json#/a"}, r"\$ref: must begin with #"),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, r"properties.a.\$ref: refers to nothing"),
        ({"items": {"$ref": "#none"}}, r"items.\$ref: there is no such anchor"),
        ({"properties": {"a": {"$id": "b"}}}, r"properties.a.\$id: is allowed at the top only"),
    ],
)
def test_a_reference_that_is_not_followed_is_named(schema: dict[str, Any], why: str):
    with pytest.raises(UnknownPlace, match=why):
        SchemaPaths(schema)


def test_every_kind_of_reference_is_followed():
    schema = {
        "$defs": {"a b/c~d": {"$ref": "#deep"}, "x": [{"$anchor": "deep", "not": {"$ref": "#"}}]},
        "prefixItems": [{"$ref": "#/$defs/a%20b~1c~0d"}],
        "dependentSchemas": {"k": {"$dynamicRef": "#/$defs/x/0"}},
    }
    paths = SchemaPaths(schema)
    # itself; an item, four on its way back to itself; four on the way of a dependent schema
    assert (True, 10) == (paths.recursive, paths.count)
