"""Adapter for the SQS queue of notifications that wait to be delivered."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from joblane.aws.lanes import BATCH

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient


class NotSent(Exception):
    """SQS refused messages of a batch; the caller sends all of them again."""


class NotifyQueue:
    """Sends notifications, and puts off those that could not be delivered."""

    def __init__(self, client: "SQSClient", url: str) -> None:
        self._client = client
        self._url = url

    def send(self, messages: Sequence[tuple[str, str]]) -> None:
        """Send messages, each after its tenant, ten per request.

        The message group is the tenant: SQS fair queues serve groups in turn, so the webhooks of
        one tenant do not delay those of others.

        Raises ClientError and BotoCoreError, and NotSent if SQS refuses some of the messages.
        """
        for start in range(0, len(messages), BATCH):
            answer = self._client.send_message_batch(
                QueueUrl=self._url,
                Entries=[
                    {"Id": str(n), "MessageBody": body, "MessageGroupId": tenant}
                    for n, (tenant, body) in enumerate(messages[start : start + BATCH])
                ],
            )
            if refused := answer.get("Failed", []):
                raise NotSent(f"SQS refused {len(refused)} messages: {refused[0].get('Code')}")

    def hide(self, receipt: str, seconds: int) -> None:
        """Let a message be received again after so many seconds, 0 to 43,200."""
        self._client.change_message_visibility(
            QueueUrl=self._url, ReceiptHandle=receipt, VisibilityTimeout=seconds
        )
