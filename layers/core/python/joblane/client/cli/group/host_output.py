"""Output of the members of a group: each line with its agent's name, or its index, in front."""

import sys
from collections.abc import Iterable

from joblane.client.answers import LogRecord
from joblane.client.cli.text import terminal
from joblane.client.cli.text.escapes import TerminalText
from joblane.client.cli.text.formats import printable

LONGEST_LINE = 65_536
"""Bytes of a line that are kept until its end comes; a longer one is written as several."""


class HostOutput:
    """Writes the output of one member: its stdout to stdout, everything else to stderr.

    A line is written when it is complete, with `NAME | ` in front, also after a carriage return. A
    terminal gets other control characters escaped unless `raw`.
    """

    def __init__(self, name: str, *, raw: bool) -> None:
        prefix = f"{printable(name)} | "
        self._prefix = prefix.encode()
        self._streams = {
            stderr: _Stream(
                TerminalText(prefix) if terminal.is_terminal(stream) and not raw else None
            )
            for stderr, stream in ((False, sys.stdout), (True, sys.stderr))
        }

    def write(self, records: Iterable[LogRecord]) -> None:
        """Write the lines that these records complete."""
        for record in records:
            stderr = record.stream != "stdout"
            self._write(self._streams[stderr].lines(record.data), stderr=stderr)

    def end(self) -> None:
        """Write the last lines, which have no line end."""
        for stderr, stream in self._streams.items():
            self._write(stream.rest(), stderr=stderr)

    def _write(self, lines: list[bytes], *, stderr: bool) -> None:
        if lines:
            data = b"".join(self._prefix + line for line in lines)
            terminal.write(data, stderr=stderr)


class _Stream:
    """Splits a stream into lines."""

    def __init__(self, text: TerminalText | None) -> None:
        self._text = text
        self._parts: list[bytes] = []
        self._waiting = 0

    def lines(self, data: bytes) -> list[bytes]:
        *whole, rest = data.split(b"\n")
        found = []
        for line in whole:
            found.append(self._show(b"".join([*self._parts, line, b"\n"])))
            self._parts, self._waiting = [], 0
        if rest:
            self._parts.append(rest)
            self._waiting += len(rest)
        if self._waiting > LONGEST_LINE:
            found += self.rest()
        return found

    def rest(self) -> list[bytes]:
        return self.lines(b"\n") if self._parts else []

    def _show(self, line: bytes) -> bytes:
        return line if self._text is None else self._text.feed(line)
