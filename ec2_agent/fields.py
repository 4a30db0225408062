"""Fields of a dataclass, for its JSON form, and back."""

from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from _typeshed import DataclassInstance


def fields_of(value: "DataclassInstance") -> dict[str, Any]:
    """Give the fields by name, with their values as they are: `asdict` copies them all."""
    return {name: getattr(value, name) for name in _names(type(value))}


def pick_known(kind: "type[DataclassInstance]", values: "Mapping[str, Any]") -> dict[str, Any]:
    """Give those of the values that are fields: a stored form may come from another version."""
    return {name: values[name] for name in _names(kind) if name in values}


@cache
def _names(kind: "type[DataclassInstance]") -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))
