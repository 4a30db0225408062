"""An event loop whose clock does not wait: it jumps to the next timer when nothing else is due.

For code whose peers all live in this loop: their bytes are readable at once, so a test sees the
order of a patient run without its seconds, and no busy host changes it. Not for code that waits
for threads or other processes.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_Selector(self._pass))

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self._now

    def _pass(self, seconds: float) -> None:
        self._now += seconds


class _Selector(selectors.DefaultSelector):
    """Lets time pass where others would wait."""

    def __init__(self, let_pass: Callable[[float], None]) -> None:
        super().__init__()
        self._let_pass = let_pass

    def select(self, timeout: float | None = None) -> Any:
        """Return what is ready; the time until the next timer has passed if nothing is."""
        if timeout is None:
            raise AssertionError("everything waits, and nothing is due")
        ready = super().select(0)
        if not ready:
            self._let_pass(timeout)
        return ready


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main)
