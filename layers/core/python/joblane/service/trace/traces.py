"""Pick what ended in a batch of the stream, and send it to the function that exports spans.

    table                      projector                 queue traces            tracer
    retry, completed  ------>  counts, then picks
                               send  ----------------->  message  ------------>  makes spans, POST

The stream allows two readers, and both are there already, so the projector does it. Counters do not
wait for it and never fail with it: what cannot be sent is lost, and a log entry says how much.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from joblane.aws.trace.queue import TraceQueue
from joblane.aws.trace.stream import read_ended
from joblane.errors import Unavailable
from joblane.service.log import Log


@dataclass(frozen=True)
class Traces:
    """Sends what ended."""

    queue: TraceQueue
    ratio: float
    """The part of the traces without a caller that are in the sample, 0 to 1."""
    log: Log

    def send(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Send what ended in records of the stream. Never raises."""
        found = []
        for record in records:
            try:
                ended = read_ended(record, self.ratio)
            except Exception:
                # The same record is counted, or put aside: one without spans is no loss.
                self.log.exception("spans cannot be made of a record")
                continue
            if ended is not None:
                found.append(ended)
        try:
            messages = self.queue.send(found)
        except Unavailable:
            self.log.exception("spans not sent", ended=len(found))
            return
        if messages:
            self.log.info("spans sent", ended=len(found), messages=messages)
