"""Joins the records of a job's output to lines.

A record is a piece of a stream, as its agent read it: many lines, or a part of one. Pure.
"""

import base64
from collections.abc import Iterable, Iterator

from joblane.client.answers import LogEntry, LogRecord

MOST_BYTES = 1024 * 1024
"""Bytes of a line that are gathered; a longer line comes in parts."""


class LineJoiner:
    """Joins the records of one job, in their order.

    A line has the number and the time of the record that it begins in. Lines come in the order in
    which they end; stdout and stderr are joined apart.
    """

    def __init__(self) -> None:
        self._open: dict[str, tuple[LogRecord, bytes]] = {}
        """The unfinished line of each stream, and the record that it begins in."""
        self._last = 0, 0

    def lines(self, records: Iterable[LogRecord]) -> Iterator[LogRecord]:
        """Yield the lines that end in these records."""
        for record in records:
            attempt, seq = self._last
            if record.attempt != attempt or record.seq <= seq:  # of another claim
                yield from self.end()
            self._last = record.attempt, record.seq
            *ended, rest = record.data.split(b"\n")
            for piece in ended:
                yield from self._add(record, piece + b"\n")
            if rest:
                yield from self._add(record, rest)

    def end(self) -> Iterator[LogRecord]:
        """Yield the lines that did not end."""
        left, self._open = self._open, {}
        for first, data in sorted(left.values(), key=lambda line: line[0].seq):
            yield _line(first, data)

    def _add(self, record: LogRecord, piece: bytes) -> Iterator[LogRecord]:
        first, before = self._open.pop(record.stream, (record, b""))
        if before and len(before) + len(piece) > MOST_BYTES:
            yield _line(first, before)
            first, before = record, b""
        whole = before + piece
        if whole.endswith(b"\n"):
            yield _line(first, whole)
        else:
            self._open[record.stream] = first, whole


def _line(first: LogRecord, data: bytes) -> LogRecord:
    entry: LogEntry = {
        "attempt": first.attempt,
        "seq": first.seq,
        "stream": first.stream,
        "time": first.time,
    }
    try:
        entry["text"] = data.decode()
    except UnicodeDecodeError:
        entry["base64"] = base64.b64encode(data).decode()
    return LogRecord(first.attempt, first.seq, first.stream, first.time, data, entry)
