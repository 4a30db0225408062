"""The interface of a backend; its calls are made by one thread."""

from collections.abc import Sequence
from typing import Protocol

from ec2_agent.state.records import StateRecord, StateWrite, WriteResult


class Backend(Protocol):
    """Stores records. Raises StateRefused only."""

    def write(self, writes: Sequence[StateWrite], now: float) -> list[WriteResult]:
        """Do writes in order, each on its own; they are durable when this returns."""
        ...

    def get(self, kind: str, ids: Sequence[str], now: float) -> list[StateRecord]:
        """Read records in the order of `ids`, without those that do not exist."""
        ...

    def list(
        self, kind: str, after: str | None, limit: int, now: float
    ) -> tuple[list[StateRecord], str | None]:
        """Read a page of a kind in the order of ids; the second value is the next `after`."""
        ...

    def check(self) -> None:
        """Raise StateRefused if a read or a write would fail now. Called every few seconds."""
        ...

    def tidy(self, now: float) -> None:
        """Remove expired records. Called once a minute."""
        ...

    def sync(self) -> None:
        """Sync to the disk. Called every `sync_interval` seconds above 0."""
        ...

    def close(self) -> None:
        """Close the backend."""
        ...
