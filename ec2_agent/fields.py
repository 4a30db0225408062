"""Fields of a dataclass, for its JSON form."""

from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def fields_of(value: "DataclassInstance") -> dict[str, Any]:
    """Give the fields by name, with their values as they are: `asdict` copies them all."""
    return {name: getattr(value, name) for name in _names(type(value))}


@cache
def _names(kind: "type[DataclassInstance]") -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))
