"""A line on the terminal that is written over: a count that runs while a command waits."""

import shutil
import sys

from joblane.client.cli.text import terminal
from joblane.client.cli.text.formats import printable

_ERASE = b"\r\x1b[K"


class StatusLine:
    """The last line of stderr; nothing is written unless that is a terminal.

    `clear` it before anything else is written to the terminal.
    """

    def __init__(self) -> None:
        self._active = terminal.is_terminal(sys.stderr)
        self._shown = ""

    def show(self, text: str) -> None:
        """Write it, in place of what it was."""
        if not self._active or text == self._shown:
            return
        width = shutil.get_terminal_size().columns - 1
        line = printable(text)[:width].encode("utf-8", "backslashreplace")
        self._shown = text  # first: Ctrl-C may come while it is written, and `clear` follows
        terminal.write(_ERASE + line, stderr=True)

    def clear(self) -> None:
        """Remove it."""
        if self._shown:
            terminal.write(_ERASE, stderr=True)
            self._shown = ""
