"""One record that cannot be handled never blocks a stream: it is put aside for an operator."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from joblane.errors import Failure, Unavailable
from joblane.service.log import Log

T = TypeVar("T")

Record = Mapping[str, Any]
"""A record of a stream."""


@dataclass(frozen=True)
class PutAside:
    """Puts aside what cannot be handled, without the content of jobs."""

    source: str
    """Name of the function."""
    send: Callable[[Mapping[str, Any]], object]
    """Sends a description to an operator."""
    log: Log

    def read(self, records: Iterable[Record], read: Callable[[Record], T | None]) -> Iterator[T]:
        """Read records, without those of which nothing follows. Raises what is retryable."""
        for record in records:
            stream = record.get("dynamodb") or {}
            names = {"keys": stream.get("Keys"), "sequence": stream.get("SequenceNumber")}
            found = self.handled("a stream record cannot be read", partial(read, record), **names)
            if found is not None:
                yield found

    def handled(self, problem: str, handle: Callable[[], T], **details: object) -> T | None:
        """Handle something; None if it is put aside: its error comes again however often it is.

        Raises what is retryable.
        """
        try:
            return handle()
        except Exception as error:
            if isinstance(error, Failure) and error.retryable:
                raise
            what = {"source": self.source, "problem": f"{problem}: {type(error).__name__}"}
            self.log.exception("put aside", record=what | details)
            try:
                self.send(what | details)
            except Unavailable:
                self.log.exception("could not be put aside; it is in this log only")
            return None
