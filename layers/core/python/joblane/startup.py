"""Imported by a function before all else, for what it does to its process.

Python's collector goes over all objects whenever 700 new ones have come, and the modules of a
function are hundreds of thousands that stay. With a threshold that loading them does not reach,
a cold start costs a sixth less CPU (`scripts/bench imports`, with and without).
"""

import gc
from collections.abc import Callable
from typing import TypeVar

OBJECTS = 100_000
"""New objects before the collector looks at them; a request makes some thousands."""

gc.set_threshold(OBJECTS, *gc.get_threshold()[1:])
T = TypeVar("T")


def once(build: Callable[[], T]) -> T:
    """Build what lives as long as the process, without the collector going over it.

    Service models and imports are hundreds of thousands of objects that never become garbage;
    left out of collections they make the cold start and every later request cheaper.
    """
    gc.disable()
    try:
        return build()
    finally:
        gc.freeze()
        gc.enable()
