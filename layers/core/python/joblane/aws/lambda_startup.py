"""Start of a Lambda function: its settings, and what shortens its cold start.

A function imports this first, because it sets the garbage collector: by default Python's runs
after every 700 new objects, and loading a function's modules creates hundreds of thousands that
are never freed. A higher threshold saves a sixth of the CPU time of a cold start (`scripts/bench
imports`, with and without).
"""

import gc
import os
from collections.abc import Callable
from functools import cache
from typing import Self, TypeVar

OBJECTS = 100_000
"""New objects before a collection; a request creates a few thousand."""

gc.set_threshold(OBJECTS, *gc.get_threshold()[1:])

from pydantic import BaseModel, ConfigDict  # noqa: E402 - creates objects

T = TypeVar("T")


def once(build: Callable[[], T]) -> Callable[[], T]:
    """Decorate a function that builds an object which lives as long as the process.

    It runs once, and what it builds is excluded from garbage collection: service models and
    imports are hundreds of thousands of objects that are never freed. Without them collections
    are faster, in the cold start and in every later request.
    """

    @cache
    def built() -> T:
        gc.disable()
        try:
            return build()
        finally:
            gc.freeze()
            gc.enable()

    return built


class Environment(BaseModel):
    """Settings of a function: the field `jobs_table` is the variable JOBLANE_JOBS_TABLE.

    A missing variable fails the cold start by its name.
    """

    model_config = ConfigDict(frozen=True, alias_generator=lambda name: f"JOBLANE_{name.upper()}")

    deployment: str
    queue_url_prefix: str

    @classmethod
    def read(cls) -> Self:
        """Read the process's environment. Raises ValueError."""
        return cls.model_validate(dict(os.environ))
