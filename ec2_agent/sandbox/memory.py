"""Which memory of the launcher process its slots have: only what compiled code needs.

A fork copies the page tables of all anonymous memory, and the exit of the child frees them. Slots
that run compiled code only never read Python's.
"""

import ctypes
import os

from ec2_agent.sandbox import kernel, slot

_MADV_DONTFORK, _MADV_DOFORK = 10, 11
_NEEDED = ("posix_spawnp", "__errno_location", "__tls_get_addr")
"""Functions of the C library and of its loader. Their variables lie in memory beside the code."""

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    Area = tuple[int, int, str]


class ProcessMemory:
    """The areas of this process's memory that slots do not need."""

    __slots__ = ("_left_out",)

    def __init__(self, library: ctypes.PyDLL) -> None:
        """Find them; `library` is the compiled part of slots."""
        libc = ctypes.PyDLL(None)
        functions = [library.slot_fork, *(libc[name] for name in _NEEDED)]
        read = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions]
        errno_location = libc["__errno_location"]
        errno_location.restype = ctypes.c_void_p
        read.append(errno_location())  # thread-local variables are in an area of their own
        areas = _areas()
        used = [area for area in areas if any(area[0] <= at < area[1] for at in read)]
        # Calls of the C library lead through a program that is not position-independent.
        program = os.readlink("self/exe", dir_fd=slot.HOST_PROC)
        files = {program, *(area[2] for area in used if area[2])}
        self._left_out: list[tuple[int, int]] = []
        before: Area = (0, 0, "")
        for area in areas:
            # A file's variables without initial values are anonymous, behind the file.
            behind = not area[2] and before[1] == area[0] and before[2] in files
            if not (area in used or area[2] in files or area[2].startswith("[") or behind):
                self._left_out.append((area[0], area[1] - area[0]))
            before = area

    def leave_out(self) -> None:
        """Let children have none of these areas."""
        for start, size in self._left_out:
            kernel.advise(start, size, _MADV_DONTFORK)

    def keep_all(self) -> None:
        """Leave nothing out from now on."""
        self._left_out.clear()

    def take_in(self) -> None:
        """Let children have all memory."""
        for start, size in self._left_out:
            kernel.advise(start, size, _MADV_DOFORK)


def _areas() -> "list[Area]":
    """Return start, end and name of each area, in order."""
    found = []
    with open(os.open("self/maps", os.O_RDONLY, dir_fd=slot.HOST_PROC), encoding="utf-8") as file:
        for line in file:
            span, *_, name = line[:-1].split(" ", 5)  # the name has blanks before it, or is empty
            start, _, end = span.partition("-")
            found.append((int(start, 16), int(end, 16), name.strip()))
    return found
