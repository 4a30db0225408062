"""Validate params with the JSON Schema of a job type.

The only module that imports jsonschema_rs, which takes 60 ms and 15 MB: it is imported when a typed
job is submitted or a type is pushed, so that commands do not pay for it (docs/decisions/1311).

Problems say what is allowed and never repeat a value. Formats such as `date-time` are annotations,
as in JSON Schema by default: pydantic accepts more than they allow, and validates again.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from jsonschema_rs import (
    Draft202012Validator,
    ReferencingError,
    RegexOptions,
    ValidationError,
)
from jsonschema_rs import ValidationErrorKind as Kind

from joblane.contract.problems import FieldProblem
from joblane.contract.strict_json import printable
from joblane.service.typed.schemas import SchemaError
from joblane.typed.schema_paths import SchemaPaths, TooManyPaths, UnknownPlace

MAX_PROBLEMS: Final = 100
"""Problems that an answer names; one more says that there are others."""

_TOO_LONG: Final = (
    "is too large or nested too deeply: the schema of its type would be applied too often"
)

_SHOWN: Final = 200
"""Characters of a problem that repeats a part of the schema."""


class JsonSchema:
    """A JSON Schema (draft 2020-12) that refers to itself only."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Compile it. Raises SchemaError."""
        unknown = None
        try:
            self._paths = SchemaPaths(schema)
        except TooManyPaths as error:
            raise SchemaError(str(error)) from None  # to compile it may take as long
        except UnknownPlace as error:
            unknown = error  # what the library says of it is more
        try:
            self._validator = Draft202012Validator(
                dict(schema),
                validate_formats=False,
                retriever=_refuse,
                # Of linear time, whatever the pattern and the value are; without look-around.
                pattern_options=RegexOptions(),
                mask="value",
            )
        except ValidationError as error:
            place = _path("", error.instance_path)
            raise SchemaError(f"{place}: {error.message}" if place else error.message) from None
        except (ReferencingError, ValueError) as error:
            raise SchemaError(str(error)) from None
        if unknown is not None:
            raise SchemaError(str(unknown))

    def problems(self, value: object, place: str) -> list[FieldProblem]:
        """Return every wrong field of a value, whose own path is `place`."""
        if not self._paths.allow(value):
            return [FieldProblem(field=place, problem=_TOO_LONG)]
        errors = self._validator.iter_errors(value)
        found = list(islice(_problems(errors, place), MAX_PROBLEMS + 1))
        if len(found) > MAX_PROBLEMS:
            more = f"has more wrong fields; these are the first {MAX_PROBLEMS}"
            found[-1] = FieldProblem(field=place, problem=more)
        return found


def _refuse(uri: str) -> Any:
    raise ValueError(f"must refer to itself only, and not to {printable(uri)}")


def _problems(errors: Iterable[ValidationError], place: str) -> Iterator[FieldProblem]:
    for error in errors:
        where = _path(place, error.instance_path)
        match error.kind:
            case Kind.Required(name):
                yield FieldProblem(field=_path(where, [name]), problem="required")
            case Kind.AdditionalProperties(names) | Kind.UnevaluatedProperties(names):
                for name in names:
                    yield FieldProblem(field=_path(where, [name]), problem="unknown field")
            case Kind.AnyOf(branches) | Kind.OneOfNotValid(branches):
                yield from _of_branches(branches, where, place)
            case Kind.PropertyNames():
                problem = "has a field whose name the schema does not allow"
                yield FieldProblem(field=where, problem=problem)
            case kind:
                yield FieldProblem(field=where, problem=_message(kind))


def _of_branches(
    branches: Sequence[Sequence[ValidationError]], where: str, place: str
) -> Iterator[FieldProblem]:
    """Explain by the branch that was meant: the one of this type, or with this discriminator."""
    types: list[str] = []
    of_type: list[Sequence[ValidationError]] = []
    for errors in branches:
        wrong = [
            kind.types
            for error in errors
            if isinstance(kind := error.kind, Kind.Type)
            and _path(place, error.instance_path) == where
        ]
        if wrong:
            types += wrong[0]
        else:
            of_type.append(errors)
    meant = [
        errors
        for errors in of_type
        if not any(isinstance(error.kind, Kind.Constant | Kind.Enum) for error in errors)
    ]
    if len(of_type) == 1:
        meant = of_type
    if len(meant) == 1:
        yield from _problems(meant[0], place)
    elif of_type:
        yield FieldProblem(field=where, problem="matches none of the schemas that are allowed")
    else:
        yield FieldProblem(field=where, problem=_type(types))


_TEXTS: Final[Mapping[type[Kind], str]] = {
    Kind.Minimum: "must be at least {}",
    Kind.Maximum: "must be at most {}",
    Kind.ExclusiveMinimum: "must be above {}",
    Kind.ExclusiveMaximum: "must be below {}",
    Kind.MultipleOf: "must be a multiple of {}",
    Kind.MinLength: "must have at least {} character(s)",
    Kind.MaxLength: "must have at most {} character(s)",
    Kind.Pattern: "must match the pattern {}",
    Kind.MinItems: "must have at least {} item(s)",
    Kind.MaxItems: "must have at most {} item(s)",
    Kind.UniqueItems: "must not have an item twice",
    Kind.MinProperties: "must have at least {} field(s)",
    Kind.MaxProperties: "must have at most {} field(s)",
    Kind.OneOfMultipleValid: "matches several of the schemas of which one is allowed",
}
"""The problem for each keyword with a figure or none; `{}` is the schema's value."""


def _message(kind: Kind) -> str:
    match kind:
        case Kind.Type(types):
            text = _type(types)
        case Kind.Enum(options):
            text = f"must be one of {', '.join(map(_json, options))}"
        case Kind.Constant(value):
            text = f"must be {_json(value)}"
        case Kind.FalseSchema():
            text = "is not allowed"
        case _:
            text = _TEXTS.get(type(kind), "does not match the schema's {name}")
            text = text.format(kind.value, name=kind.name)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}\u2026"


def _type(types: Iterable[str]) -> str:
    """`must be an integer or null`."""
    named = [
        each if each == "null" else f"an {each}" if each[0] in "aio" else f"a {each}"
        for each in sorted(dict.fromkeys(types), key=lambda each: each == "null")
    ]
    return f"must be {' or '.join(named)}"


_json: Callable[[object], str] = json.JSONEncoder(ensure_ascii=False).encode


def _path(place: str, parts: Iterable[str | int]) -> str:
    return ".".join([*([place] if place else []), *(printable(str(part)) for part in parts)])
