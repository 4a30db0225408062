"""Adapter for the SQS queue of jobs that are exported."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

from joblane.aws.export.stream import Exported
from joblane.aws.sqs_text import sqs_text

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

MESSAGE_BYTES: Final = 62_000
"""A message has no more, unless it is about one job: SQS charges each 64 KB as a request."""


class ExportBatch(BaseModel):
    """The content of a message."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    exported: tuple[Exported, ...]


class ExportQueue:
    """Sends what is exported."""

    def __init__(self, client: "SQSClient", url: str) -> None:
        self._client = client
        self._url = url

    def send(self, found: Iterable[Exported]) -> int:
        """Send it in as few messages as it takes; returns how many. Raises Unavailable."""
        bodies = list(_bodies(found))
        for body in bodies:
            self._client.send_message(QueueUrl=self._url, MessageBody=body)
        return len(bodies)


def encode_batch(found: Iterable[Exported]) -> str:
    """The body of one message."""
    return sqs_text(ExportBatch(exported=tuple(found)).model_dump_json())


def _bodies(found: Iterable[Exported]) -> Iterator[str]:
    batch: list[Exported] = []
    size = 0
    for each in found:
        length = len(sqs_text(each.model_dump_json()).encode()) + 1
        if batch and size + length > MESSAGE_BYTES:
            yield encode_batch(batch)
            batch, size = [], 0
        batch.append(each)
        size += length
    if batch:
        yield encode_batch(batch)
