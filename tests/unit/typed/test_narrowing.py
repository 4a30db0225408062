"""What a push means: which params are refused that were allowed, and which limits become lower."""

from typing import Any

import pytest
from pydantic import BaseModel, Field

from joblane.typed import narrowing
from joblane.typed.changes import changes
from joblane.typed.narrowing import refused_by
from tests.support.types import definition

BASE: dict[str, Any] = {
    "type": "object",
    "properties": {"origin": {"type": "string"}, "pages": {"type": "integer", "minimum": 1}},
    "required": ["origin"],
}


def with_pages(**schema: Any) -> dict[str, Any]:
    return {**BASE, "properties": {**BASE["properties"], "pages": schema}}


@pytest.mark.parametrize(
    ("new", "refused"),
    [
        ({**BASE, "required": ["origin", "pages"]}, ("params.pages is required",)),
        ({**BASE, "required": []}, ()),
        (
            {**BASE, "additionalProperties": False, "properties": {"origin": {"type": "string"}}},
            ("params takes no other members", "params.pages is gone"),
        ),
        (with_pages(type="integer", minimum=2), ("params.pages has minimum 2",)),
        (with_pages(type="integer", minimum=0, title="Pages"), ()),
        (with_pages(type="integer", minimum=1, maximum=9), ("params.pages has maximum 9",)),
        (with_pages(type="number", minimum=1), ()),
        (with_pages(type="string"), ('params.pages no longer takes "integer"',)),
        (with_pages(anyOf=[{"type": "integer"}, {"type": "null"}]), ()),
        (
            with_pages(type="integer", minimum=1, multipleOf=2),
            ("params.pages has another multipleOf",),
        ),
        (with_pages(), ()),
    ],
)
def test_what_other_params_refuse(new: dict[str, Any], refused: tuple[str, ...]):
    assert refused == refused_by(BASE, new, "params")


class Page(BaseModel):
    """Params."""

    number: int


class OldParams(BaseModel):
    """Params."""

    pages: list[Page] = []
    mode: str | None = None


class NewPage(BaseModel):
    """Params."""

    number: int = Field(ge=1)


class NewParams(BaseModel):
    """Params."""

    pages: list[NewPage] = []
    mode: str = "all"


def test_models_are_compared_through_their_references():
    old, new = OldParams.model_json_schema(), NewParams.model_json_schema()
    expected = ('params.mode no longer takes {"type": "null"}',)
    assert {*expected, "params.pages[].number has minimum 1"} == {*refused_by(old, new, "params")}
    assert () == refused_by(old, old, "params")


def test_a_schema_that_refers_to_itself_is_compared_to_an_end():
    tree: dict[str, Any] = {
        "type": "object",
        "properties": {"left": {"$ref": "#"}, "deep": {"$ref": "#/properties/deep"}},
    }
    other = {**tree, "properties": {**tree["properties"], "value": {"type": "string"}}}
    assert () == refused_by(tree, other, "params")


REFERENCE = {"$ref": "#/$defs/X"}
NULL = {"type": "null"}


def with_member(member: dict[str, Any], **number: Any) -> dict[str, Any]:
    """Params with one member, which refers to an object with a number."""
    of_x = {"type": "object", "properties": {"n": {"type": "integer", **number}}}
    return {"properties": {"a": member}, "$defs": {"X": of_x}}


@pytest.mark.parametrize(
    ("member", "refused"),
    [
        ({"allOf": [REFERENCE]}, "params.a.n has maximum 3"),
        ({"prefixItems": [REFERENCE]}, "params.a[0].n has maximum 3"),
        ({"patternProperties": {"x": REFERENCE}}, "params.a has another patternProperties"),
        ({"oneOf": [REFERENCE, NULL]}, "params.a has another oneOf"),
        (
            {"oneOf": [REFERENCE, NULL], "discriminator": {"propertyName": "kind"}},
            'params.a no longer takes {"$ref": "#/$defs/X"}',
        ),
    ],
)
def test_references_count_wherever_they_stand(member: dict[str, Any], refused: str):
    assert (refused,) == refused_by(with_member(member), with_member(member, maximum=3), "params")
    if "has another" not in refused:  # what cannot be judged counts as refused
        assert () == refused_by(with_member(member), with_member(member, title="N"), "params")


def test_a_variant_more_refuses_nothing():
    kind = {"discriminator": {"propertyName": "kind"}}
    old, new = {"oneOf": [REFERENCE], **kind}, {"oneOf": [REFERENCE, NULL], **kind}
    assert () == refused_by(with_member(old), with_member(new), "params")
    assert refused_by(with_member(new), with_member(old), "params")


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        (
            {"type": "string"},
            {"anyOf": [{"type": "string"}, NULL], "maxLength": 5},
            "params.a has maxLength 5",
        ),
        (REFERENCE, {**REFERENCE, "maxProperties": 0}, "params.a has maxProperties 0"),
        (
            {"type": "string"},
            {"type": "string", "format": "date-time"},
            "params.a has another format",
        ),
    ],
)
def test_what_stands_beside_a_union_or_a_reference_counts(
    old: dict[str, Any], new: dict[str, Any], refused: str
):
    assert (refused,) == refused_by(with_member(old), with_member(new), "params")


