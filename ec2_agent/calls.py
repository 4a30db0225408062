"""Blocking calls from the event loop, in daemon threads.

asyncio's default executor joins its threads at exit, and a long poll may last another 20 s.
"""

import asyncio
import queue
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


KEPT_S = 10.0
"""Seconds for which a thread of `KeptThreads` waits for another call."""


class KeptThreads(Executor):
    """Runs each call in a daemon thread that has none, or in a new one.

    For calls that come many times a second: to start a thread and wait until it runs takes longer
    than to give one that waits a call.
    """

    def __init__(self, name: str, kept_s: float = KEPT_S) -> None:
        self._name = name
        self._kept_s = kept_s
        self._idle: list[queue.SimpleQueue[Callable[[], None]]] = []
        """Of each thread that waits for a call; the one that has waited for the shortest, last."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Give a call to a thread. Raises NoThread when the kernel allows this process no more."""
        future, work = _work(fn, *args, **kwargs)
        try:
            self._idle.pop().put(work)
        except IndexError:
            calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
            calls.put(work)
            _start(lambda: self._serve(calls), self._name)
        return future

    def _serve(self, calls: "queue.SimpleQueue[Callable[[], None]]") -> None:
        """Make the calls of one thread until none has come for a while.

        this thread                      the event loop
        waits no longer
                                         takes this thread from the list, puts a call
        is not in the list: it has one
        """
        while True:
            try:
                work = calls.get(timeout=self._kept_s)
            except queue.Empty:
                try:
                    self._idle.remove(calls)
                except ValueError:
                    work = calls.get()
                else:
                    return
            work()
            del work  # and what it refers to
            self._idle.append(calls)


class DaemonThread(Executor):
    """Runs each call in a new daemon thread."""

    def __init__(self, name: str) -> None:
        self._name = name

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Start a thread. Raises NoThread when the kernel allows this process no more."""
        future, work = _work(fn, *args, **kwargs)
        _start(work, self._name)
        return future


def _work(
    fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> tuple[Future[T], Callable[[], None]]:
    """The future of a call, and what makes it."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # from here on it cannot be cancelled

    def work() -> None:
        try:
            result = fn(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - raised by the future
            future.set_exception(error)
        else:
            future.set_result(result)

    return future, work


def _start(work: Callable[[], None], name: str) -> None:
    """Start a daemon thread. Raises NoThread."""
    try:
        threading.Thread(target=work, name=name, daemon=True).start()
    except RuntimeError as error:
        raise NoThread(error=error) from None


def in_thread(call: Callable[[], T], name: str) -> Awaitable[T]:
    """Run a blocking call in a new daemon thread; the future has its result or error.

    Raises NoThread.
    """
    return asyncio.get_running_loop().run_in_executor(DaemonThread(name), call)
