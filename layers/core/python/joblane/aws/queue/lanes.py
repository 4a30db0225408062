"""Adapter for SQS: lanes, their dead-letter queues, and agents' inboxes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from joblane.aws.fleet.inboxes import NO_SUCH_QUEUE
from joblane.aws.queue.batch import BATCH
from joblane.deployment.names import Lane, inbox_name, lane_name
from joblane.job.disk import OUTPUT_MB
from joblane.job.message import Command, Message, NotOurs
from joblane.job.spec import DEFAULT_MEMORY_MB

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient
    from mypy_boto3_sqs.type_defs import (
        DeleteMessageBatchRequestEntryTypeDef,
        DeleteMessageBatchRequestTypeDef,
        DeleteMessageBatchResultTypeDef,
        MessageTypeDef,
        ReceiveMessageRequestTypeDef,
        ReceiveMessageResultTypeDef,
    )

VISIBILITY_S = 120
"""Visibility timeout: an agent must extend it within this time."""

MAX_VISIBILITY_S = 43_200
"""Maximum visibility timeout of SQS: 12 h."""

MAX_DELAY_S = 900
"""Maximum message delay of SQS: 15 minutes."""

_AT_WORK = 64
"""Messages whose content is kept: one is read five times from its receipt to its job's end."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message in flight."""

    body: str
    receipt: str
    receives: int
    """How often SQS has delivered it, including this delivery."""
    sent_ms: int

    @property
    def message(self) -> Message | None:
        """What it says; None if Joblane did not write it."""
        try:
            return read_body(self.body)
        except NotOurs:
            return None

    @property
    def first_sent_ms(self) -> int:
        """When it was sent, or the first of those that it replaces."""
        found = self.message
        if found is None or found.first_sent_ms is None:
            return self.sent_ms
        return found.first_sent_ms

    @property
    def memory_mb(self) -> int:
        """Memory that its job asks for, in MiB."""
        return DEFAULT_MEMORY_MB if (found := self.message) is None else found.memory_mb

    @property
    def disk_mb(self) -> int:
        """What its job puts on the host's disk, in MiB."""
        return OUTPUT_MB if (found := self.message) is None else found.disk_mb

    @property
    def work_mb(self) -> int:
        """How much of that is the job's work directory."""
        return 0 if (found := self.message) is None else found.work_mb

    @property
    def job_queue(self) -> str | None:
        """Queue of its job; only in messages of inboxes."""
        return None if (found := self.message) is None else found.queue


@lru_cache(_AT_WORK)
def read_body(body: str) -> Message:
    """Decode the body of a message. Raises NotOurs."""
    return Message.decode(body)


@dataclass(frozen=True, slots=True)
class Lengths:
    """Estimated numbers of messages in a queue."""

    visible: int
    in_flight: int
    delayed: int


class LaneQueue:
    """Sends to, receives from and measures one SQS queue."""

    def __init__(self, client: "SQSClient", url: str) -> None:
        self._client = client
        self.url = url

    def send(self, message: Message, delay_s: int = 0) -> None:
        """Send a wake-up message, delayed by `delay_s` (0 to 900) seconds.

        Its message group is the tenant: SQS fair queues serve groups in turn, so one tenant's
        backlog does not delay another tenant's jobs.
        """
        self._client.send_message(
            QueueUrl=self.url,
            MessageBody=message.encode(),
            MessageGroupId=message.tenant,
            DelaySeconds=delay_s,
        )

    def send_batch(self, messages: Sequence[tuple[Message, int]]) -> list[Message]:
        """Send messages with their delays, ten per request; returns those that SQS refused."""
        refused: list[Message] = []
        for start in range(0, len(messages), BATCH):
            batch = messages[start : start + BATCH]
            answer = self._client.send_message_batch(
                QueueUrl=self.url,
                Entries=[
                    {
                        "Id": str(n),
                        "MessageBody": message.encode(),
                        "MessageGroupId": message.tenant,
                        "DelaySeconds": delay_s,
                    }
                    for n, (message, delay_s) in enumerate(batch)
                ],
            )
            refused += [batch[int(failure["Id"])][0] for failure in answer.get("Failed", [])]
        return refused

    def receive(self, most: int, wait_s: int) -> list[Received]:
        """Receive up to `most` (1 to 10) messages, waiting up to `wait_s` (0 to 20) seconds."""
        return decode_received(self._client.receive_message(**self.receive_request(most, wait_s)))

    def receive_request(self, most: int, wait_s: int) -> "ReceiveMessageRequestTypeDef":
        """The request of `receive`, which may be sent by other means; see `decode_received`."""
        return {
            "QueueUrl": self.url,
            "MaxNumberOfMessages": most,
            "WaitTimeSeconds": wait_s,
            "VisibilityTimeout": VISIBILITY_S,
            "MessageSystemAttributeNames": ["ApproximateReceiveCount", "SentTimestamp"],
        }

    def delete(self, receipt: str) -> None:
        """Delete a message whose job has ended or has another message."""
        self._client.delete_message(QueueUrl=self.url, ReceiptHandle=receipt)

    def delete_batch(self, receipts: Sequence[str]) -> dict[str, ClientError]:
        """Delete up to ten messages with one request.

        Returns the errors of those that SQS did not delete, by receipt.
        """
        request = self.delete_request(receipts)
        return not_deleted(receipts, self._client.delete_message_batch(**request))

    def delete_request(self, receipts: Sequence[str]) -> "DeleteMessageBatchRequestTypeDef":
        """The request of `delete_batch`, which may be sent by other means; see `not_deleted`."""
        entries: list[DeleteMessageBatchRequestEntryTypeDef] = [
            {"Id": str(n), "ReceiptHandle": receipt} for n, receipt in enumerate(receipts)
        ]
        return {"QueueUrl": self.url, "Entries": entries}

    def hide(self, receipt: str, seconds: int) -> None:
        """Make a message visible again after `seconds` (0 to 43,200); 0 means at once."""
        self._client.change_message_visibility(
            QueueUrl=self.url, ReceiptHandle=receipt, VisibilityTimeout=seconds
        )

    def send_again(self, received: Received, delay_s: int) -> None:
        """Send a copy of a message in flight, delayed by `delay_s` seconds.

        It says when the first one was sent. A delay above `MAX_DELAY_S` is reduced to that.
        """
        copy = read_body(received.body).model_copy(update={"first_sent_ms": received.first_sent_ms})
        self.send(copy, min(delay_s, MAX_DELAY_S))

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

    def send_raw(self, body: str, reason: str, lane: str) -> None:
        """Send an unreadable message to a queue for operators, with the reason.

        `lane` is the name of the SQS queue that it was in.
        """
        said = {"reason": reason, "lane": lane}
        self._client.send_message(
            QueueUrl=self.url,
            MessageBody=body,
            MessageAttributes={
                name: {"DataType": "String", "StringValue": text} for name, text in said.items()
            },
        )

    def lengths(self) -> Lengths:
        """Read SQS's estimates."""
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


