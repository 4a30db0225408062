"""Encode Server-Sent Events (section 9.2 of the HTML standard).

A line break of any kind ends a field, so the data is JSON, which contains none. Output is text, or
base64 if it is not UTF-8, as in a page of logs.
"""

from joblane.contract.job import LogEnd
from joblane.job.head import Head
from joblane.job.output import Cursor, LogRecord

EVENT_STREAM = "text/event-stream"


def record_event(record: LogRecord, cursor: Cursor) -> str:
    """Encode a log record; its id is the position after it."""
    return _event(cursor.encode(), record.model_dump_json(exclude_none=True))


def end_event(head: Head) -> str:
    """Encode the end of the output and how the job ended."""
    reason = head.timeline[-1].reason
    data = LogEnd(state=head.state, reason=reason, exit_code=head.exit_code)
    return "event: end\n" + _event(Cursor.past_end(head).encode(), data.model_dump_json())


def position_event(cursor: Cursor) -> str:
    """Encode a position without a record; the reader keeps it as the last event id."""
    return f"id: {cursor.encode()}\n\n"


def reconnect_after(after_ms: int) -> str:
    """Encode the time after which the reader reconnects."""
    return f"retry: {after_ms}\n\n"


def _event(event_id: str, data: str) -> str:
    return f"id: {event_id}\ndata: {data}\n\n"
