"""Filters of queues: CEL expressions over the attributes of a submission.

The only file that imports cel_expr_python, so that the library can be replaced. It is loaded by
synthesis, and by the submission function when the first filter is evaluated; the wheels of the
client and of the agent leave it out (docs/decisions/1401).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cel_expr_python import cel

from joblane.errors import Failure
from joblane.queue.routing import VARIABLES, Kind, Value

MAX_FILTER_CHARS: Final = 2000
"""Longest expression; the library would take 100,000."""

_TYPES: Final[Mapping[Kind, Any]] = {
    "string": cel.Type.STRING,
    "bool": cel.Type.BOOL,
    "int": cel.Type.INT,
    "double": cel.Type.DOUBLE,
    "map(string, string)": cel.Type.Map(cel.Type.STRING, cel.Type.STRING),
}

_ENVIRONMENT: Final = cel.NewEnv(
    variables={name: _TYPES[variable.kind] for name, variable in VARIABLES.items()}
)

_MISTAKE = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): ([^\n]*)")
_STATUS = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")
_UNKNOWN_NAME = re.compile(r"undeclared reference to '(.*)' \(in container ''\)")
_UNEXPECTED = re.compile(r"(mismatched|extraneous) input ")
_OVERLOAD = re.compile(r"found no matching overload for '(.*)' applied to '(.*)'")


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong with an expression."""

    line: int
    """Line of the expression, from 1."""
    column: int
    """Column in that line, from 1, in characters."""
    problem: str
    """What is wrong, and what is allowed."""


class NotTrue(Failure):
    """An expression that could not be evaluated for a submission; the text says why."""


class CompiledFilter:
    """A filter that can be evaluated."""

    def __init__(self, expression: str) -> None:
        """Compile an expression. Raises ValueError for one that `find_mistake` refuses."""
        if (mistake := find_mistake(expression)) is not None:
            raise ValueError(mistake.problem)
        self._compiled = _ENVIRONMENT.compile(expression)

    def matches(self, attributes: Mapping[str, Value]) -> bool:
        """Whether the expression is true for these attributes, a value for each of `VARIABLES`.

        Raises NotTrue if it cannot be evaluated: a label is missing, or the evaluation takes more
        iterations than the library allows.
        """
        try:
            result = self._compiled.eval(data=dict(attributes))
        except RuntimeError as error:  # also of text that is not Unicode
            raise NotTrue(_plain(str(error))) from None
        value = result.value()
        if result.type() != cel.Type.BOOL:
            raise NotTrue(_plain(str(value)))
        return value is True


def find_mistake(expression: str) -> Mistake | None:
    """Return the first mistake of an expression; None if it can be a filter."""
    if not expression.strip():
        return Mistake(1, 1, "is empty")
    if (length := len(expression)) > MAX_FILTER_CHARS:
        return Mistake(1, 1, f"has {length} characters; {MAX_FILTER_CHARS} are allowed")
    try:
        compiled = _ENVIRONMENT.compile(expression)
    except RuntimeError as error:
        return _mistake(str(error))
    if (kind := compiled.return_type()) != cel.Type.BOOL:
        return Mistake(1, 1, f"is of the type {str(kind).lower()}; a filter is true or false: bool")
    return None


def _mistake(said: str) -> Mistake:
    """The first error of the library's, in one line."""
    if "recursion" in said:
        return Mistake(1, 1, "is nested too deeply: the library allows a depth of 32")
    found = _MISTAKE.search(said)
    if found is None:
        return Mistake(1, 1, _plain(said))
    line, column, problem = found.groups()
    return Mistake(max(1, int(line)), max(1, int(column)), _plain(problem))


def _plain(said: str) -> str:
    """An error of the library's without its status, and with what is allowed where it is known."""
    text = _STATUS.sub("", _STATUS.sub("", said.partition("\n")[0]))
    if (unknown := _UNKNOWN_NAME.search(text)) is not None:
        name = unknown.group(1)
        return f"{name!r} is unknown; the variables are {', '.join(VARIABLES)}"
    if (overload := _OVERLOAD.search(text)) is not None:
        operator, kinds = overload.groups()
        hint = "; write a decimal number with a point, as 1.0" if "double" in kinds else ""
        return f"{operator.replace('_', '')!r} does not take {kinds}{hint}"
    text = _UNEXPECTED.sub("unexpected ", text.partition(" expecting ")[0])
    text = text.replace("'<EOF>'", "end")
    return text[:1].lower() + text[1:]
