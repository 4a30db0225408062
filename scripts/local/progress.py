"""Progress of slow steps, on the terminal."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

Step = Callable[[str], AbstractContextManager[None]]
"""Begins a slow step; leaving the block ends it."""


def say(text: str) -> None:
    """Show one line on standard error."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def shown_step(text: str) -> Iterator[None]:
    """Show a step on standard error when it begins, and its time when it ended well."""
    print(f"  {text} ... ", end="", file=sys.stderr, flush=True)
    began = time.monotonic()
    try:
        yield
    except BaseException:
        print(file=sys.stderr, flush=True)
        raise
    print(f"{time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)


@contextmanager
def quiet_step(_text: str) -> Iterator[None]:
    """Show nothing."""
    yield