class Lanes:
    """The lanes and inboxes of one deployment."""

    def __init__(self, client: "SQSClient", queue_url_prefix: str, deployment: str) -> None:
        self._client = client
        self._prefix = queue_url_prefix
        self._deployment = deployment

    def lane(self, queue: str, lane: Lane) -> LaneQueue:
        """The SQS queue behind one lane."""
        return LaneQueue(self._client, self._prefix + self.name(queue, lane))

    def send(self, queue: str, lane: Lane, message: Message, delay_s: int = 0) -> bool:
        """Send a message to a lane; False if the queue is gone: joblane.toml has it no more.

        For a minute after it was deleted SQS may still accept messages, which are lost.
        """
        try:
            self.lane(queue, lane).send(message, delay_s)
        except ClientError as error:
            if error.response["Error"]["Code"] != NO_SUCH_QUEUE:
                raise
            return False
        return True

    def send_batch(
        self, queue: str, lane: Lane, messages: Sequence[tuple[Message, int]]
    ) -> list[Message] | None:
        """Send messages with their delays to a lane; returns those that SQS refused.

        None if the queue is gone, as in `send`. Some may have been sent before that.
        """
        try:
            return self.lane(queue, lane).send_batch(messages)
        except ClientError as error:
            if error.response["Error"]["Code"] != NO_SUCH_QUEUE:
                raise
            return None

    def send_to_inbox(self, agent: str, message: Message, delay_s: int = 0) -> bool:
        """Send the message of a job that only this agent may run; False if it has no inbox."""
        inbox = LaneQueue(self._client, self._prefix + inbox_name(self._deployment, agent))
        try:
            inbox.send(message, delay_s)
        except ClientError as error:
            if error.response["Error"]["Code"] != NO_SUCH_QUEUE:
                raise
            return False
        return True

    def name(self, queue: str, lane: Lane) -> str:
        """Name of the SQS queue behind one lane."""
        return lane_name(self._deployment, queue, lane)

    def send_command(self, agent: str, command: Command) -> bool:
        """Send a command to an agent's inbox; False if there is no inbox: the agent is gone."""
        try:
            self._client.send_message(
                QueueUrl=self._prefix + inbox_name(self._deployment, agent),
                MessageBody=command.encode(),
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != NO_SUCH_QUEUE:
                raise
            return False
        return True


def decode_received(answer: "ReceiveMessageResultTypeDef") -> list[Received]:
    """The messages in an answer to `receive_request`."""
    return [_decode_one(message) for message in answer.get("Messages", [])]


def not_deleted(
    receipts: Sequence[str], answer: "DeleteMessageBatchResultTypeDef"
) -> dict[str, ClientError]:
    """The errors in an answer to `delete_request`, by receipt."""
    return {
        receipts[int(failure["Id"])]: ClientError(
            {"Error": {"Code": failure["Code"], "Message": failure.get("Message", "")}},
            "DeleteMessageBatch",
        )
        for failure in answer.get("Failed", [])
    }


def _decode_one(message: "MessageTypeDef") -> Received:
    attributes = message["Attributes"]
    return Received(
        body=message["Body"],
        receipt=message["ReceiptHandle"],
        receives=int(attributes["ApproximateReceiveCount"]),
        sent_ms=int(attributes["SentTimestamp"]),
    )
