"""A view that is read again and again until it is interrupted."""

import select
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import Any

from joblane.client.cli.text import formats, terminal
from joblane.client.cli.text.tables import screen
from joblane.client.errors import JoblaneError

Answer = dict[str, Any]

QUIT, REFRESH = "q", " "

LOOK_S = 0.1
"""How often a live view looks whether an answer, a key or another size of the terminal is there."""


def watch(
    fetch: Callable[[], Answer],
    text: Callable[[Answer], str],
    every_s: float,
    *,
    as_json: bool,
    on_key: Callable[[str], None] = lambda _key: None,
) -> None:
    """Show each answer until interrupted; retryable errors are shown and retried.

    On a terminal `q` ends it, space reads at once, and `on_key` gets each key; then `text` is
    called again.
    """
    if not as_json and screen().width is not None:
        _watch_live(fetch, text, every_s, on_key)
        return
    while True:
        try:
            answer = fetch()
        except JoblaneError as error:
            if not error.retryable:
                raise
            terminal.note(str(error))
        else:
            if as_json:
                terminal.json_line(answer)
            else:
                terminal.text(_page(text(answer), datetime.now(UTC)))
        time.sleep(every_s)


def _watch_live(
    fetch: Callable[[], Answer],
    text: Callable[[Answer], str],
    every_s: float,
    on_key: Callable[[str], None],
) -> None:
    """Redraw a full-screen view for each answer, each key and each size of the terminal."""
    answers = _Answers(fetch, every_s)
    with _full_screen() as draw, _keys() as pressed:
        drawn: object = None
        while True:
            answers.take()
            for key in pressed():
                if key == QUIT:
                    return
                if key == REFRESH:
                    answers.refresh()
                on_key(key)
                drawn = None
            size = shutil.get_terminal_size()
            state = (size, answers.read_at, answers.outage(datetime.now(UTC)))
            if state != drawn:
                drawn = state
                draw(answers.text(text))


@dataclass
class _Answers:
    """The newest answer, read by a thread of its own, so that keys work while the API is away."""

    fetch: Callable[[], Answer]
    every_s: float
    answer: Answer | None = None
    read_at: datetime | None = None
    failed_at: datetime | None = None
    """When the first of the failures came that have followed the newest answer."""
    failure: str = ""
    _next: float = 0.0
    _reading: bool = False
    _results: SimpleQueue[Answer | Exception] = field(default_factory=SimpleQueue)

    def take(self) -> None:
        """Take the result that is there, and start to read when it is time.

        Raises a `JoblaneError` that is not retryable.
        """
        if not self._reading and time.monotonic() >= self._next:
            self._reading = True
            threading.Thread(target=self._read, daemon=True).start()
        with suppress(Empty):
            result = self._results.get(block=False)
            self._reading, self._next = False, time.monotonic() + self.every_s
            self._put(result, datetime.now(UTC))

    def refresh(self) -> None:
        """Read as soon as what is being read is there."""
        self._next = 0.0

    def outage(self, now: datetime) -> str | None:
        """Since when the API has not answered, and why; None if it has."""
        if self.failed_at is None:
            return None
        since = f"{self.failed_at:%H:%M:%S} UTC"
        passed = formats.duration(int((now - self.failed_at).total_seconds()))
        return formats.printable(f"no answer since {since} ({passed}): {self.failure}")

    def text(self, text: Callable[[Answer], str]) -> str:
        """The newest answer, and above it since when there has been no other one."""
        outage = self.outage(datetime.now(UTC))
        lines = [outage, ""] if outage else []
        if self.answer is None or self.read_at is None:
            lines += [] if outage else ["waiting for the API"]
        else:
            lines.append(_page(text(self.answer), self.read_at))
        return "\n".join(lines)

    def _read(self) -> None:
        try:
            self._results.put(self.fetch())
        except Exception as error:  # noqa: BLE001 - raised by `take`, in the thread of the view
            self._results.put(error)

    def _put(self, result: Answer | Exception, now: datetime) -> None:
        if not isinstance(result, Exception):
            self.answer, self.read_at, self.failed_at = result, now, None
        elif isinstance(result, JoblaneError) and result.retryable:
            self.failed_at, self.failure = self.failed_at or now, str(result)
        else:
            raise result


def _page(text: str, read_at: datetime) -> str:
    return f"{read_at:%H:%M:%S} UTC\n\n{text}"


@contextmanager
def _full_screen() -> Iterator[Callable[[str], None]]:
    """Make a full-screen view; yields the function that updates it."""
    from rich.console import Console  # rich takes 60 ms; only the live view pays
    from rich.text import Text

    with Console(highlight=False).screen() as view:
        yield lambda text: view.update(Text.from_ansi(text, no_wrap=True, overflow="ellipsis"))


@contextmanager
def _keys() -> Iterator[Callable[[], str]]:
    """Read single keys of the terminal; yields a function that waits a moment for some.

    Without a terminal as standard input there are none. Ctrl-C interrupts as ever.
    """
    if not terminal.is_terminal(sys.stdin):
        yield _no_key
        return
    try:
        import termios  # not on every system, and only here
        import tty
    except ImportError:
        yield _no_key
        return
    stdin = sys.stdin.fileno()
    before = termios.tcgetattr(stdin)
    try:
        tty.setcbreak(stdin)
        yield lambda: _read_key(stdin)
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)


def _no_key() -> str:
    time.sleep(LOOK_S)
    return ""


def _read_key(stdin: int) -> str:
    import os  # beside `termios`

    ready, _, _ = select.select([stdin], [], [], LOOK_S)
    if not ready:
        return ""
    found = os.read(stdin, 64)
    if not found:  # the terminal is gone
        raise KeyboardInterrupt
    return found.decode("utf-8", "replace")
