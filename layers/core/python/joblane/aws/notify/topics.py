"""Adapter for the SNS topics that jobs notify."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_sns.client import SNSClient


@dataclass(frozen=True)
class Topics:
    """Publishes to topics of any region."""

    client: "Callable[[str], SNSClient]"
    """Makes a client for a region."""
    _clients: "dict[str, SNSClient]" = field(default_factory=dict)
    _making: Lock = field(default_factory=Lock)
    """Held while a client is made: the sessions of botocore are not thread-safe."""

    def publish(self, arn: str, text: str, attributes: Mapping[str, str]) -> None:
        """Publish a message. Raises Unavailable."""
        region = arn.split(":")[3]
        with self._making:
            if region not in self._clients:
                self._clients[region] = self.client(region)
        self._clients[region].publish(
            TopicArn=arn,
            Message=text,
            MessageAttributes={
                name: {"DataType": "String", "StringValue": value}
                for name, value in attributes.items()
            },
        )
