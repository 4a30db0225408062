"""A bar, and the progress of a transfer on the last line of the terminal."""

import threading
import time

from joblane.client.cli.text.formats import size as shown_size
from joblane.client.cli.text.status_line import StatusLine

WIDTH = 24
"""Characters of the bar."""

EVERY_S = 0.1
"""Between two updates."""


def bar(done: int, count: int) -> str:
    """A bar of fixed width; it is full when all is done and not before."""
    full = WIDTH * done // max(count, 1)
    return f"[{'#' * full}{'.' * (WIDTH - full)}]"


class ProgressBar:
    """A `TransferProgress` on stderr; silent unless that is a terminal."""

    def __init__(self) -> None:
        self._line = StatusLine()
        self._lock = threading.Lock()
        self._what, self._files, self._size = "", 0, 0
        self._files_done, self._done, self._shown_at = 0, 0, 0.0

    def start(self, what: str, files: int, size: int) -> None:
        """Begin a phase."""
        with self._lock:
            self._what, self._files, self._size = what, files, size
            self._files_done = self._done = 0
            self._shown_at = 0.0

    def add(self, size: int, files: int = 0) -> None:
        """Count, and show it unless that was done a moment ago."""
        with self._lock:
            self._done += size
            self._files_done += files
            now = time.monotonic()
            if now - self._shown_at >= EVERY_S:
                self._shown_at = now
                self._line.show(self.text())

    def end(self) -> None:
        """Remove it."""
        with self._lock:
            self._line.clear()

    def text(self) -> str:
        """Return the line."""
        share = min(max(self._done / self._size, 0.0), 1.0) if self._size else 1.0
        bar = ("#" * int(share * WIDTH)).ljust(WIDTH, ".")
        return (
            f"{self._what} [{bar}] {share:4.0%} {shown_size(self._done)} of"
            f" {shown_size(self._size)}, {self._files_done} of {self._files} files"
        )
