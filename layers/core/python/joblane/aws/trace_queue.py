"""Adapter for the SQS queue of what the spans of jobs are made of."""

from collections.abc import Iterable, Iterator

from pydantic import BaseModel, ConfigDict

from joblane.aws.delivery_queue import DeliveryQueue
from joblane.job.spans import Ended

MESSAGE_BYTES = 200_000
"""A message is sent when it has more: SQS allows 262,144, and what ended in one change of a job
takes a few hundred bytes, some 10,000 with a long timeline."""


class Batch(BaseModel):
    """The content of a message."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    ended: tuple[Ended, ...]


class TraceQueue(DeliveryQueue):
    """Sends what has ended, and puts off what could not be exported."""

    def send(self, found: Iterable[Ended]) -> int:
        """Send it in as few messages as it takes; returns how many.

        Raises ClientError and BotoCoreError.
        """
        bodies = list(_bodies(found))
        for body in bodies:
            self._client.send_message(QueueUrl=self._url, MessageBody=body)
        return len(bodies)


def _bodies(found: Iterable[Ended]) -> Iterator[str]:
    texts: list[str] = []
    size = 0
    for ended in found:
        texts.append(ended.model_dump_json(exclude_defaults=True))
        size += len(texts[-1].encode())
        if size > MESSAGE_BYTES:
            yield _body(texts)
            texts, size = [], 0
    if texts:
        yield _body(texts)


def _body(texts: list[str]) -> str:
    return f'{{"ended":[{",".join(texts)}]}}'
