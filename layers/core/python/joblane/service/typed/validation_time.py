"""A bound on the time that one tenant's params take in the function that all tenants share.

A validation takes microseconds to a millisecond. One may take two seconds (`job.schema_paths`), and
a batch has a hundred. What took long is added up in each instance of the function, by tenant and
minute; above the bound the tenant's typed submissions are refused until the minute is over. So
whatever schemas and params a tenant sends, others have nineteen twentieths of each instance.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from joblane.contract.problems import LimitReached

SLOW_S: Final = 0.02
"""A validation that takes longer counts."""

MOST_S: Final = 3.0
"""Seconds in a window that a tenant's slow validations may take; the last one may go beyond."""

WINDOW_S: Final = 60.0


@dataclass
class ValidationTime:
    """The slow validations of one instance of the function."""

    monotonic: Callable[[], float]
    """Returns seconds."""

    def __post_init__(self) -> None:
        self._window = 0
        self._used: dict[str, float] = {}
        """Seconds in the present window, by tenant."""

    @contextmanager
    def measured(self, tenant: str) -> Iterator[Callable[[], bool]]:
        """Validate within the bound. Raises LimitReached once the tenant has reached it.

        Yields what says whether it counts by now.
        """
        began = self.monotonic()
        if (window := int(began // WINDOW_S)) != self._window:
            self._window = window
            self._used.clear()
        if self._used.get(tenant, 0.0) >= MOST_S:
            after_s = max(1, int((window + 1) * WINDOW_S - began) + 1)
            raise LimitReached(
                f"the params of this tenant's types took more than {MOST_S:.0f} s to validate in a "
                f"minute; submit again after {after_s} s, with smaller params or a type whose "
                "schema is simpler",
                retry_after_s=after_s,
            )
        try:
            yield lambda: self.monotonic() - began > SLOW_S
        finally:
            took = self.monotonic() - began
            if took > SLOW_S:
                self._used[tenant] = self._used.get(tenant, 0.0) + took
