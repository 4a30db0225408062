"""Server-Sent Events, as the HTML standard has them (section 9.2): how they are written. Pure.

A field ends at the first line end of any kind, so data is JSON, which has none: bytes of a job
survive as they do in a page of its log, as text, or as base64 where they are not UTF-8.
"""

from joblane.head import Head
from joblane.job import LogEnd, LogRecord
from joblane.logs import Cursor

EVENT_STREAM = "text/event-stream"


def record_event(record: LogRecord, cursor: Cursor) -> str:
    """Write a record of output. Its id is where a reader goes on who has seen it."""
    return _event(cursor.encode(), record.model_dump_json(exclude_none=True))


def end_event(head: Head) -> str:
    """Write that nothing more will come, and how the job ended."""
    reason = head.timeline[-1].reason
    data = LogEnd(state=head.state, reason=reason, exit_code=head.exit_code)
    return "event: end\n" + _event(Cursor.past_end(head).encode(), data.model_dump_json())


def place(cursor: Cursor) -> str:
    """Say where to go on, without an event: a reader keeps the id and is told nothing."""
    return f"id: {cursor.encode()}\n\n"


def come_back(after_ms: int) -> str:
    """Say how long a reader is to wait before it asks again, once the answer has ended."""
    return f"retry: {after_ms}\n\n"


def _event(event_id: str, data: str) -> str:
    return f"id: {event_id}\ndata: {data}\n\n"
