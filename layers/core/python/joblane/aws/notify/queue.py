"""Adapter for the SQS queue of notifications that wait to be delivered."""

from collections.abc import Sequence

from joblane.aws.notify.delivery_queue import DeliveryQueue
from joblane.aws.queue.batch import BATCH
from joblane.aws.sqs_text import sqs_text
from joblane.errors import Failure


class NotSent(Failure):
    """SQS refused messages of a batch; the caller sends all of them again."""

    retryable = True


class NotifyQueue(DeliveryQueue):
    """Sends notifications, and puts off those that could not be delivered."""

    def send(self, messages: Sequence[tuple[str, str]]) -> None:
        """Send JSON messages, each after its message group, ten per request.

        SQS fair queues serve groups in turn: what one has too much of does not delay the others.

        Raises Unavailable, and NotSent if SQS refuses some of the messages.
        """
        for start in range(0, len(messages), BATCH):
            answer = self._client.send_message_batch(
                QueueUrl=self._url,
                Entries=[
                    {"Id": str(n), "MessageBody": sqs_text(body), "MessageGroupId": group}
                    for n, (group, body) in enumerate(messages[start : start + BATCH])
                ],
            )
            if refused := answer.get("Failed", []):
                raise NotSent(f"SQS refused {len(refused)} messages: {refused[0].get('Code')}")
