"""Reading `--each FILE`: a job a line, all checked before any is sent.

A line is a submission as JSON (`{...}`), a command as JSON (`[...]`), or a command in words, quoted
as in a shell. Empty lines and lines that begin with `#` are skipped.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from joblane.client.calls import is_text
from joblane.client.cli.job.lines import read_lines, refuse_lines
from joblane.client.errors import InputError

MAX_FILE_BYTES = 200_000_000
MAX_JOBS = 100_000

MERGED = ("env", "secret_env", "labels", "resources", "retry")
"""Fields of which a line adds to what the options have; of all others it replaces it."""

STANDARD_INPUT = ("stdin", "stdin_file")
"""Fields of which a job has one."""

_OPERATOR = re.compile(r"[|&;<>()]+")

_QUOTED = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*\"""")


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job of the file."""

    number: int
    """Of the line, from 1."""
    submission: Mapping[str, Any]
    size: int
    """Bytes as JSON."""

    def with_files(self, fields: Mapping[str, Any]) -> "JobLine":
        """Add files that all lines have; what the line has itself counts."""
        has_input = any(self.submission.get(name) is not None for name in STANDARD_INPUT)
        added = {
            name: value
            for name, value in fields.items()
            if not (has_input and name in STANDARD_INPUT)
        }
        submission = {**added, **self.submission}
        size = len(json.dumps(submission, ensure_ascii=False).encode())
        return replace(self, submission=submission, size=size)


class WrongLineError(ValueError):
    """A line that is no job; the message says why."""


@dataclass(frozen=True, slots=True)
class Common:
    """What all lines have in common: the options of the command."""

    fields: Mapping[str, Any]
    command: Sequence[str]
    """Words before those of each line."""
    job_type: str | None
    """With a type, lines are its params."""


def read_jobs(file: Path, common: Common) -> list[JobLine]:
    """Read and check all jobs.

    Raises `InputError` after all wrong lines were shown, and `typer.BadParameter` for a file that
    cannot be read.
    """
    lines, wrong = [], list[str]()
    for number, text in _texts(file):
        try:
            lines.append(_check(number, _submission(text, common)))
        except WrongLineError as error:
            wrong.append(f"{file} line {number}: {error}")
    if wrong:
        refuse_lines(wrong, len(lines) + len(wrong))
    if not lines:
        raise InputError(f"{file} has no jobs: each line is a command, or a submission as JSON")
    if len(lines) > MAX_JOBS:
        raise InputError(f"{file} has more than {MAX_JOBS:,} jobs; nothing was submitted")
    return lines


def _texts(file: Path) -> Iterator[tuple[int, str]]:
    """The lines that have a job, with their numbers."""
    lines = read_lines("--each", file, MAX_FILE_BYTES)
    return ((number, text) for number, text in lines if not text.startswith("#"))


def _submission(text: str, common: Common) -> dict[str, Any]:
    """The submission of a line, with what the options have for all."""
    if not is_text(text):
        raise WrongLineError("is not UTF-8")
    own = _fields(text, common)
    both = {
        name: {**common.fields[name], **own[name]}
        for name in MERGED
        if isinstance(own.get(name), dict) and isinstance(common.fields.get(name), dict)
    }
    return {**common.fields, **own, **both}


def _fields(text: str, common: Common) -> dict[str, Any]:
    document = _document(text) if text[0] in "{[" else None
    if common.job_type is not None:
        if not isinstance(document, dict):
            raise WrongLineError("must be the params of the type, a JSON object")
        return {"type": common.job_type, "params": document}
    if isinstance(document, dict):
        if common.command and "command" not in document:
            return {"command": list(common.command), **document}
        return document
    if isinstance(document, list):
        return {"command": [*common.command, *document]}
    return {"command": [*common.command, *_words(text)]}


def _document(text: str) -> Any:
    from joblane.contract.strict_json import NotStrict, check  # for --each only

    try:
        check(text)
    except NotStrict as error:
        raise WrongLineError(str(error).replace(" at line 1 column", " at column")) from None
    return json.loads(text)


def _words(text: str) -> list[str]:
    """Split a command as a shell does; what only a shell can do is refused."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise WrongLineError(f"is not a command: {str(error).lower()}") from None
    operator = _OPERATOR.search(_QUOTED.sub(" ", text))
    if operator is not None:
        raise WrongLineError(
            f"has {operator[0]}, which only a shell understands: write sh -c '...', or quote it"
        )
    return words


def _check(number: int, submission: Mapping[str, Any]) -> JobLine:
    """Check a submission as the API does, but for what it alone knows."""
    from pydantic import ValidationError  # pydantic takes 0.2 s

    from joblane.contract.problems import field_problems
    from joblane.formats.times import unix_ms
    from joblane.job.spec import MAX_BODY_BYTES, Submission

    text = json.dumps(submission, ensure_ascii=False)
    try:
        spec = Submission.model_validate_json(text)
    except ValidationError as error:
        found = field_problems(error)
        raise WrongLineError("; ".join(f"{p.field}: {p.problem}" for p in found)) from None
    if spec.makes_group:
        field = "target: must name one agent" if spec.array is None else "array: not allowed"
        raise WrongLineError(f"{field} here; submit a group by itself")
    if spec.deadline is not None:
        now = datetime.now(UTC)
        if unix_ms(spec.deadline) <= now.timestamp() * 1000:
            raise WrongLineError(f"deadline: must be in the future; it is {now:%H:%M:%S} UTC now")
    size = len(text.encode())
    if size + 100 > MAX_BODY_BYTES:
        raise WrongLineError(f"has {size:,} bytes; a submission has {MAX_BODY_BYTES:,} at most")
    return JobLine(number, submission, size)
