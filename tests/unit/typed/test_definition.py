"""What a definition of a job type may be."""

import pytest
from pydantic import TypeAdapter, ValidationError

from joblane.job.fields import TypeName, json_bytes
from joblane.job.spec import JobFields
from joblane.typed.definition import (
    MAX_SCHEMA_BYTES,
    TypeDefaults,
    TypeDefinition,
)

DIGEST = "0" * 64

LEAST = {
    "params_schema": {"type": "object"},
    "entry": "sync.tickets:sync_tickets",
    "python": "3.11",
    "bundles": {"arm64": DIGEST},
}

WHOLE = LEAST | {
    "result_schema": {"type": "integer"},
    "description": "Copy tickets",
    "defaults": {
        "queue": "sync",
        "priority": "low",
        "timeout_s": 60,
        "heartbeat_timeout_s": 5,
        "retry": {"max_attempts": 2},
        "exit_codes": {"permanent": [2], "blocked": [3]},
        "resources": {"memory_mb": 64},
        "network": "egress",
        "restartable": False,
        "env": {"MODE": "full"},
    },
    "items": "/tickets",
    "key": {"segments": ["zendesk", "/origin", 7], "max_active": 2, "when_full": "coalesce"},
}


def _wrong(**members: object) -> list[str]:
    with pytest.raises(ValidationError) as refusal:
        TypeDefinition.model_validate_json(_json(LEAST | members))
    return [".".join(map(str, entry["loc"])) for entry in refusal.value.errors()]


def _json(value: object) -> bytes:
    return TypeAdapter(object).dump_json(value)


@pytest.mark.parametrize("given", [LEAST, WHOLE])
def test_a_definition_reads_back_as_it_was_written(given: dict[str, object]):
    definition = TypeDefinition.model_validate_json(_json(given))
    again = TypeDefinition.model_validate_json(definition.model_dump_json(exclude_defaults=True))
    assert definition == again
    assert given == again.model_dump(mode="json", exclude_defaults=True)


def test_each_default_is_a_field_of_a_submission_and_none_is_set_by_itself():
    counted = {"deadline_s"}  # of which a `deadline` is made
    assert TypeDefaults.model_fields.keys() - counted <= JobFields.model_fields.keys()
    assert {} == TypeDefaults().model_dump(exclude_defaults=True)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("entry", "sync.tickets"),
        ("entry", "sync-tickets:run"),
        ("entry", "sync.:run"),
        ("entry", "sync:run.again"),
        ("entry", "x" * 250 + ":run_it"),
        ("python", "3"),
        ("python", "2.7"),
        ("python", "3.10"),
        ("python", "3.11.4"),
        ("bundles", {}),
        ("bundles", {"riscv": DIGEST}),
        ("bundles", {"arm64": "A" * 64}),
        ("bundles", {"arm64": "../" + DIGEST}),
        ("params_schema", {"type": "array"}),
        ("params_schema", {}),
        ("params_schema", {"type": "object", "description": "x" * MAX_SCHEMA_BYTES}),
        ("result_schema", {"description": "x" * MAX_SCHEMA_BYTES}),
        ("params_schema", {"type": "object", "properties": {"a": {"$ref": "https://a.example/s"}}}),
        ("params_schema", {"type": "object", "anyOf": [{"$dynamicRef": "file:///etc/passwd"}]}),
        ("result_schema", {"$ref": "other.json#/a"}),
        ("items", ""),
        ("items", "tickets"),
        ("items", "/a~2"),
        ("items", "/" + "x" * 512),
        ("description", "x" * 1001),
        ("defaults", {"exit_codes": {"permanent": [65]}}),
        ("defaults", {"exit_codes": {"blocked": [2, 75]}}),
        ("key", {"segments": 5}),
        ("key", {"segments": []}),
        ("key", {"segments": ["/a~2"]}),
        ("key", {"segments": ["x" * 201]}),
        ("key", {"segments": [None]}),
        ("key", {"segments": ["a"], "max_active": 0}),
        ("key", {"segments": ["a"], "key": ["a"]}),
    ],
)
def test_a_definition_that_is_not_allowed_names_the_field(field: str, value: object):
    assert all(place.startswith(field) for place in _wrong(**{field: value}))


def test_a_schema_may_refer_to_itself_and_have_a_property_of_that_name():
    schema = {
        "type": "object",
        "properties": {"$ref": {"type": "string"}, "b": {"$ref": "#/$defs/B"}},
        "$defs": {"B": {"type": "integer"}},
    }
    given = TypeDefinition.model_validate_json(_json(LEAST | {"params_schema": schema}))
    assert schema == given.params_schema


@pytest.mark.parametrize("name", ["a", "sync-tickets", "sync_tickets2", "a" * 63])
def test_a_name_of_a_type(name: str):
    assert name == TypeAdapter(TypeName).validate_python(name)


@pytest.mark.parametrize(
    "name", ["", "Sync", "2sync", "a" * 64, "a.b", "a#1", "command", "policy.x", "a\n"]
)
def test_a_name_that_no_type_may_have(name: str):
    with pytest.raises(ValidationError):
        TypeAdapter(TypeName).validate_python(name)


def test_the_size_of_json_is_that_of_its_shortest_form_in_utf_8():
    assert len('{"ä":[1,"\\""]}'.encode()) == json_bytes({"ä": [1, '"']})
