"""Blocking calls from the event loop, in daemon threads.

asyncio's default executor joins its threads at exit, and a long poll may last another 20 s.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

P = ParamSpec("P")
T = TypeVar("T")

AWS_ERRORS = (BotoCoreError, ClientError)
"""What botocore raises when AWS refuses a call or cannot be reached."""


class NoThread(BotoCoreError):
    """No thread could be started. One of AWS_ERRORS: it is handled as a call that failed."""

    fmt = "no thread could be started: {error}"


class DaemonThread(Executor):
    """Runs each call in a new daemon thread."""

    def __init__(self, name: str) -> None:
        self._name = name

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Start a thread. Raises NoThread when the kernel allows this process no more."""
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()  # from here on it cannot be cancelled

        def work() -> None:
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - raised by the future
                future.set_exception(error)
            else:
                future.set_result(result)

        try:
            threading.Thread(target=work, name=self._name, daemon=True).start()
        except RuntimeError as error:
            raise NoThread(error=error) from None
        return future


def in_thread(call: Callable[[], T], name: str) -> Awaitable[T]:
    """Run a blocking call in a new daemon thread; the future has its result or error.

    Raises NoThread.
    """
    return asyncio.get_running_loop().run_in_executor(DaemonThread(name), call)
