"""A small EventSource: reads `text/event-stream` as the HTML standard says (section 9.2.6)."""

import base64
import re
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Event:
    """One event as a listener gets it."""

    type: str
    data: str
    id: str


@dataclass
class EventSource:
    """What an EventSource keeps over its connections."""

    last_event_id: str = ""
    retry_ms: int = 3000
    events: list[Event] = field(default_factory=list)

    def feed(self, body: bytes) -> list[Event]:
        """Read one answer to its end; returns the events in it. What is unfinished is lost."""
        new: list[Event] = []
        kind, data = "", list[str]()
        last_id = self.last_event_id
        text = body.decode("utf-8", "replace").removeprefix("\ufeff")
        *lines, _unfinished = re.split("\r\n|\n|\r", text)
        for line in lines:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if not line:
                self.last_event_id = last_id
                if data:
                    new.append(Event(kind or "message", "\n".join(data), last_id))
                kind, data = "", []
            elif name == "event":
                kind = value
            elif name == "data":
                data.append(value)
            elif name == "id" and "\0" not in value:
                last_id = value
            elif name == "retry" and re.fullmatch("[0-9]+", value):
                self.retry_ms = int(value)
        self.events += new
        return new


def data_of(record: dict[str, Any]) -> bytes:
    """The bytes of a record of output."""
    if "base64" in record:
        return base64.b64decode(record["base64"], validate=True)
    text: str = record["text"]
    return text.encode()
