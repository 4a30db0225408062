"""What is wrong with a request: answers that are not successes, and the fields that they name."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from joblane.strict import printable

Model = TypeVar("Model", bound=BaseModel)


class FieldProblem(BaseModel):
    """One wrong field of a request."""

    model_config = ConfigDict(defer_build=True)

    field: str
    """Path to it, such as `retry.max_attempts` or `command.0`."""
    problem: str


class Problem(Exception):
    """An answer that is not a success, as RFC 9457 has it."""

    def __init__(
        self, status: HTTPStatus, detail: str, errors: Iterable[FieldProblem] = ()
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = tuple(errors)


def wrong(name: str, problem: str) -> Problem:
    """Make the problem of one wrong field or parameter: 400."""
    return Problem(
        HTTPStatus.BAD_REQUEST, f"{name} {problem}", [FieldProblem(field=name, problem=problem)]
    )


def invalid(error: ValidationError) -> Problem:
    """Make the problem of a request that is not what it should be: 400, each wrong field named."""
    problems = field_problems(error)
    detail = "; ".join(f"{p.field}: {p.problem}" for p in problems[:3])
    return Problem(HTTPStatus.BAD_REQUEST, detail, problems)


def parsed(model: type[Model], text: str) -> Model:
    """Read JSON that is known to be strict. Raises Problem 400 naming each wrong field."""
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise invalid(error) from None


def field_problems(error: ValidationError) -> list[FieldProblem]:
    """Turn a validation error into one line a field, without repeating any value.

    A list with a bad member also counts as too short; only the member is named.
    """
    entries = error.errors(include_url=False, include_input=False, include_context=True)
    places = [entry["loc"] for entry in entries]
    return [
        FieldProblem(field=_path(entry["loc"]), problem=_problem(entry))
        for entry in entries
        if not any(
            len(p) > len(entry["loc"]) and p[: len(entry["loc"])] == entry["loc"] for p in places
        )
    ]


def _path(place: tuple[str | int, ...]) -> str:
    return ".".join(printable(str(part)) for part in place if part != "[key]") or "body"


def _problem(entry: ErrorDetails) -> str:
    match entry["type"]:
        case "extra_forbidden":
            return "unknown field"
        case "missing":
            return "required"
        case "too_short":
            return f"must have at least {entry['ctx']['min_length']} item(s)"
        case "too_long":
            return f"must have at most {entry['ctx']['max_length']} item(s)"
    message = entry["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return message[:1].lower() + message[1:]
