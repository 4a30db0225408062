"""Keeps an idle agent small: it and its state service have 80 MB (`scripts/bench agent`)."""

import asyncio
import ctypes
import gc
from collections.abc import Callable

_M_ARENA_MAX = -8
"""mallopt(3), malloc.h."""


def save() -> None:
    """Have threads share one arena: those of long polls would each keep one, 3 MB together.

    To be called before the first thread. They wait for AWS and for the interpreter's lock, not
    for memory. Other C libraries have no arenas.
    """
    limit = getattr(ctypes.CDLL(None), "mallopt", None)
    if limit is not None:
        limit(_M_ARENA_MAX, 1)


LOOK_S = 5.0

QUIET = 2
"""Looks in a row that must find no work before an agent is taken for idle."""


async def keep_small(busy: Callable[[], bool]) -> None:
    """Give memory back once after each time of work; until cancelled."""
    quiet = 0
    while True:
        await asyncio.sleep(LOOK_S)
        quiet = 0 if busy() else quiet + 1
        if quiet == QUIET:
            give_back()


def give_back() -> None:
    """Collect what is garbage, and return free pages.

    Reading botocore's models, and hundreds of jobs at once, leave holes that glibc keeps for
    later. Other C libraries have no such call, and do without.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
