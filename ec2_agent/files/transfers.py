"""A bound on the files that one agent downloads, hashes and uploads at the same time."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

AT_ONCE = 8
"""Files of all jobs together. Each takes a buffer of 1 MiB and a connection, and S3 gives one
connection about 50 to 90 MB a second."""

CHUNK = 1 << 20
"""Bytes that are read at once."""

LOOK_S = 0.25
"""How often a thread that waits checks whether it is still to go on."""

Proceed = Callable[[], bool]
"""Whether the attempt is to go on; False once it is to stop, or was abandoned."""


class Stopped(Exception):
    """The attempt is to stop."""


class Transfers:
    """Runs the transfers of one agent. Thread-safe."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._free = threading.BoundedSemaphore(at_once)

    @contextmanager
    def one(self, proceed: Proceed) -> Iterator[None]:
        """Hold one of the places; waits for it. Raises Stopped."""
        acquire(self._free.acquire, proceed)
        try:
            yield
        finally:
            self._free.release()

    def run_each(self, items: Iterable[T], do: Callable[[T], None], proceed: Proceed) -> None:
        """Call `do` for each item, several at once, in this thread and in others.

        Raises the first error, after all calls have ended; no call begins after it. Raises Stopped
        once `proceed` returns False.
        """
        queue, turn, failed = iter(items), threading.Lock(), list[BaseException]()

        def work() -> None:
            while not failed:
                with turn:
                    item = next(queue, None)
                if item is None:
                    return
                try:
                    with self.one(proceed):
                        do(item)
                except BaseException as error:  # noqa: BLE001 - raised by the caller's thread
                    failed.append(error)

        others = [
            threading.Thread(target=work, name="transfer", daemon=True)
            for _ in range(self._at_once - 1)
        ]
        started = []
        for other in others:
            try:
                other.start()
            except RuntimeError:  # the kernel allows this process no more threads
                break
            started.append(other)
        work()
        for other in started:
            other.join()
        if failed:
            raise failed[0]


def acquire(acquire: Callable[..., bool], proceed: Proceed) -> None:
    """Acquire a lock or a semaphore; raises Stopped if the attempt is to stop meanwhile."""
    while True:
        if not proceed():
            raise Stopped
        if acquire(timeout=LOOK_S):
            return
