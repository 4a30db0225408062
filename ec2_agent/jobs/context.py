"""What a typed job is given beside its command."""

import os
from contextlib import ExitStack
from dataclasses import dataclass

from joblane.key.segments import Constant


@dataclass(frozen=True, slots=True)
class TypedContext:
    """What a job of a type is given beside its command."""

    params: bytes
    """Its params as JSON: whole, also if the job's head has them abridged."""
    bundle: int | None = None
    """A descriptor that keeps its bundle on this host; the caller closes it."""
    key: tuple[Constant, ...] = ()
    """The segments of the key that its type declares, with its params filled in."""

    def descriptors(self, ends: ExitStack) -> tuple[int, ...]:
        """The params in a file in memory, since they may be too long for a message; the bundle.

        What is opened here is closed with `ends`.
        """
        memory = os.memfd_create("params")
        ends.callback(os.close, memory)
        with open(memory, "wb", closefd=False) as file:
            file.write(self.params)
        return (memory,) if self.bundle is None else (memory, self.bundle)
