"""Start of a Lambda function: what shortens its cold start.

A function imports this first, because it sets the garbage collector: by default Python's runs
after every 700 new objects, and loading a function's modules creates hundreds of thousands that
are never freed. A higher threshold saves a sixth of the CPU time of a cold start (`scripts/bench
imports`, with and without).
"""

import gc
from collections.abc import Callable
from functools import cache
from typing import TypeVar

OBJECTS = 100_000
"""New objects before a collection; a request creates a few thousand."""

gc.set_threshold(OBJECTS, *gc.get_threshold()[1:])

T = TypeVar("T")


def once(build: Callable[[], T]) -> Callable[[], T]:
    """Decorate a function that builds an object which lives as long as the process.

    It runs once, and what it builds is excluded from garbage collection: service models and
    imports are hundreds of thousands of objects that are never freed. Without them collections
    are faster, in the cold start and in every later request.
    """

    @cache
    def build_once() -> T:
        gc.disable()
        try:
            return build()
        finally:
            gc.freeze()
            gc.enable()

    return build_once
