"""Count activity in queues, from the change stream of the `jobs` table.

A batch of the stream becomes one write for each tenant, queue and minute in it. When a batch is
delivered again, its writes replace those of the first delivery (`joblane.aws.counters`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from joblane.aws.counters import CounterStore
from joblane.aws.job_stream import read_record
from joblane.queue.activity import Change, fold
from joblane.service.log import Log


@dataclass(frozen=True)
class Counting:
    """Counts batches of the stream."""

    counters: CounterStore
    put_aside: Callable[[Mapping[str, Any]], None]
    """Sends the description of an unreadable record to an operator."""
    log: Log

    def handle(self, records: Iterable[Mapping[str, Any]]) -> int:
        """Count a batch of stream records; returns how many counters were written.

        An unreadable record is put aside, so that it does not block the stream. Raises
        ClientError and BotoCoreError when a counter cannot be written; Lambda then delivers the
        batch again.
        """
        changes: list[Change] = []
        for record in records:
            try:
                change = read_record(record)
            except Exception as error:  # noqa: BLE001 - one record must never block the stream
                self._unreadable(record, error)
                continue
            if change is not None:
                changes.append(change)
        counters = fold(changes)
        for series, (sequence, tally) in counters.items():
            self.counters.put(series, sequence, tally)
        self.log.info("counted", changes=len(changes), counters=len(counters))
        return len(counters)

    def _unreadable(self, record: Mapping[str, Any], error: Exception) -> None:
        """Describe a record to an operator, without the content of its job."""
        stream = record.get("dynamodb") or {}
        what = {
            "source": "projector",
            "problem": f"a stream record cannot be read: {type(error).__name__}",
            "keys": stream.get("Keys"),
            "sequence": stream.get("SequenceNumber"),
        }
        self.log.error("stream record put aside", record=what)
        try:
            self.put_aside(what)
        except (BotoCoreError, ClientError):
            self.log.exception("a stream record could not be put aside; it is in this log only")
