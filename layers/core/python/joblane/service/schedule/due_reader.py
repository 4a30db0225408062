"""Read messages of the queue `due` as Lambda delivers them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from joblane.aws.schedule.due_queue import DueMessage, DueQueue
from joblane.service.log import Log
from joblane.service.schedule.firing import Firing


@dataclass(frozen=True)
class DueReader:
    """Handles batches of messages."""

    firing: Firing
    queue: DueQueue
    log: Log

    def handle(
        self, records: Sequence[Mapping[str, Any]], left_s: Callable[[], float]
    ) -> list[str]:
        """Handle the records of a batch. Returns ids of the messages that are to come again.

        One that came too early is sent again for its time; one whose schedule could not be handled
        comes again after the visibility timeout, and after some failures goes to `alternate`.
        """
        failed = []
        for record in records:
            try:
                again = self._handle(record, left_s)
            except Exception:
                # Whatever it was, the others of the batch are due as well, and must not wait.
                self.log.exception("a schedule could not be handled", body=record["body"])
                again = True
            if again:
                failed.append(record["messageId"])
        return failed

    def _handle(self, record: Mapping[str, Any], left_s: Callable[[], float]) -> bool:
        """Handle one message. Returns whether it is to come again."""
        try:
            message = DueMessage.decode(record["body"])
        except ValueError:
            self.log.exception("a message of the queue due cannot be read", body=record["body"])
            return False
        again = int(record["attributes"]["ApproximateReceiveCount"]) > 1
        wait_ms = self.firing.handle(message, left_s, again=again)
        if wait_ms is None:
            return False
        # Another message: receives of this one are counted, and too many are a failure.
        self.queue.send([(message, max(1, round(wait_ms / 1000)))])
        return False
