"""Adapter for the SQS queue of what the spans of jobs are made of."""

from collections.abc import Iterable, Iterator

from pydantic import BaseModel, ConfigDict

from joblane.aws.notify.delivery_queue import DeliveryQueue
from joblane.aws.sqs_text import sqs_text
from joblane.job.spans import Ended

MESSAGE_BYTES = 200_000
"""A message has no more, unless it is about one job: what ended in one change takes a few hundred
bytes, some 10,000 with a long timeline, and SQS allows 262,144 at least."""


class SpanBatch(BaseModel):
    """The content of a message."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    ended: tuple[Ended, ...]


class TraceQueue(DeliveryQueue):
    """Sends what has ended, and puts off what could not be exported."""

    def send(self, found: Iterable[Ended]) -> int:
        """Send it in as few messages as it takes; returns how many.

        Raises Unavailable.
        """
        bodies = list(_bodies(found))
        for body in bodies:
            self._client.send_message(QueueUrl=self._url, MessageBody=body)
        return len(bodies)


def _bodies(found: Iterable[Ended]) -> Iterator[str]:
    texts: list[str] = []
    size = len(_body(texts))
    for ended in found:
        text = sqs_text(ended.model_dump_json(exclude_defaults=True))
        length = len(text.encode()) + 1  # with the comma
        if texts and size + length > MESSAGE_BYTES:
            yield _body(texts)
            texts, size = [], len(_body([]))
        texts.append(text)
        size += length
    if texts:
        yield _body(texts)


def _body(texts: list[str]) -> str:
    return f'{{"ended":[{",".join(texts)}]}}'
