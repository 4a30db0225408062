"""Hides the values of a job's secrets in what the job writes and says.

A value is hidden line by line, so that a key of many lines is hidden however it is printed. What is
shorter than 8 bytes stays: it would be found in any text. Encoded forms (base64, a URL) are not
known here: this protects from accidents, not from a job that wants to show what it may read.
"""

TYPE_CHECKING = False  # see sandbox/wire.py
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

SHORTEST = 8
"""Bytes of the shortest line that is hidden."""

MOST = 1000
"""Lines of a job's secrets that can be hidden: each is looked for in each read of its output."""

MARK = b"***"


class Secrets:
    """The lines that are hidden; without any, nothing is."""

    def __init__(self, values: "Iterable[bytes]" = ()) -> None:
        """Take the lines of these values."""
        lines = {line.strip() for value in values for line in value.splitlines()}
        self.lines = tuple(line for line in lines if len(line) >= SHORTEST)

    def __bool__(self) -> bool:
        """Whether anything is hidden."""
        return bool(self.lines)

    def mask(self, text: str) -> str:
        """Return a text without them."""
        stream = Mask(self)
        data = stream.feed(text.encode("utf-8", "surrogatepass")) + stream.flush()
        return data.decode("utf-8", "surrogatepass")

    def mask_json(self, value: "Any") -> "Any":
        """Return a JSON value without them: in texts and names, and in place of a number."""
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, list):
            return [self.mask_json(entry) for entry in value]
        if isinstance(value, dict):
            return {self.mask(name): self.mask_json(entry) for name, entry in value.items()}
        if isinstance(value, int | float) and not isinstance(value, bool):
            text = str(value)
            return value if self.mask(text) == text else MARK.decode()
        return value


NO_SECRETS = Secrets()


class Mask:
    """Hides lines in one stream, also those that come in several pieces."""

    def __init__(self, secrets: Secrets) -> None:
        """Begin a stream."""
        self._lines = secrets.lines
        self._rest = b""
        """An end that may be the beginning of a line."""
        self._masked: int | None = None
        """How many bytes of it belong to a mark that was shown; None if none was just before it."""

    def feed(self, data: bytes) -> bytes:
        """Add what was read; returns what can be shown. The beginning of a line is held back."""
        if not self._lines:
            return data
        data = self._rest + data
        # No line has a newline: what is before the last one is whole.
        end = len(data) - self._begun(data[data.rfind(b"\n") + 1 :])
        return self._show(data, end)

    def flush(self) -> bytes:
        """Return what was held back, at the end of the stream."""
        return self._show(self._rest, len(self._rest))

    def _show(self, data: bytes, end: int) -> bytes:
        """Return `data` up to `end` with its lines hidden, and keep the rest."""
        shown: list[bytes] = []
        at, masked = 0, None
        for first, last in self._found(data):
            begun = first == 0 and self._masked is not None
            if first >= end and not begun:
                break
            shown += data[at:first], b"" if begun else MARK
            at, masked = last, last - end if last >= end else None
        shown.append(data[at:end])
        self._rest, self._masked = data[end:], masked
        return b"".join(shown)

    def _found(self, data: bytes) -> list[tuple[int, int]]:
        """Where lines are, in order; those that overlap or touch are one."""
        places = [] if self._masked is None else [(0, self._masked)]
        for line in self._lines:
            at = data.find(line)
            first = last = at
            while at >= 0:
                if at > last:
                    places.append((first, last))
                    first = at
                last = at + len(line)
                # What comes between two that touch is covered by them.
                at = last if data.startswith(line, last) else data.find(line, at + 1)
            if last > first:
                places.append((first, last))
        merged: list[tuple[int, int]] = []
        for first, last in sorted(places):
            if merged and first <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(last, merged[-1][1])
            else:
                merged.append((first, last))
        return merged

    def _begun(self, data: bytes) -> int:
        """Length of the longest suffix of `data` that is a proper prefix of a secret's line."""
        longest, view = 0, memoryview(data)
        for line in self._lines if data else ():
            first = line[:1]
            at = data.find(first, max(0, len(data) - len(line) + 1))
            while 0 <= at < len(data) - longest:
                if line.startswith(view[at:]):
                    longest = len(data) - at
                at = data.find(first, at + 1)
        return longest
