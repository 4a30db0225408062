"""The interface that every backend has: three calls, made by one thread."""

from collections.abc import Sequence
from typing import Protocol

from ec2_agent.state.records import Record, Result, Write


class BackendError(Exception):
    """A backend could not do what was asked; nothing of the request is certain to be stored.

    `code` is one of the protocol's; `passing` says whether the same request may succeed soon.
    """

    def __init__(self, code: str, text: str, *, passing: bool) -> None:
        super().__init__(text)
        self.code = code
        self.passing = passing


class Backend(Protocol):
    """Keeps records. Raises BackendError only."""

    def write(self, writes: Sequence[Write], now: float) -> list[Result]:
        """Do writes in order, each by itself; what is done is durable when this returns."""
        ...

    def get(self, kind: str, ids: Sequence[str], now: float) -> list[Record]:
        """Read records, in the order of `ids`, without those that are not there."""
        ...

    def list(
        self, kind: str, after: str | None, limit: int, now: float
    ) -> tuple[list[Record], str | None]:
        """Read a page of a kind in the order of ids; the second value is the next `after`."""
        ...

    def check(self) -> None:
        """Raise BackendError if a write would fail now. Asked every few seconds."""
        ...

    def tidy(self, now: float) -> None:
        """Forget what has expired. Asked once a minute while there is something to do."""
        ...

    def sync(self) -> None:
        """Bring to the disk what only the kernel has. Asked every `sync_interval` above 0."""
        ...

    def close(self) -> None:
        """Leave everything in order on disk."""
        ...
