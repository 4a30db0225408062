"""A view that is read again and again until it is interrupted."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import Any

from joblane.client.cli import formats, terminal
from joblane.client.cli.tables import screen
from joblane.client.errors import JoblaneError


def watch(
    fetch: Callable[[], dict[str, Any]],
    text: Callable[[dict[str, Any]], str],
    every_s: float,
    *,
    as_json: bool,
) -> None:
    """Show each answer until interrupted; retryable errors are shown and retried."""
    live = not as_json and screen().width is not None
    view, show_text = _full_screen() if live else (nullcontext(), terminal.text)
    last = ""
    with view:
        while True:
            try:
                answer = fetch()
            except JoblaneError as error:
                if not error.retryable:
                    raise
                if live:
                    show_text(f"{last}\n\n{formats.printable(str(error))}")
                else:
                    terminal.note(str(error))
            else:
                if as_json:
                    terminal.json_line(answer)
                else:
                    last = f"{datetime.now(UTC):%H:%M:%S} UTC\n\n{text(answer)}"
                    show_text(last)
            time.sleep(every_s)


def _full_screen() -> tuple[AbstractContextManager[object], Callable[[str], None]]:
    """Make a full-screen view, and the function that updates it."""
    from rich.console import Console  # noqa: PLC0415 - rich takes 60 ms; only the live view pays
    from rich.text import Text  # noqa: PLC0415

    view = Console(highlight=False).screen()

    def draw(text: str) -> None:
        view.update(Text.from_ansi(text, no_wrap=True, overflow="ellipsis"))

    return view, draw
