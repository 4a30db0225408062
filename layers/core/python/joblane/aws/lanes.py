"""One SQS queue: a lane, or its dead-letter queue."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from joblane.message import Message

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef

VISIBILITY_S = 120
"""How long a received message stays invisible before its agent must have extended it."""

MAX_VISIBILITY_S = 43_200
"""SQS keeps a message in flight 12 h at most."""

BATCH = 10
"""Entries of one SQS batch request."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message in flight."""

    body: str
    receipt: str
    receives: int
    """How often SQS has handed it out, this time included."""
    sent_ms: int


@dataclass(frozen=True, slots=True)
class Lengths:
    """How many messages a queue holds, as SQS estimates it."""

    visible: int
    in_flight: int
    delayed: int


class LaneQueue:
    """Sends to, receives from and measures one SQS queue."""

    def __init__(self, client: "SQSClient", url: str) -> None:
        self._client = client
        self.url = url

    def send(self, message: Message) -> None:
        """Send a wake-up call.

        Its group is the tenant: SQS's fair queues serve groups in turn, so that one tenant's
        backlog does not starve another's.
        """
        self._client.send_message(
            QueueUrl=self.url, MessageBody=message.encode(), MessageGroupId=message.tenant
        )

    def receive(self, most: int, wait_s: int) -> list[Received]:
        """Receive up to `most` (1 to 10) messages, waiting up to `wait_s` (0 to 20) seconds."""
        answer = self._client.receive_message(
            QueueUrl=self.url,
            MaxNumberOfMessages=most,
            WaitTimeSeconds=wait_s,
            VisibilityTimeout=VISIBILITY_S,
            MessageSystemAttributeNames=["ApproximateReceiveCount", "SentTimestamp"],
        )
        return [_received(message) for message in answer.get("Messages", [])]

    def delete(self, receipt: str) -> None:
        """Delete a message: its job has ended or was handed on."""
        self._client.delete_message(QueueUrl=self.url, ReceiptHandle=receipt)

    def hide(self, receipt: str, seconds: int) -> None:
        """Let a message be seen again after `seconds` (0 to 43,200): 0 hands it back at once."""
        self._client.change_message_visibility(
            QueueUrl=self.url, ReceiptHandle=receipt, VisibilityTimeout=seconds
        )

    def extend(self, receipts: Sequence[str]) -> list[str]:
        """Keep messages invisible for another `VISIBILITY_S`; returns those SQS refused."""
        refused: list[str] = []
        for start in range(0, len(receipts), BATCH):
            batch = receipts[start : start + BATCH]
            answer = self._client.change_message_visibility_batch(
                QueueUrl=self.url,
                Entries=[
                    {"Id": str(n), "ReceiptHandle": receipt, "VisibilityTimeout": VISIBILITY_S}
                    for n, receipt in enumerate(batch)
                ],
            )
            refused += [batch[int(failure["Id"])] for failure in answer.get("Failed", [])]
        return refused

    def send_raw(self, body: str, reason: str) -> None:
        """Put a message that is not ours where an operator finds it, with what is wrong."""
        self._client.send_message(
            QueueUrl=self.url,
            MessageBody=body,
            MessageAttributes={"reason": {"DataType": "String", "StringValue": reason}},
        )

    def lengths(self) -> Lengths:
        """Ask SQS for its estimates."""
        answer = self._client.get_queue_attributes(
            QueueUrl=self.url,
            AttributeNames=[
                "ApproximateNumberOfMessages",
                "ApproximateNumberOfMessagesNotVisible",
                "ApproximateNumberOfMessagesDelayed",
            ],
        )["Attributes"]
        return Lengths(
            visible=int(answer["ApproximateNumberOfMessages"]),
            in_flight=int(answer["ApproximateNumberOfMessagesNotVisible"]),
            delayed=int(answer["ApproximateNumberOfMessagesDelayed"]),
        )


def _received(message: "MessageTypeDef") -> Received:
    attributes = message["Attributes"]
    return Received(
        body=message["Body"],
        receipt=message["ReceiptHandle"],
        receives=int(attributes["ApproximateReceiveCount"]),
        sent_ms=int(attributes["SentTimestamp"]),
    )
