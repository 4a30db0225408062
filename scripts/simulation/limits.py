"""Limits of AWS on rates: write units of a table's partitions, and instances launched."""

import math
from dataclasses import dataclass


@dataclass(slots=True)
class Rate:
    """So many units a second, one after another: who comes too early waits."""

    per_s: float = math.inf
    """Infinite: nobody waits, and what is asked for is counted."""
    total: float = 0.0
    """Units that were asked for."""
    most: float = 0.0
    """Most units that were asked for in one second."""
    waited_s: float = 0.0
    """The longest wait."""
    _free: float = 0.0
    _second: int = 0
    _asked: float = 0.0

    def wait(self, now: float, units: float = 1.0) -> float:
        """Take some units; returns the seconds until they may be used.

        A throttled caller retries with a backoff; here it waits in line, which takes as long.
        """
        second = int(now)
        if second != self._second:
            self._second, self._asked = second, 0.0
        self.total += units
        self._asked += units
        self.most = max(self.most, self._asked)
        begin = max(now, self._free)
        self._free = begin + units / self.per_s
        wait_s = begin - now
        self.waited_s = max(self.waited_s, wait_s)
        return wait_s


@dataclass(slots=True)
class Bucket:
    """A token bucket, as EC2 documents those of its API."""

    size: float
    per_s: float
    _tokens: float = -1.0
    _at: float = 0.0

    def take(self, now: float, wanted: int) -> int:
        """Take up to `wanted` whole tokens; returns how many there were."""
        tokens = self.size if self._tokens < 0 else self._tokens
        tokens = min(self.size, tokens + (now - self._at) * self.per_s)
        got = min(wanted, int(tokens))
        self._tokens, self._at = tokens - got, now
        return got
