"""Fields of a dataclass, for its JSON form."""

from dataclasses import fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def fields_of(value: "DataclassInstance") -> dict[str, Any]:
    """Give the fields by name, with their values as they are: `asdict` copies them all."""
    return {field.name: getattr(value, field.name) for field in fields(value)}
