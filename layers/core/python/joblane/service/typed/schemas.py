"""What validates params with a JSON Schema, as use cases need it.

`joblane.http.json_schema` does: its package is in the layer of the functions alone, which have
jsonschema_rs.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from joblane.contract.problems import FieldProblem


class SchemaError(ValueError):
    """A JSON Schema that cannot be used; the text says where and why."""


class Schema(Protocol):
    """A JSON Schema that can be used."""

    def problems(self, value: object, place: str) -> list[FieldProblem]:
        """Return every wrong field of a value, whose own path is `place`."""
        ...


Compile = Callable[[Mapping[str, Any]], Schema]
"""Makes a JSON Schema from its JSON. Raises SchemaError."""
