"""Problems: error answers, and the wrong fields that they name."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from joblane.contract.models import View
from joblane.contract.strict_json import printable

Model = TypeVar("Model", bound=BaseModel)

CHANGED = "it has changed since you read it; read it again and decide again"
"""Detail of 412. Not beside the refusals of operations: `status` has none, and starts without
them."""


class FieldProblem(View):
    """One wrong field of a request."""

    field: str
    """Path to it, such as `retry.max_attempts` or `command.0`."""
    problem: str
    """What is wrong with it, and what is allowed."""


class Problem(Exception):
    """An error answer (RFC 9457)."""

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        errors: Iterable[FieldProblem] = (),
        *,
        retry_after_s: int | None = None,
        members: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = tuple(errors)
        self.retry_after_s = retry_after_s
        """Seconds after which the request may succeed, for the header Retry-After."""
        self.members = dict(members or {})
        """Further members of the document."""


def wrong(name: str, problem: str) -> Problem:
    """Make the problem of one wrong field or parameter: 400."""
    return Problem(
        HTTPStatus.BAD_REQUEST, f"{name} {problem}", [FieldProblem(field=name, problem=problem)]
    )


def invalid(error: ValidationError) -> Problem:
    """Make the problem of an invalid request: 400, naming each wrong field."""
    problems = field_problems(error)
    detail = "; ".join(f"{p.field}: {p.problem}" for p in problems[:3])
    return Problem(HTTPStatus.BAD_REQUEST, detail, problems)


def parsed(model: type[Model], text: str) -> Model:
    """Validate JSON that `strict_json` has checked. Raises Problem 400 naming each wrong field."""
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise invalid(error) from None


def field_problems(error: ValidationError) -> list[FieldProblem]:
    """Turn a validation error into one problem a field, without repeating any value.

    A list with an invalid member also counts as too short; only the member is named.
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


_TAGS = frozenset({"[key]", "[name]"})
"""Parts of a place that name no field: of a key of a map, and of the kinds of `concurrency`."""


def _path(place: tuple[str | int, ...]) -> str:
    return ".".join(printable(str(part)) for part in place if part not in _TAGS) or "body"


def _problem(entry: Mapping[str, Any]) -> str:
    match entry["type"]:
        case "extra_forbidden":
            return "unknown field"
        case "missing":
            return "required"
        case "too_short":
            return f"must have at least {entry['ctx']['min_length']} item(s)"
        case "too_long":
            return f"must have at most {entry['ctx']['max_length']} item(s)"
        case "value_error":  # our own text, which may begin with a name of the caller
            return str(entry["ctx"]["error"])
    message = str(entry["msg"]).removeprefix("Input ")
    return message[:1].lower() + message[1:]
