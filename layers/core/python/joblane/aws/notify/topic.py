"""Adapter for the SNS topic that notifies operators."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_sns.client import SNSClient

MAX_SUBJECT = 100
"""Maximum length of a subject in SNS, in ASCII characters."""


class Topic:
    """Publishes notifications."""

    def __init__(self, client: "SNSClient", arn: str) -> None:
        self._client = client
        self._arn = arn

    def publish(self, subject: str, text: str) -> None:
        """Publish a notification; a subject that SNS would refuse is cut and made ASCII."""
        ascii_subject = subject.encode("ascii", "replace").decode()[:MAX_SUBJECT]
        self._client.publish(TopicArn=self._arn, Subject=ascii_subject, Message=text)
