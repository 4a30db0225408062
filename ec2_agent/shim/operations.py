"""The operations of a job's line: what each accepts and answers, and what is kept of it.

The job is not trusted: its text is checked before it is kept, and what is kept is bounded.
docs/reference/line-protocol.md has the operations for users.
"""

import json
import os

from ec2_agent.shim.masking import NO_SECRETS, Secrets
from joblane.state.result import MAX_RESULT_BYTES

TYPE_CHECKING = False  # see sandbox/wire.py
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MAX_LINE = MAX_RESULT_BYTES + 16
"""Bytes of one line without its newline: a result and what stands around it."""

MAX_DEPTH = 100
"""Arrays and objects within each other in a result. The API's JSON library takes 250."""

MESSAGE_CHARS = 200
"""Characters of a progress message."""

ERROR_CHARS = 160
"""Characters of an error, or of why a job is skipped, that are kept: those of a reason."""

OK = b'{"ok": true}\n'

STEP_CHARS = 60
"""Characters of the name of a step."""

MOST_COUNTED = 2**53 - 1
"""Largest `current` and `total`: whole numbers up to it are the same in every reader of JSON."""

_TAKES_TRUE = frozenset({"context", "heartbeat", "params", "stopping"})

NAMES = (
    "block",
    "context",
    "error",
    "heartbeat",
    "params",
    "progress",
    "result",
    "skip",
    "stopping",
)

PARTS = ("percent", "message", "step", "current", "total")
"""What a report of progress may have."""


class LineRequests:
    """Carries out the requests of one job, and keeps what it said last."""

    def __init__(
        self,
        check: "Callable[[str], object]",
        context: "dict[str, Any] | None" = None,
        params: int | None = None,
        secrets: Secrets = NO_SECRETS,
    ) -> None:
        """Prepare the answers; reads nothing yet.

        `check` raises ValueError for a condition that may not be named; its text is the answer.
        `params` is a descriptor of the JSON of a typed job's params, None for other jobs. What is
        kept of what the job says does not have its `secrets`.
        """
        self._secrets = secrets
        self._check = check
        self._context = context or {}
        self._params = params
        self.condition: str | None = None
        """The condition that the job named last."""
        self.result: str | None = None
        """The result that it gave last, as JSON in its shortest form."""
        self.error: str | None = None
        """What it said went wrong, in one line."""
        self.skip: str | None = None
        """Why it does not apply here, in one line."""
        self.progress: dict[str, Any] | None = None
        """`PARTS` as it reported them last."""
        self.progress_number = 0
        """Number of progress reports so far."""
        self.stopping: str | None = None
        """Why it was asked to stop: the first reason."""

    def carry_out(self, line: bytes | None, *, answered: bool = True) -> bytes:
        """Carry out one request and return the answer; None is a line that was too long.

        Without `answered` nobody reads answers any more, and long ones are not made.
        """
        try:
            name, value = _parse(line)
            if name in _TAKES_TRUE:
                return self._tell(name, value) if answered else OK
            self._keep(name, value)
        except ValueError as wrong:
            return json.dumps({"error": str(wrong)}).encode() + b"\n"
        return OK

    def _tell(self, name: str, value: object) -> bytes:
        """Answer a request that says nothing."""
        if value is not True:
            raise ValueError(f"{name}: must be true")
        match name:
            case "params":
                return self._params_answer()
            case "context":
                return json.dumps(self._context).encode() + b"\n"
            case "stopping":
                return json.dumps({"stopping": self.stopping}).encode() + b"\n"
            case _:
                return OK

    def _keep(self, name: str, value: object) -> None:
        """Keep what a request says."""
        match name:
            case "block":
                self._block(value)
            case "progress":
                self.progress = _progress(value, self._secrets)
                self.progress_number += 1
            case "result":
                self.result = _result(value, self._secrets)
            case "error":
                self.error = _text("error", value, self._secrets)[:ERROR_CHARS]
            case "skip":
                self.skip = _text("skip", value, self._secrets)[:ERROR_CHARS]

    def _block(self, condition: object) -> None:
        if not isinstance(condition, str):
            raise ValueError("block: must be a string, the name of a condition")  # noqa: TRY004 - an answer
        if self._secrets.mask(condition) != condition:
            raise ValueError("block: must not contain the value of a secret")
        self._check(condition)
        self.condition = condition

    def _params_answer(self) -> bytes:
        if self._params is None:
            raise ValueError("params: this job has none, because it has no type")
        size = os.fstat(self._params).st_size
        return b'{"params": ' + os.pread(self._params, size, 0) + b"}\n"


