"""Blocking calls that are made at once, by an event loop in virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tests.support.virtual_time import VirtualTimeLoop


class InlineLoop(VirtualTimeLoop):
    """See the module."""

    def run_in_executor(  # type: ignore[override]  # asyncio's is a coroutine's type
        self, executor: object, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        """Make the call at once, in this thread."""
        del executor
        future: asyncio.Future[Any] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - raised by the future
            future.set_exception(error)
        return future


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end."""
    with asyncio.Runner(loop_factory=InlineLoop) as runner:
        runner.run(main)
