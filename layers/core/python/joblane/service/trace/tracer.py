"""Make spans of the messages of the queue of traces, and export them.

    queue traces              tracer                          endpoint
    message  -------------->  POST  ----------------------->  503, Retry-After: 30
             <--------------  hides it for 30 s
    (30 s later)
    message  -------------->  POST  ----------------------->  200
             <--------------  deleted

A request that the endpoint refuses (400, 401, 404) must not be made again, says OTLP: something has
to be changed first. Its message goes to the dead-letter queue at once, and an operator is told. A
function that is killed after the POST makes it again, with the same ids.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, Protocol

from joblane.aws.trace.queue import SpanBatch, TraceQueue
from joblane.errors import Unavailable
from joblane.job.spans import Span, spans
from joblane.notify.schedule import MAX_S, wait_s
from joblane.service.log import Log
from joblane.service.trace.otlp_endpoint import NotExported, OtlpEndpoint, SpansRefused

AT_ONCE: Final = 10
"""Messages of a batch that are exported at the same time: all of them."""

RETRY_S: Final = (5, 15, 60, 300, 900, 1800, 3600)
"""Seconds after each failed attempt, in all two hours: backends refuse spans that are much older.
After the last one SQS moves the message to the dead-letter queue."""


class Encoding(Protocol):
    """The encoding of requests and answers (`joblane.http.otlp`)."""

    def encode(self, found: Sequence[Span]) -> bytes:
        """Encode an export request."""

    def count_rejected(self, answer: bytes) -> tuple[int, str]:
        """How many spans an answer rejects, and why; the text may be a warning for none."""


@dataclass(frozen=True)
class Tracer:
    """Exports spans."""

    queue: TraceQueue
    endpoint: OtlpEndpoint
    encoding: Callable[[], Encoding]
    """Returns the encoding; called for the first message, since it takes long to load."""
    bury: Callable[[str], None]
    """Sends a message's body to the dead-letter queue. Raises Unavailable."""
    retry_s: Sequence[int]
    """Seconds after each failed attempt."""
    log: Log
    _: KW_ONLY
    jitter: Callable[[], float] = random.random
    """Returns a number from 0 to 1."""
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    def handle(self, records: Iterable[Mapping[str, Any]]) -> list[str]:
        """Export each record of an SQS event; returns the ids of those to be delivered again."""
        encoding = self.encoding()
        with self.pool(AT_ONCE) as pool:
            results = pool.map(lambda record: self._one(encoding, record), records)
            return [failed for failed in results if failed is not None]

    def _one(self, encoding: Encoding, record: Mapping[str, Any]) -> str | None:
        """Export one; returns its id if that failed and may succeed later."""
        message_id = str(record.get("messageId"))
        attempt = int(record.get("attributes", {}).get("ApproximateReceiveCount", 1))
        names: dict[str, object] = {"message_id": message_id, "attempt": attempt}
        after_s: int | None = None
        try:
            batch = SpanBatch.model_validate_json(record["body"])
            found = [span for ended in batch.ended for span in spans(ended)]
            names["spans"] = len(found)
            number, why = encoding.count_rejected(self.endpoint.post(encoding.encode(found)))
        except SpansRefused as refusal:
            self.log.warning("spans refused", problem=str(refusal), **names)
            if self._bury(record["body"], names):
                return None
        except NotExported as error:
            self.log.warning("spans not exported", problem=str(error), **names)
            after_s = error.after_s
        except Exception:
            # Whatever it was, the other messages must not wait for it.
            self.log.exception("spans not exported", **names)
        else:
            if number or why:
                self.log.warning("spans rejected", rejected=number, problem=why, **names)
            self.log.info("spans exported", **names)
            return None
        self._put_off(str(record.get("receiptHandle")), attempt, after_s, names)
        return message_id

    def _bury(self, body: str, names: Mapping[str, object]) -> bool:
        """Send a message to the dead letters; returns whether it is there."""
        try:
            self.bury(body)
        except Unavailable as error:
            self.log.warning("message not put aside", problem=str(error), **names)
            return False
        return True

    def _put_off(
        self, receipt: str, attempt: int, after_s: int | None, names: Mapping[str, object]
    ) -> None:
        """Have the message come back later; if that fails, after the queue's own timeout.

        When the endpoint says, if it does, and a little later, so that what was refused together
        does not come back together.
        """
        spread = self.jitter()
        later = wait_s(attempt, self.retry_s, spread)
        if after_s is not None and attempt <= len(self.retry_s):
            later = min(MAX_S, round(after_s * (1 + spread / 5)))
        try:
            self.queue.hide(receipt, later)
        except Unavailable as error:
            self.log.warning("message not put off", problem=str(error), **names)
