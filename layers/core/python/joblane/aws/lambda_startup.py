"""Start of a Lambda function: its settings, and what shortens its cold start.

A function imports this first, because it sets the garbage collector: by default Python's runs
after every 700 new objects, and loading a function's modules creates hundreds of thousands that
are never freed. A higher threshold saves a sixth of the CPU time of a cold start (`scripts/bench
imports`, with and without).
"""

import gc
import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Self, TypeVar

OBJECTS = 100_000
"""New objects before a collection; a request creates a few thousand."""

gc.set_threshold(OBJECTS, *gc.get_threshold()[1:])

from pydantic import BaseModel, ConfigDict  # noqa: E402 - creates objects

from joblane.deployment.names import VARIABLES  # noqa: E402

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


class Environment(BaseModel):
    """Settings of a function: the field `jobs_table` is the variable JOBLANE_JOBS_TABLE.

    Names and ids of AWS resources are in the process's environment, which holds 4 KB. What
    joblane.toml says is in the file VARIABLES of the function's bundle, and changes with its code.
    A missing variable fails the cold start by its name.
    """

    model_config = ConfigDict(
        frozen=True,
        alias_generator=lambda name: f"JOBLANE_{name.upper()}",
        defer_build=True,  # of the classes below a base, only the last one is built
    )

    deployment: str
    queue_url_prefix: str

    @classmethod
    def read(cls, handler: str) -> Self:
        """Read the variables of the process and of the bundle of `handler`, a module's `__file__`.

        Raises ValueError.
        """
        return cls.model_validate(
            {**_read_bundled(Path(handler).with_name(VARIABLES)), **os.environ}
        )


def _read_bundled(file: Path) -> dict[str, str]:
    """The variables in a file of the bundle; none if there is no such file.

    Ids that deployment alone knows have a name there, such as `<people>`. JOBLANE_IDS has them by
    name, `people=ID ...`, and a name that it lacks stays: Lambda replaces code and environment one
    after the other, and in between a client without an id is one that no token names.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    for named in os.environ.get("JOBLANE_IDS", "").split():
        name, _, value = named.partition("=")
        text = text.replace(f"<{name}>", value)
    variables: dict[str, str] = json.loads(text)
    return variables
