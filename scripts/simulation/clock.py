"""The clock of a simulation: events in the order of their time, and the only source of chance."""

import heapq
import random
from collections.abc import Callable
from itertools import count
from typing import TypeVarTuple

Args = TypeVarTuple("Args")

BEGAN_S = 1_800_000_000
"""Unix time at which every simulation begins."""


class Clock:
    """Runs what is due, and lets no time pass in between."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        """Seconds since the simulation began."""
        self.rng = random.Random(seed)
        self.events = 0
        """Events so far."""
        self._order = count()  # events of one moment happen in the order in which they were planned
        self._due: list[tuple[float, int, Callable[..., object], tuple[object, ...]]] = []

    @property
    def now_ms(self) -> int:
        """Unix milliseconds."""
        return int(self.unix * 1000)

    @property
    def unix(self) -> float:
        """Unix seconds."""
        return BEGAN_S + self.now

    def after(self, seconds: float, do: Callable[[*Args], object], *args: *Args) -> None:
        """Call `do` in so many seconds."""
        heapq.heappush(self._due, (self.now + seconds, next(self._order), do, args))

    def at(self, when: float, do: Callable[[*Args], object], *args: *Args) -> None:
        """Call `do` at a time, or now if it is over."""
        self.after(max(0.0, when - self.now), do, *args)

    def run(self, until: float, done: Callable[[], bool] = lambda: False) -> None:
        """Let time pass, up to `until` or until `done`, which is asked once a simulated second."""
        ask = self.now + 1
        while self._due and self._due[0][0] <= until:
            when, _, do, args = heapq.heappop(self._due)
            self.now = when
            self.events += 1
            do(*args)
            if when >= ask:
                if done():
                    return
                ask = when + 1
        self.now = max(self.now, until)
