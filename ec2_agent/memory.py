"""Gives memory back to the kernel that only an agent's start needed."""

import ctypes
import gc


def give_back() -> None:
    """Collect what is garbage, and return free pages: 7 MB of 76 after an agent's start.

    Reading a dozen of botocore's models leaves holes that glibc keeps for later; an idle agent
    has no later. Other C libraries have no such call, and do without.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
