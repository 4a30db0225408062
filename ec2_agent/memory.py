"""Keeps an idle agent small: it and its state service have 80 MB (`scripts/bench agent`)."""

import ctypes
import gc

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


def give_back() -> None:
    """Collect what is garbage, and return free pages: 2 MB after an agent's start.

    Reading a dozen of botocore's models leaves holes that glibc keeps for later; an idle agent
    has no later. Other C libraries have no such call, and do without.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
