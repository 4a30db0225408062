"""Structured log: one JSON object a line, each an event of a class of its own.

`events.py` and `state/events.py` define them, docs/reference/agent-protocol.md lists them.
Messages of libraries have the same form, as the event `library`.
"""

import json
import logging
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar, dataclass_transform

from joblane.formats.times import rfc3339

INFO, WARNING, ERROR = logging.INFO, logging.WARNING, logging.ERROR


class Event:
    """A log event: its fields, and the level and the sentence of its class."""

    level: ClassVar[int]
    sentence: ClassVar[str]
    """The message; names of fields in braces."""

    @classmethod
    def name(cls) -> str:
        """Name in the log: `claim_failed` for ClaimFailed."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def values(self) -> dict[str, Any]:
        """Fields by name; an error as its text."""
        of_class: Any = self  # each one is a dataclass
        given = {field.name: getattr(self, field.name) for field in fields(of_class)}
        return {
            name: str(value) if isinstance(value, BaseException) else value
            for name, value in given.items()
        }

    def __str__(self) -> str:
        return self.sentence.format_map(self.values())


E = TypeVar("E", bound=Event)


@dataclass_transform(frozen_default=True)
def event(level: int, sentence: str) -> Callable[[type[E]], type[E]]:
    """Make a dataclass of an event's class; `sentence` is its message."""

    def make(cls: type[E]) -> type[E]:
        made = dataclass(frozen=True, slots=True)(cls)
        made.level, made.sentence = level, sentence
        return made

    return make


def log_event(logged: Event, bug: BaseException | None = None) -> None:
    """Write an event to the log, with the stack trace of `bug`."""
    logging.getLogger("joblane").log(logged.level, logged, exc_info=bug)


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Format an event, or a library's record."""
        logged: object = record.msg
        name, values = "library", {"logger": record.name}
        if isinstance(logged, Event):
            name, values = logged.name(), logged.values()
        line = {
            "time": rfc3339(int(record.created * 1000)),
            "level": record.levelname.lower(),
            "event": name,
            "message": record.getMessage(),
            **values,
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
