"""Options of `run` and `submit` that make a group: a target of several agents, or an array."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from joblane.client.calls import is_text
from joblane.client.cli.files.options import FileOptions
from joblane.client.cli.job.changeable import option_of
from joblane.client.cli.job.lines import read_lines, refuse_lines
from joblane.client.errors import InputError

if TYPE_CHECKING:
    from pydantic import ValidationError

OF_GROUPS = ("max_concurrency", "max_failures", "tolerate")

MAX_FILE_BYTES = 4_000_000
"""Longest file of values that is read; values take 262,144 bytes at most, blanks may be between."""

_ARRAY = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions(FileOptions):
    """Options that make many jobs of one submission."""

    array: Annotated[
        str | None,
        typer.Option(
            metavar="N|FIRST-LAST[:STEP]",
            help="Make N jobs with the indices 0 to N-1, or one for each index of a range, such as"
            " 1-99:2. Each has its own in JOBLANE_ARRAY_INDEX.",
        ),
    ] = None
    array_values: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            allow_dash=True,
            help="Make a job for each line, which is JSON: its value, in JOBLANE_ARRAY_VALUE; with"
            " --type its params. - reads standard input.",
        ),
    ] = None
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET",
            help="Which agents run the job: _any, _all, host:NAME, or KEY:VALUE of a label, such as"
            " group:web.dev. With _all or a label it runs on every agent that matches.",
        ),
    ] = None
    reply_timeout_s: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="With --target: time for an agent to start the job (default: 60).",
        ),
    ] = None
    max_concurrency: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Of an array, or a target of several agents: maximum number of jobs that run at"
            " once.",
        ),
    ] = None
    max_failures: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="With --max-concurrency: start no further jobs after more failures than this.",
        ),
    ] = None
    tolerate: Annotated[
        str | None,
        typer.Option(
            metavar="N|PERCENT",
            help="Of an array, or a target of several agents: so many jobs may fail, such as 3 or"
            " '5 %', and the whole is completed all the same.",
        ),
    ] = None

    @property
    def makes_array(self) -> bool:
        """Whether it is an array."""
        return self.array is not None or self.array_values is not None

    def group_fields(self) -> dict[str, Any]:
        """The fields of the submission, checked as the API does.

        Raises `InputError` and `typer.BadParameter`.
        """
        self._check_group()
        return {
            "array": self._array(),
            "target": self._target(),
            "tolerate": None if self.tolerate is None else _tolerance(self.tolerate),
        }

    def _check_group(self) -> None:
        if self.array is not None and self.array_values is not None:
            raise typer.BadParameter("--array and --array-values exclude each other")
        if self.makes_array and self.target is not None:
            raise typer.BadParameter("an array runs on any agents: leave --target out")
        if self.stdin and str(self.array_values) == "-":
            raise typer.BadParameter("--stdin and --array-values - both need standard input")
        if self.reply_timeout_s is not None and self.target is None:
            raise typer.BadParameter("--reply-timeout-s needs --target")
        for name in OF_GROUPS:
            if getattr(self, name) is not None and self.target is None and not self.makes_array:
                raise typer.BadParameter(f"{option_of(name)} needs --array or --target")

    def _array(self) -> dict[str, Any] | None:
        if self.array is not None:
            return _indices(self.array)
        return None if self.array_values is None else {"values": _read_values(self.array_values)}

    def _target(self) -> str | None:
        if self.target is None:
            return None
        from joblane.target.match import parse_target  # pydantic takes 0.2 s

        try:
            parse_target(self.target)
        except ValueError as error:
            raise InputError(f"--target {error}") from error
        return self.target


def _indices(text: str) -> dict[str, Any]:
    """The array of `100`, `0-99` or `1-99:2`. Raises `InputError`."""
    match = _ARRAY.fullmatch(text)
    if match is None:
        raise InputError(
            f"--array {text}: must be a number of jobs, such as 100, or indices, such as 0-99 or"
            " 1-99:2; --max-concurrency says how many run at once"
        )
    first, last, step = (None if part is None else int(part) for part in match.groups())
    if last is None:
        array: dict[str, Any] = {"size": first}
    else:
        array = {"first": first, "last": last} | ({} if step is None else {"step": step})
    for _, problem in _problems(array):
        raise InputError(f"--array {text}: {problem}")
    return array


def _tolerance(text: str) -> int | str:
    from pydantic import TypeAdapter, ValidationError  # pydantic takes 0.2 s

    from joblane.group.array import Tolerance

    given = int(text) if text.isascii() and text.isdigit() else text
    try:
        TypeAdapter(Tolerance).validate_python(given)
    except ValidationError as error:
        raise InputError(f"--tolerate {text}: {_messages(error)[0][1]}") from None
    return given


def _read_values(file: Path) -> list[Any]:
    """The values of a file, one a line. Raises `InputError`, which names the lines that are wrong.

    Empty lines are skipped.
    """
    from joblane.contract.strict_json import NotStrict, check  # for values only

    values, lines, wrong = list[Any](), list[int](), list[str]()
    given = list(read_lines("--array-values", file, MAX_FILE_BYTES))
    for number, text in given:
        try:
            check(text)
        except NotStrict as error:
            problem = str(error).replace(" at line 1 column", " at column")
            wrong.append(f"{file} line {number}: {problem}")
        else:
            values.append(json.loads(text))
            lines.append(number)
            if not is_text(text):
                wrong.append(f"{file} line {number}: is not UTF-8")
            elif not is_text(json.dumps(values[-1], ensure_ascii=False)):
                problem = "holds half of a surrogate pair, which is no character"
                wrong.append(f"{file} line {number}: {problem}")
    if not wrong and not values:
        raise InputError(f"{file} has no values: each line is one, as JSON; nothing was submitted")
    for index, problem in [] if wrong else _problems({"values": values}):
        where = str(file) if index is None else f"{file} line {lines[index]}"
        wrong.append(f"{where}: {problem}")
    if wrong:
        refuse_lines(wrong, len(given))
    return values


def _problems(array: dict[str, Any]) -> list[tuple[int | None, str]]:
    """What is wrong with an array: the index of a value, None if it is none, and the problem."""
    from pydantic import ValidationError  # pydantic takes 0.2 s

    from joblane.group.array import Array

    try:
        Array.model_validate_json(json.dumps(array))
    except ValidationError as error:
        return _messages(error)
    return []


def _messages(error: "ValidationError") -> list[tuple[int | None, str]]:
    from joblane.contract.problems import field_problems

    found: list[tuple[int | None, str]] = []
    for problem in field_problems(error):
        field, _, place = problem.field.partition(".")
        if place.isdigit():
            found.append((int(place), problem.problem))
        else:
            found.append((None, f"{'' if field == 'body' else f'{field} '}{problem.problem}"))
    return found
