"""Problems: why requests are refused, and the wrong fields that they name."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from joblane.contract.models import View
from joblane.contract.strict_json import printable
from joblane.errors import Failure

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


class Problem(Failure):
    """A request that is refused; the text is for the caller.

    `joblane.http.statuses` has the status of each kind.
    """

    def __init__(
        self,
        detail: str,
        errors: Iterable[FieldProblem] = (),
        *,
        retry_after_s: int | None = None,
        members: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = tuple(errors)
        self.retry_after_s = retry_after_s
        """Seconds after which the request may succeed."""
        self.members = dict(members or {})
        """Further members of the answer."""


class Invalid(Problem):
    """Something in the request is wrong."""


class Forbidden(Problem):
    """The caller may not do this."""


class NotFound(Problem):
    """The tenant has no such thing."""


class Conflict(Problem):
    """The state of something does not allow it."""


class VersionChanged(Problem):
    """The caller named a version that is not the present one."""


class VersionMissing(Problem):
    """The caller has to name a version."""


class TooLarge(Problem):
    """The request is too large."""


class KeyReused(Problem):
    """The Idempotency-Key was used with another request."""


class LimitReached(Problem):
    """The tenant has reached one of its limits."""

    retryable = True


class TryAgain(Problem):
    """It was not done, or not all of it: the same request is to be sent again."""

    retryable = True


class Defect(Problem):
    """An error of Joblane itself."""


def wrong(name: str, problem: str) -> Problem:
    """Make the problem of one wrong field or parameter."""
    return Invalid(f"{name} {problem}", [FieldProblem(field=name, problem=problem)])


def invalid(error: ValidationError) -> Problem:
    """Make the problem of an invalid request, naming each wrong field."""
    problems = field_problems(error)
    detail = "; ".join(f"{p.field}: {p.problem}" for p in problems[:3])
    return Invalid(detail, problems)


def parse_model(model: type[Model], text: str) -> Model:
    """Validate JSON that `strict_json` has checked. Raises Invalid naming each wrong field."""
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


_TAGS = frozenset({"[key]", "[name]", "[number]", "[share]"})
"""Parts of a place that name no field: of a key of a map, and of the kinds of `concurrency` and of
`tolerate`."""


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
