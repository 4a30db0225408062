"""Structured log: one JSON object a line, each an event that is declared as a function.

`events.py` and `state/events.py` declare them, docs/reference/agent-protocol.md lists them.
Messages of libraries have the same form, as the event `library`.
"""

import inspect
import json
import logging
import sys
from collections.abc import Callable
from itertools import chain
from typing import Generic, ParamSpec

from joblane.formats.times import rfc3339

INFO, WARNING, ERROR = logging.INFO, logging.WARNING, logging.ERROR

DEFECT = "defect"
"""A parameter of this name is written as a stack trace and not as a field."""

JOB = "job"
"""A parameter of this name, a `Traced` or None, is written as the fields `JOB_FIELDS`."""

JOB_FIELDS = ("job_id", "trace_id")

LOGGER = "joblane"
"""Name of the logger that events go to."""

P = ParamSpec("P")


class Event(Generic[P]):
    """A log event; calling it with its fields writes it."""

    def __init__(self, level: int, sentence: str, declared: Callable[P, None]) -> None:
        """`sentence` is the message, with names of fields in braces."""
        self.level = level
        self.sentence = sentence
        self.name = declared.__name__
        self.meaning = inspect.cleandoc(declared.__doc__ or "")
        self._signature = inspect.signature(declared)
        self._parameters = tuple(self._signature.parameters)
        self._logger = logging.getLogger(LOGGER)

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields."""
        names = (name for name in self._signature.parameters if name != DEFECT)
        return tuple(chain.from_iterable(JOB_FIELDS if n == JOB else (n,) for n in names))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Write the event to the log; an error is written as its text."""
        if not self._logger.isEnabledFor(self.level):
            return
        if kwargs or len(args) != len(self._parameters):  # the latter raises
            given = self._signature.bind(*args, **kwargs).arguments
        else:
            given = dict(zip(self._parameters, args, strict=True))
        defect, job = given.pop(DEFECT, None), given.pop(JOB, None)
        about = {} if job is None else {name: getattr(job, name) for name in JOB_FIELDS}
        values = about | {
            name: str(value) if isinstance(value, BaseException) else value
            for name, value in given.items()
        }
        trace = None if defect is None else (type(defect), defect, defect.__traceback__)
        text = self.sentence.format_map(values)
        # Made here: `Logger.log` would look for the line of code that calls it, which no line has.
        record = logging.LogRecord(LOGGER, self.level, "", 0, text, None, trace)
        record.__dict__.update(event=self.name, values=values)
        self._logger.handle(record)


def event(level: int, sentence: str) -> Callable[[Callable[P, None]], Event[P]]:
    """Declare an event by a function without a body: its parameters are the event's fields."""
    return lambda declared: Event(level, sentence, declared)


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Format an event, or a library's record."""
        line = {
            "time": rfc3339(int(record.created * 1000)),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", "library"),
            "message": record.getMessage(),
            **getattr(record, "values", {"logger": record.name}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line)


def begin_log() -> None:
    """Send this process's log to standard error, from level `info` on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("botocore").setLevel(logging.WARNING)
    # It warns of every connection above the pool's size, which is closed after use.
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
