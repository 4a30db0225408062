"""A clock that passes only when a test says so."""

from dataclasses import dataclass


@dataclass
class Clock:
    """Seconds that pass only when somebody says so."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        """The time."""
        return self.now

    def pass_s(self, seconds: float) -> None:
        """Let seconds pass."""
        self.now += seconds
