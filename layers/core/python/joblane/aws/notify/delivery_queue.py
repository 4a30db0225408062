"""Adapter for an SQS queue whose messages a function delivers, and puts off if it cannot."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient


class DeliveryQueue:
    """Puts off messages."""

    def __init__(self, client: "SQSClient", url: str) -> None:
        self._client = client
        self._url = url

    def hide(self, receipt: str, seconds: int) -> None:
        """Let a message be received again after so many seconds, 0 to 43,200."""
        self._client.change_message_visibility(
            QueueUrl=self._url, ReceiptHandle=receipt, VisibilityTimeout=seconds
        )
