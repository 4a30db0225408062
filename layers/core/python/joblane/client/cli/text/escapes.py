"""Escapes untrusted text for a terminal: control characters are escaped, except what bars need.

A terminal obeys what it is sent: escape sequences clear the screen, set the title, write to the
clipboard or answer as if the person had typed. Output of a job passes through `TerminalText`, which
keeps colours and carriage returns: with these a progress bar is drawn, and a job changes no line
but its own.
"""

import codecs
import re

_SGR = r"\x1b\[[0-9;:]{0,64}m"
"""Select Graphic Rendition: colours, bold and the like, and nothing else."""

_RESET = "\x1b[0m"

UNSAFE = re.compile(
    # C0 without tab and line feed, DEL and C1; what turns the direction of text; bytes that are
    # not UTF-8, as `surrogateescape` decodes them.
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\udc80-\udcff]"
)
"""A character that a terminal may obey instead of showing it."""

_PARTS = re.compile(rf"(?P<sgr>{_SGR})|\r\n|(?P<return>\r)|(?P<unsafe>{UNSAFE.pattern})")

_UNFINISHED = re.compile(r"\x1b(\[[0-9;:]{0,64})?$")
"""End of a piece that the next one may complete."""

_STYLES_MAX = 16
"""Sequences that are repeated at most; a longer style loses its oldest ones."""


class TerminalText:
    """Escapes what a job writes to one stream, piece by piece.

    Colours do not outlive a piece, so that a job cannot hide what Joblane or the shell prints after
    it; the next piece begins with them. A line in which it has gone back to the beginning is ended.
    """

    def __init__(self, prefix: str = "") -> None:
        """`prefix` is what the caller puts in front of lines; a carriage return keeps it."""
        self._prefix = prefix
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._rest = ""
        self._styles: list[str] = []
        self._returned = False
        """Whether the line that is not ended yet has a carriage return."""

    def feed(self, data: bytes) -> bytes:
        """Escape a piece; an unfinished character or sequence waits for the next one."""
        text = self._rest + self._decoder.decode(data)
        unfinished = _UNFINISHED.search(text)
        self._rest = unfinished[0] if unfinished else ""
        return self._escape(text.removesuffix(self._rest))

    def end(self) -> bytes:
        """Escape what still waits, and end a line that another text would be written over."""
        text = self._rest + self._decoder.decode(b"", final=True)
        self._rest = ""
        return self._escape(text) + self.end_line()

    def end_line(self) -> bytes:
        """Return the end of a line that has a carriage return; nothing for any other line."""
        returned, self._returned = self._returned, False
        return b"\n" if returned else b""

    def _escape(self, text: str) -> bytes:
        if not text:
            return b""
        _, ended, line = text.rpartition("\n")
        self._returned = "\r" in line or (self._returned and not ended)
        before = "".join(self._styles)
        shown = _PARTS.sub(self._part, text)
        after = _RESET if self._styles else ""
        return f"{before}{shown}{after}".encode()

    def _part(self, found: re.Match[str]) -> str:
        if (unsafe := found["unsafe"]) is not None:
            code = ord(unsafe)
            return f"\\x{code - 0xDC00:02x}" if code >= 0xDC80 else escape_character(unsafe)
        if found["return"] is not None and self._prefix:
            styles = "".join(self._styles)
            return f"\r{_RESET if styles else ''}{self._prefix}{styles}"
        if (style := found["sgr"]) is not None:
            # An empty or zero parameter resets; a sequence that resets and sets is kept whole.
            resets = re.match(r"\x1b\[0*[;m]", style)
            kept = [] if resets else self._styles
            self._styles = [] if resets and resets[0] == style else [*kept, style][-_STYLES_MAX:]
        return found[0]


def escape_character(character: str) -> str:
    """Write a character as Python does in a literal."""
    return character.encode("unicode_escape").decode()
