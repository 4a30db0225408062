"""The log: one JSON object a line, each of them an event of a class of its own.

`events.py` and `state/events.py` define them, docs/PROTOCOL.md lists them. What a library has to
say comes out in the same form, as the event `library`.
"""

import json
import logging
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar, dataclass_transform

from joblane.times import rfc3339

INFO, WARNING, ERROR = logging.INFO, logging.WARNING, logging.ERROR


class Event:
    """Something worth telling: fields, and the level and the sentence that a class has."""

    level: ClassVar[int]
    sentence: ClassVar[str]
    """For a person; fields stand in braces."""

    @classmethod
    def name(cls) -> str:
        """Give the name in the log: `claim_failed` of ClaimFailed."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def values(self) -> dict[str, Any]:
        """Give the fields; an error as its words."""
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
    """Make a class of fields one of events."""

    def make(cls: type[E]) -> type[E]:
        made = dataclass(frozen=True, slots=True)(cls)
        made.level, made.sentence = level, sentence
        return made

    return make


def tell(said: Event, defect: BaseException | None = None) -> None:
    """Write an event to the log, with the trace of a defect of ours."""
    logging.getLogger("joblane").log(said.level, said, exc_info=defect)


class JsonLines(logging.Formatter):
    """Makes the lines."""

    def format(self, record: logging.LogRecord) -> str:
        """Render an event, or what a library said."""
        said: object = record.msg
        name, values = "library", {"logger": record.name}
        if isinstance(said, Event):
            name, values = said.name(), said.values()
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
    # It warns of each connection that it does not keep beyond those that a client may keep.
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
