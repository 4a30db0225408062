"""Keeps an idle agent's memory small: 70 MB with its state service (decision 1767)."""

import asyncio
import ctypes
import gc
from collections.abc import Callable

_M_ARENA_MAX = -8
"""mallopt(3), malloc.h."""


def share_arena() -> None:
    """Let all threads share one malloc arena: those of the long polls would keep 3 MB.

    Call it before the first thread starts. Sharing costs no time: the threads wait for AWS and
    for the interpreter's lock. Only glibc has arenas.
    """
    limit = getattr(ctypes.CDLL(None), "mallopt", None)
    if limit is not None:
        limit(_M_ARENA_MAX, 1)


CHECK_S = 5.0

QUIET = 2
"""Checks in a row without work after which an agent counts as idle."""


async def keep_small(busy: Callable[[], bool], release: Callable[[], None]) -> None:
    """Return free memory to the kernel once after each period of work, until cancelled.

    `release` lets go of what an idle agent does not need.
    """
    quiet = 0
    while True:
        await asyncio.sleep(CHECK_S)
        quiet = 0 if busy() else quiet + 1
        if quiet == QUIET:
            release()
            await asyncio.sleep(0)  # closed connections are forgotten in the next turn
            trim()


def trim() -> None:
    """Collect garbage, and return free pages to the kernel.

    Reading botocore's models, and hundreds of jobs at once, leave free pages that glibc keeps.
    Other C libraries have no such call.
    """
    gc.collect()
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)