def _parse(line: bytes | None) -> "tuple[str, Any]":
    """Return the operation and its value; raises ValueError with the answer."""
    if line is None:
        raise ValueError(f"a line has at most {MAX_LINE} bytes, and a result {MAX_RESULT_BYTES}")
    try:
        said = json.loads(line.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise ValueError("a line is one JSON object in UTF-8")  # noqa: TRY004 - an answer
    if len(said) != 1 or (name := next(iter(said))) not in NAMES:
        raise ValueError(f"a line has one operation; known are {', '.join(NAMES)}")
    return name, said[name]


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _text(name: str, value: object, secrets: Secrets) -> str:
    """One line of text that can be shown and stored."""
    if not isinstance(value, str):
        raise ValueError(f"{name}: must be a string")  # noqa: TRY004 - an answer
    value = secrets.mask(value)
    text = " ".join("".join(c if c.isprintable() else " " for c in value).split())
    if not text:
        raise ValueError(f"{name}: must not be empty")
    return text


def _progress(value: object, secrets: Secrets) -> "dict[str, Any]":
    """All `PARTS`, None for those that were not said; `percent` follows from two of them."""
    if not isinstance(value, dict) or not value or value.keys() - set(PARTS):
        raise ValueError(f"progress: must be an object with some of {', '.join(PARTS)}")
    said: dict[str, Any] = {name: value.get(name) for name in PARTS}
    if all(part is None for part in said.values()):
        raise ValueError(f"progress: must have one of {', '.join(PARTS)}")
    for name, most in (("message", MESSAGE_CHARS), ("step", STEP_CHARS)):
        if isinstance(said[name], str) and len(said[name]) > most:
            raise ValueError(f"progress: {name} has at most {most} characters")
        if said[name] is not None:
            said[name] = _text(f"progress: {name}", said[name], secrets)
    percent = _percent(said["percent"], *_counted(said))
    said["percent"] = None if percent is None else round(float(percent), 2)
    return said


def _percent(percent: "Any", current: int | None, total: int | None) -> float | None:
    """What was said, else what follows from what was counted."""
    if percent is None:
        if current is None or total is None:
            return None
        return 100 * current / total if total else 100  # of a list without entries all is done
    is_number = isinstance(percent, int | float) and not isinstance(percent, bool)
    if not is_number or not 0 <= percent <= 100:
        raise ValueError("progress: percent must be a number from 0 to 100")
    return float(percent)


def _counted(said: "dict[str, Any]") -> "tuple[int | None, int | None]":
    """`current` and `total`."""
    for name in ("current", "total"):
        number = said[name]
        if number is not None and (type(number) is not int or not 0 <= number <= MOST_COUNTED):
            raise ValueError(f"progress: {name} must be a whole number from 0 to 2^53 - 1")
    current, total = said["current"], said["total"]
    if total is not None and (current is None or current > total):
        raise ValueError("progress: total needs a current that is not more than it")
    return current, total


def _result(value: object, secrets: Secrets) -> str:
    """A result in its shortest form, which every reader of JSON accepts.

    A lone surrogate, a number beyond a double's range and deep nesting are JSON, but not what
    the API can answer.
    """
    if _deeper(value, MAX_DEPTH):
        raise ValueError(f"result: is nested deeper than {MAX_DEPTH} levels")
    value = secrets.mask_json(value) if secrets else value
    try:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
    except ValueError:  # its text may repeat the value
        raise ValueError("result: has a number or a character that cannot be stored") from None
    if size > MAX_RESULT_BYTES:
        raise ValueError(f"result: has at most {MAX_RESULT_BYTES} bytes")
    return text


def _deeper(value: object, levels: int) -> bool:
    """Whether a JSON value is nested deeper than that."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return False
    return levels == 0 or any(_deeper(entry, levels - 1) for entry in value)
