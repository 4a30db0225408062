"""The output of attempts in a deployment in memory."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from typing import Any, Final

from joblane.aws.job.output_store import OutputStore
from joblane.formats.levels import Level
from joblane.handler.levels import MARK
from joblane.job.chunk import CHUNK_BYTES, Chunk
from joblane.job.head import Head
from joblane.job.output import OutputRecord, Stream, stream_name

RECORD_BYTES: Final = 32 * 1024
"""Bytes of the longest record; a longer line is several."""

_LEVELS: Final[dict[str, Level]] = {
    "2": "critical",
    "3": "error",
    "4": "warning",
    "6": "info",
    "7": "debug",
}
"""By the digit after a `MARK` (`joblane.handler.levels`)."""

_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+")

_MARKED: Final = re.compile(f"{MARK}([{''.join(_LEVELS)}])")


@dataclass
class Output:
    """What an attempt has written."""

    clock: Callable[[], float]
    records: list[OutputRecord] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes of all records."""
        return sum(len(record.data) for record in self.records)

    def add(self, stream: Stream, text: str, level: Level | None = None) -> None:
        """Add lines of one level."""
        for line in _LINES.findall(text):
            data = line.encode(errors="surrogateescape")
            for begin in range(0, len(data), RECORD_BYTES):
                part = data[begin : begin + RECORD_BYTES]
                seq, at_ms = len(self.records) + 1, int(self.clock() * 1000)
                self.records.append(OutputRecord(seq, stream, at_ms, part, level))

    def write(self, store: OutputStore, head: Head) -> None:
        """Store it as that of the job's present claim."""
        stream = stream_name(head.tenant, head.job_id, head.epoch)
        for records in _chunks(self.records):
            store.write(stream, Chunk.of(records))

    @contextmanager
    def capture(self) -> Iterator[None]:
        """Note what is printed; it is shown where it would be shown otherwise, without marks."""
        out, err = _Tee(sys.stdout, "stdout", self), _Tee(sys.stderr, "stderr", self)
        with redirect_stdout(out), redirect_stderr(err):
            try:
                yield
            finally:
                out.end()
                err.end()


class _Tee:
    """A stream of this process that notes the lines which it shows."""

    def __init__(self, shown: Any, name: Stream, output: Output) -> None:
        # A handler may wait for a job whose handler runs meanwhile, and which has its own output.
        self._shown: Any = shown._shown if isinstance(shown, _Tee) else shown  # noqa: SLF001 - of the class
        self._name = name
        self._output = output
        self._line = ""
        """What has not ended with a line end."""

    def write(self, text: str) -> int:
        """Show and note it."""
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._note(line + "\n")
        self._shown.write(_MARKED.sub("", text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Show and note them."""
        for line in lines:
            self.write(line)

    def end(self) -> None:
        """Note the last line."""
        if self._line:
            self._note(self._line)

    def __getattr__(self, name: str) -> Any:
        """As the stream that shows it."""
        return getattr(self._shown, name)

    def _note(self, line: str) -> None:
        found = _MARKED.search(line)
        level = None if found is None else _LEVELS[found[1]]
        self._output.add(self._name, _MARKED.sub("", line), level)


def _chunks(records: Iterable[OutputRecord]) -> Iterator[list[OutputRecord]]:
    """Parts of records that are no larger than a chunk."""
    part: list[OutputRecord] = []
    size = 0
    for record in records:
        if part and size + len(record.data) > CHUNK_BYTES:
            yield part
            part, size = [], 0
        part.append(record)
        size += len(record.data)
    if part:
        yield part
