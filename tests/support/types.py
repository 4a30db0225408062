"""Job types for tests."""

import json
from typing import Any

from joblane.audit.who import Who
from joblane.aws.typed.types import TypeStore
from joblane.typed.definition import TypeDefinition, TypeVersion
from tests.support.aws import DESCRIPTOR, Cloud

DIGEST = "0" * 64
WHO = Who("machine", "client-acme", "ci")

PARAMS = {
    "type": "object",
    "additionalProperties": False,
    "required": ["origin"],
    "properties": {
        "origin": {"type": "string", "minLength": 1},
        "tickets": {"type": "array", "items": {"type": "integer"}},
        "since": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]},
    },
}
"""Of a model with the fields origin: str, tickets: list[int], since: int | None."""


def described(**members: object) -> dict[str, Any]:
    """A definition as JSON, as `PUT /v1/types/{type}` takes it."""
    return {
        "entry": "sync.tickets:sync_tickets",
        "python": "3.11",
        "bundles": {"arm64": DIGEST},
        "params_schema": PARAMS,
        "items": "/tickets",
        **members,
    }


def definition(**members: object) -> TypeDefinition:
    return TypeDefinition.model_validate_json(json.dumps(described(**members)))


def type_store(aws: Cloud) -> TypeStore:
    return TypeStore(aws.clients.make("dynamodb"), DESCRIPTOR.types_table)


def store_type(
    aws: Cloud, name: str = "sync-tickets", tenant: str = "acme", **members: object
) -> TypeVersion:
    """Store a type's next version without checks."""
    store = type_store(aws)
    number = store.latest(tenant, name).version + 1
    version = TypeVersion(name, number, definition(**members), 1_795_226_929_000 + number, WHO)
    store.push(tenant, version)
    return version
