"""What a push means: which params are refused that were allowed, and which limits become lower."""

from typing import Any

import pytest
from pydantic import BaseModel, Field

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
            "memory_mb from 512 to 64",
        ),
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
