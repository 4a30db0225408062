"""Progress of slow steps, on the terminal."""

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Progress(Protocol):
    """Receiver of progress."""

    def say(self, text: str) -> None:
        """Show one line."""

    def step(self, text: str) -> AbstractContextManager[None]:
        """Begin a slow step; leaving the block ends it."""


class Terminal:
    """Progress as lines on standard error: the step, then how long it took."""

    def say(self, text: str) -> None:
        """Show one line."""
        print(text, file=sys.stderr, flush=True)

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Show the step when it begins, and its time when it ended well."""
        print(f"  {text} ... ", end="", file=sys.stderr, flush=True)
        began = time.monotonic()
        try:
            yield
        except BaseException:
            print(file=sys.stderr, flush=True)
            raise
        print(f"{time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)


class Quiet:
    """Progress that is not shown, for tests."""

    def say(self, text: str) -> None:
        """Show nothing."""

    @contextmanager
    def step(self, text: str) -> Iterator[None]:  # noqa: ARG002 - the protocol's argument
        """Show nothing."""
        yield