def trees(branches: int, value: str, **root: Any) -> dict[str, Any]:
    """Params with a tree, whose nodes have so many nodes below them."""
    below = {f"c{n}": {"anyOf": [{"$ref": "#/$defs/Node"}, NULL]} for n in range(branches)}
    node = {"type": "object", "properties": {**below, "value": {"type": value}}}
    reference = {"tree": {"$ref": "#/$defs/Node"}}
    return {"type": "object", "properties": {**reference, **root}, "$defs": {"Node": node}}


def test_trees_are_compared_once():
    """Not 2 to the power of 25 times, which no function survives."""
    old = trees(2, "integer")
    assert () == refused_by(old, trees(2, "number", more={"type": "string"}), "params")
    refused = refused_by(old, trees(2, "string"), "params")
    assert ('params.tree.value no longer takes "integer"',) == refused


def test_what_has_too_many_combinations_counts_as_refused(monkeypatch: pytest.MonkeyPatch):
    old, new = trees(2, "integer"), trees(2, "number")
    assert () == refused_by(old, new, "params")
    monkeypatch.setattr(narrowing, "MOST_COMPARED", 3)
    assert "too many schemas" in refused_by(old, new, "params")[-1]


@pytest.mark.parametrize(
    ("before", "after", "kind", "why"),
    [
        ({}, {"retry": {"max_attempts": 1}}, "narrows", "max_attempts from 3 to 1"),
        ({"retry": {"max_attempts": 1}}, {}, "update", None),
        ({}, {"timeout_s": 60}, "narrows", "timeout_s from 600 to 60"),
        ({"timeout_s": 60}, {}, "update", None),
        ({}, {"heartbeat_timeout_s": 9}, "narrows", "heartbeat_timeout_s from no limit to 9"),
        ({"heartbeat_timeout_s": 9}, {}, "update", None),
        ({"deadline_s": 90}, {"deadline_s": 60}, "narrows", "deadline_s from 90 to 60"),
        ({"network": "egress"}, {}, "narrows", "network from egress to none"),
        ({}, {"network": "egress"}, "update", None),
        ({}, {"restartable": False}, "narrows", "restartable from True to False"),
        (
            {"resources": {"memory_mb": 512}},
            {"resources": {"memory_mb": 64}},
            "narrows",
            "memory_mb from 512 to 64; tmp_mb from 256 to 32",
        ),
        ({}, {"resources": {"memory_mb": 1024}}, "update", None),
        (
            {},
            {"resources": {"memory_mb": 511, "tmp_mb": 256}},
            "narrows",
            "memory_mb from 512 to 511",
        ),
        ({"resources": {"memory_mb": 4096}}, {}, "narrows", "memory_mb from 4096 to 512"),
        ({"resources": {"pids": 2000}}, {"resources": {}}, "narrows", "pids from 2000 to 1024"),
        ({}, {"resources": {"disk_mb": 9}}, "update", None),
        ({"resources": {"disk_mb": 9}}, {}, "narrows", "disk_mb from 9 to 0"),
        ({}, {"resources": {"cpus": 2}}, "narrows", "cpus from no limit to 2"),
        ({"resources": {"cpus": 2}}, {}, "update", None),
        ({}, {"resources": {"cores": "0-1"}}, "update", None),
        ({}, {"queue": "bulk"}, "update", None),
    ],
)
def test_what_other_defaults_mean(
    before: dict[str, Any], after: dict[str, Any], kind: str, why: str | None
):
    (change,) = changes(definition(defaults=before), definition(defaults=after))
    assert (kind, why) == (change.kind, change.why)
    assert change.field.startswith("defaults.")


def test_what_other_limits_of_a_key_mean():
    old = definition(key={"segments": ["a"], "max_active": 2, "max_queued": 5})
    new = definition(key={"segments": ["a"], "max_active": 1, "max_queued": 6})
    expected = [("key.max_active", "narrows"), ("key.max_queued", "update")]
    assert expected == [(change.field, change.kind) for change in changes(old, new)]
    (gone,) = changes(old, definition())
    assert ("key", "needs-empty-key") == (gone.field, gone.kind)


def test_true_and_one_are_other_segments():
    """Python takes them for equal, and so the push for one that changes nothing."""
    old, new = (definition(key={"segments": ["a", segment]}) for segment in (1, True))
    assert [("key.segments", "needs-empty-key")] == [(c.field, c.kind) for c in changes(old, new)]
    assert () == changes(old, definition(key={"segments": ["a", 1.0]}))


def test_a_first_key_narrows_and_so_does_what_a_full_key_refuses():
    old, new = definition(), definition(key={"segments": ["a"], "max_active": 2})
    assert [
        ("key", "needs-empty-key", "jobs have a key"),
        ("key.max_active", "narrows", "max_active from no limit to 2"),
    ] == list(changes(old, new))
    coalesces = definition(key={"segments": ["a"], "max_active": 2, "when_full": "coalesce"})
    assert [("key.when_full", "narrows", "when_full from coalesce to reject")] == list(
        changes(coalesces, new)
    )
    assert [("key.when_full", "update", None)] == list(changes(new, coalesces))
