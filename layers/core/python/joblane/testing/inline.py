"""An executor without threads."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class Inline(Executor):
    """Does each piece of work at once, so that a test is repeated exactly."""

    def __init__(self, _workers: int) -> None:
        pass

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        """Do it at once."""
        done: Future[Any] = Future()
        done.set_result(work(*arguments, **options))  # what it raises is raised here
        return done
