"""Structured log: one JSON object a line, each an event that is declared as a function.

`events.py` and `state/events.py` declare them, docs/reference/agent-protocol.md lists them.
`standard.py` writes them through Python's logging, as the messages of libraries; the state service,
which has none, writes its own with `plain.py` and does not import `logging`.
"""

from typing import TYPE_CHECKING, Generic, ParamSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Write = Callable[[int, str, str, Mapping[str, Any], BaseException | None], None]
    """Writes an event: level, name, message, fields, the error whose stack trace it has."""

DEBUG, INFO, WARNING, ERROR = 10, 20, 30, 40
"""As in `logging`."""

DEFECT = "defect"
"""A parameter of this name is written as a stack trace and not as a field."""

JOB = "job"
"""A parameter of this name, a `Traced` or None, is written as the fields `JOB_FIELDS`."""

JOB_FIELDS = ("job_id", "trace_id")

P = ParamSpec("P")


class Event(Generic[P]):
    """A log event; calling it with its fields writes it."""

    def __init__(self, level: int, sentence: str, declared: "Callable[P, None]") -> None:
        """`sentence` is the message, with names of fields in braces."""
        self.level = level
        self.sentence = sentence
        self.name = declared.__name__
        self.meaning = declared.__doc__ or ""
        self._declared = declared
        code = declared.__code__
        self._parameters = code.co_varnames[: code.co_argcount]

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields."""
        found: list[str] = []
        for name in self._parameters:
            found += JOB_FIELDS if name == JOB else () if name == DEFECT else (name,)
        return tuple(found)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Write the event to the log; an error is written as its text."""
        if self.level < _least:
            return
        self._declared(*args, **kwargs)  # which does nothing, or raises TypeError
        given: dict[str, Any] = {**dict(zip(self._parameters, args, strict=False)), **kwargs}
        defect, job = given.pop(DEFECT, None), given.pop(JOB, None)
        about = {} if job is None else {name: getattr(job, name) for name in JOB_FIELDS}
        values = about | {
            name: str(value) if isinstance(value, BaseException) else value
            for name, value in given.items()
        }
        _write(self.level, self.name, self.sentence.format_map(values), values, defect)


def event(level: int, sentence: str) -> "Callable[[Callable[P, None]], Event[P]]":
    """Declare an event by a function without a body: its parameters are the event's fields."""
    return lambda declared: Event(level, sentence, declared)


def _standard(
    level: int, name: str, text: str, values: "Mapping[str, Any]", defect: BaseException | None
) -> None:
    from ec2_agent.logging import standard  # 2 MB, see above

    standard.write(level, name, text, values, defect)


_write: "Write" = _standard


_least = INFO


def write_from(level: int) -> None:
    """Have events of this process written from a level on; errors always are."""
    global _least  # noqa: PLW0603 - a process has one log
    _least = min(level, ERROR)


def write_with(write: "Write") -> None:
    """Have the events of this process written by a function."""
    global _write  # noqa: PLW0603 - a process has one log
    _write = write
