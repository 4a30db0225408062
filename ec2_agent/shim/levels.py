"""Levels of log records: the marks that a typed job's log sets in its stderr.

    0x1E, "4", text, line end    the text, up to the end of its line, has the level of 4, warning

The digits are those of syslog (RFC 5424, table 2). A mark may stand within a line, because what
came before it need not have ended with one: a progress bar, or half a line of another thread. The
marks are taken out. Any other 0x1E stays, so a stream without marks is not changed.
"""

MARK = b"\x1e"

LEVEL_OF = {
    ord("0"): "critical",
    ord("1"): "critical",
    ord("2"): "critical",
    ord("3"): "error",
    ord("4"): "warning",
    ord("5"): "info",
    ord("6"): "info",
    ord("7"): "debug",
}
"""By digit: 0 to 2 are emergencies in syslog, and 5 is a notice."""

TYPE_CHECKING = False  # see sandbox/wire.py
if TYPE_CHECKING:
    from collections.abc import Iterator


class Levels:
    """Splits one stream, which comes in pieces, where its level changes."""

    def __init__(self) -> None:
        """Begin a stream."""
        self._level: str | None = None
        """That of the line that has not ended."""
        self._begun = False
        """Whether the last piece ended with a `MARK` without its digit."""

    def split(self, piece: bytes) -> "Iterator[tuple[str | None, bytes]]":
        """Yield the runs of a piece with their levels; lines of one level stay together."""
        if self._begun and piece:
            self._begun = False
            if piece[0] in LEVEL_OF:
                self._level, piece = LEVEL_OF[piece[0]], piece[1:]
            else:
                yield self._level, MARK
        if piece.endswith(MARK):
            self._begun, piece = True, piece[:-1]
        if self._level is None and MARK not in piece:
            if piece:
                yield None, piece
            return
        run: list[bytes] = []
        level = self._level
        for found, text in self._parts(piece):
            if found != level and run:
                yield level, b"".join(run)
                run = []
            level = found
            run.append(text)
        if run:
            yield level, b"".join(run)

    def flush(self) -> "Iterator[tuple[str | None, bytes]]":
        """Yield what was held back, at the end of the stream."""
        if self._begun:
            self._begun = False
            yield self._level, MARK

    def _parts(self, piece: bytes) -> "Iterator[tuple[str | None, bytes]]":
        """Yield each part of a line with its level; none is empty."""
        lines = piece.split(b"\n")
        for number, line in enumerate(lines, 1):
            ended = number < len(lines)
            first, *marked = (line + b"\n" if ended else line).split(MARK)
            if first:
                yield self._level, first
            for part in marked:
                if part[:1] and part[0] in LEVEL_OF:
                    self._level, text = LEVEL_OF[part[0]], part[1:]
                else:
                    text = MARK + part
                if text:
                    yield self._level, text
            if ended:
                self._level = None
