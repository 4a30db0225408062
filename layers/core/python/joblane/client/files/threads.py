"""Several transfers at once, in threads that keep no process from ending."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from joblane.client.errors import FileError

THREADS = 8
"""Transfers, and files that are hashed, at once."""

LEAVE_S = 2.0
"""How long an interrupted call waits for its threads, which remove what is half written."""

T = TypeVar("T")


class Stopped(FileError):
    """The transfer was interrupted."""


def for_each(work: Callable[[T], None], items: Iterable[T], stop: threading.Event) -> None:
    """Call `work` with each item, several at once; raises the first error, after which none begins.

    `stop` is set after an error, and may be set from outside: `work` looks at it now and then.
    """
    left = iter(items)
    lock = threading.Lock()
    errors: list[BaseException] = []

    def worker() -> None:
        while not stop.is_set():
            try:
                with lock:
                    item = next(left)
                work(item)
            except StopIteration:
                return
            except BaseException as error:  # noqa: BLE001 - raised below, in the caller's thread
                errors.append(error)
                stop.set()

    threads = [threading.Thread(target=worker, daemon=True) for _ in range(THREADS)]
    _run(threads, stop)
    if errors:
        raise errors[0]
    raise_if(stop)


def raise_if(stop: threading.Event) -> None:
    """Raise `Stopped` if it is set."""
    if stop.is_set():
        raise Stopped("interrupted")


def _run(threads: Sequence[threading.Thread], stop: threading.Event) -> None:
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException:  # Ctrl-C
        stop.set()
        until = time.monotonic() + LEAVE_S
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(until - time.monotonic(), 0.0))
        raise
