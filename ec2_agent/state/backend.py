"""The interface of a backend; its calls are made by one thread."""

from collections.abc import Sequence
from typing import Protocol

from ec2_agent.state.records import Record, Result, Write


class BackendError(Exception):
    """A backend could not carry out a request; some of it may be stored.

    `code` is one of `protocol.CODES`; `passing`: the same request may succeed soon.
    """

    def __init__(self, code: str, text: str, *, passing: bool) -> None:
        super().__init__(text)
        self.code = code
        self.passing = passing


class Backend(Protocol):
    """Stores records. Raises BackendError only."""

    def write(self, writes: Sequence[Write], now: float) -> list[Result]:
        """Do writes in order, each on its own; they are durable when this returns."""
        ...

    def get(self, kind: str, ids: Sequence[str], now: float) -> list[Record]:
        """Read records in the order of `ids`, without those that do not exist."""
        ...

    def list(
        self, kind: str, after: str | None, limit: int, now: float
    ) -> tuple[list[Record], str | None]:
        """Read a page of a kind in the order of ids; the second value is the next `after`."""
        ...

    def check(self) -> None:
        """Raise BackendError if a write would fail now. Called every few seconds."""
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
