"""The tables of the test deployment: their keys and indexes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from joblane.deployment.names import table_name

NAME = "joblane"


@dataclass(frozen=True)
class Index:
    """A global secondary index: the types of its keys by name, the partition's first."""

    keys: Mapping[str, str]
    whole: bool = False
    """Whether it has all attributes, in place of the keys only."""


@dataclass(frozen=True)
class Schema:
    """A table: the types of its keys by name, the partition's first, and its indexes."""

    keys: Mapping[str, str]
    indexes: Mapping[str, Index] = field(default_factory=dict)

    def definition(self) -> dict[str, Any]:
        """The parameters of CreateTable."""
        types = {**self.keys}
        for index in self.indexes.values():
            types |= index.keys
        definition: dict[str, Any] = {
            "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": _schema(self.keys),
            "AttributeDefinitions": [
                {"AttributeName": name, "AttributeType": kind} for name, kind in types.items()
            ],
        }
        if self.indexes:
            definition["GlobalSecondaryIndexes"] = [
                {
                    "IndexName": name,
                    "KeySchema": _schema(index.keys),
                    "Projection": {"ProjectionType": "ALL" if index.whole else "KEYS_ONLY"},
                }
                for name, index in self.indexes.items()
            ]
        return definition


def _schema(keys: Mapping[str, str]) -> list[dict[str, str]]:
    return [
        {"AttributeName": name, "KeyType": kind}
        for name, kind in zip(keys, ("HASH", "RANGE"), strict=False)
    ]


SCHEMAS = {
    table_name(NAME, "jobs"): Schema(
        {"job_id": "S", "sk": "S"},
        {
            "by_tenant": Index({"tenant": "S", "job_id": "S"}),
            "attention": Index({"attention": "S", "job_id": "S"}),
            "wake": Index({"wake": "S", "wake_at": "N"}),
        },
    ),
    table_name(NAME, "agents"): Schema({"shard": "S", "agent": "S"}),
    table_name(NAME, "conditions"): Schema({"condition": "S", "sk": "S"}),
    table_name(NAME, "settings"): Schema({"queue": "S"}),
    table_name(NAME, "counters"): Schema({"series": "S", "at_minute": "N"}),
    table_name(NAME, "keys"): Schema(
        {"key": "S"},
        {
            "by_type": Index({"type": "S", "key": "S"}),
            "waits": Index({"waits": "S", "look_at": "N"}),
        },
    ),
    table_name(NAME, "audit"): Schema(
        {"tenant": "S", "id": "S"}, {"by_job": Index({"job": "S", "id": "S"}, whole=True)}
    ),
    table_name(NAME, "output"): Schema({"stream": "S", "seq": "N"}),
    table_name(NAME, "types"): Schema({"type": "S"}),
}
