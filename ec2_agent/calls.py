"""Blocking calls from the event loop, in threads that never hold up the process's end.

asyncio's own executor joins its threads at exit, and a long poll may have 20 s to go.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

from botocore.exceptions import BotoCoreError

T = TypeVar("T")

RETRY_S = (0.2, 0.5, 1.0, 2.0, 5.0)


def pause_s(tries: int) -> float:
    """How long to wait before a call that AWS did not answer is made again; 0 is the first."""
    return RETRY_S[min(tries, len(RETRY_S) - 1)]


class NoThread(BotoCoreError):
    """A call could not be begun. One of AWS's errors, because it means the same: not now."""

    fmt = "no thread could be started: {error}"


def in_thread(call: Callable[[], T], name: str) -> Awaitable[T]:
    """Run a blocking call in a daemon thread of its own; its result or error is the future's.

    Raises NoThread when the kernel has none left for this process.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type] # None only where T admits it

    def work() -> None:
        try:
            result, error = call(), None
        except BaseException as caught:  # noqa: BLE001 - handed to whoever awaits
            result, error = None, caught
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, error)

    try:
        threading.Thread(target=work, name=name, daemon=True).start()
    except RuntimeError as error:
        raise NoThread(error=error) from None
    return future
