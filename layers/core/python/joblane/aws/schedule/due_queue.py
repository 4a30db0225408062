"""Adapter for the SQS queue `due`: a message says that a schedule is to be looked at."""

import json
from collections.abc import Iterable
from typing import Final, NamedTuple

from joblane.aws.notify.delivery_queue import DeliveryQueue
from joblane.aws.queue.batch import BATCH

MAX_DELAY_S: Final = 900


class DueMessage(NamedTuple):
    """Which schedule is to be looked at, and for which due time."""

    tenant: str
    name: str
    due_ms: int
    """The due time for which it was sent, in Unix milliseconds; 0 for none."""

    @classmethod
    def decode(cls, body: str) -> "DueMessage":
        """Read the body of a message. Raises ValueError for what `DueQueue` did not send."""
        tenant, name, due_ms = json.loads(body)
        return cls(str(tenant), str(name), int(due_ms))


class DueQueue(DeliveryQueue):
    """Sends messages, and puts them off."""

    def send(self, messages: Iterable[tuple[DueMessage, int]]) -> int:
        """Send messages, each with its delay in seconds, ten per request.

        A tenant's messages are one group: SQS fair queues serve tenants in turn. Returns how many
        SQS refused; requeue sends these a minute later.
        """
        waiting, refused = list(messages), 0
        for start in range(0, len(waiting), BATCH):
            answer = self._client.send_message_batch(
                QueueUrl=self._url,
                Entries=[
                    {
                        "Id": str(number),
                        "MessageBody": json.dumps(message, separators=(",", ":")),
                        "MessageGroupId": message.tenant,
                        "DelaySeconds": min(delay_s, MAX_DELAY_S),
                    }
                    for number, (message, delay_s) in enumerate(waiting[start : start + BATCH])
                ],
            )
            refused += len(answer.get("Failed", []))
        return refused
