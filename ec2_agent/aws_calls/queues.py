"""Calls to SQS queues, with deletions that wait a moment for others."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from ec2_agent.aws_calls.direct import DirectCalls, call_either
from ec2_agent.calls import AWS_ERRORS, in_thread
from joblane.aws.queue.batch import BATCH
from joblane.aws.queue.lanes import LaneQueue, Received, decode_received, not_deleted

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient
    from mypy_boto3_sqs.type_defs import ReceiveMessageResultTypeDef

WINDOW_S = 0.03
"""How long a deletion waits for others. The job has ended and its outcome is stored, so nobody
waits for it; a busy agent ends several jobs in this time."""


class QueueCalls:
    """One queue. Methods raise ClientError and BotoCoreError."""

    def __init__(
        self, queue: LaneQueue, window_s: float = 0, direct: DirectCalls | None = None
    ) -> None:
        """Delete what is to be deleted within `window_s` together; 0: each message at once.

        Without `direct` every call is made through botocore.
        """
        self._queue = queue
        self._direct = direct
        self._window_s = window_s
        self._doomed: list[tuple[str, asyncio.Future[None]]] = []
        """Receipts to be deleted with the next request."""
        self._timer: asyncio.TimerHandle | None = None
        self._requests: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """URL of the queue."""
        return self._queue.url

    async def receive(self, most: int, wait_s: int) -> list[Received]:
        """Receive messages: see `LaneQueue.receive`.

        Messages of an answer that was lost are seen again after their visibility timeout.
        """
        queue = self._queue

        def directly(direct: DirectCalls) -> Awaitable[list[Received]]:
            request = queue.receive_request(most, wait_s)
            return direct.call("ReceiveMessage", request, _check, wait_s)

        receive = partial(queue.receive, most, wait_s)
        return await call_either(self._direct, directly, receive, f"poll {self.url}")

    async def hide(self, receipt: str, seconds: int) -> None:
        """Make a message visible again after `seconds`: see `LaneQueue.hide`."""
        await in_thread(partial(self._queue.hide, receipt, seconds), "hide")

    async def extend(self, receipts: Sequence[str]) -> list[str]:
        """Keep messages invisible: see `LaneQueue.extend`."""
        return await in_thread(partial(self._queue.extend, receipts), "extend visibility")

    async def send_again(self, received: Received, delay_s: int) -> None:
        """Send a copy of a message in flight: see `LaneQueue.send_again`."""
        await in_thread(partial(self._queue.send_again, received, delay_s), "send again")

    async def send_raw(self, body: str, reason: str, lane: str) -> None:
        """Send an unreadable message: see `LaneQueue.send_raw`."""
        await in_thread(partial(self._queue.send_raw, body, reason, lane), "send raw")

    async def delete(self, receipt: str) -> None:
        """Delete a message whose job has ended or has another message, with others of its time.

        Returns when SQS has deleted it. If this process ends before that, the message is received
        again and disposed of by the job's row, as after any lost deletion.
        """
        if not self._window_s:
            await in_thread(partial(self._queue.delete, receipt), "delete")
            return
        loop = asyncio.get_running_loop()
        deleted: asyncio.Future[None] = loop.create_future()
        self._doomed.append((receipt, deleted))
        if len(self._doomed) == BATCH:
            self._request_deletion()
        elif self._timer is None:
            self._timer = loop.call_later(self._window_s, self._request_deletion)
        await deleted

    def _request_deletion(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        batch, self._doomed, self._timer = self._doomed, [], None
        request = asyncio.create_task(self._delete(batch))
        self._requests.add(request)
        request.add_done_callback(self._requests.discard)

    async def _delete(self, batch: Sequence[tuple[str, asyncio.Future[None]]]) -> None:
        """Delete the messages of one request, and tell each who waits how it went."""
        receipts = [receipt for receipt, _ in batch]
        try:
            failed = await self._delete_all(receipts)
            errors: dict[str, Exception] = {**failed}
        except AWS_ERRORS as error:
            errors = dict.fromkeys(receipts, error)
        for receipt, deleted in batch:
            if deleted.done():  # whoever waited was cancelled
                continue
            if receipt in errors:
                deleted.set_exception(errors[receipt])
            else:
                deleted.set_result(None)

    async def _delete_all(self, receipts: Sequence[str]) -> dict[str, ClientError]:
        """See `LaneQueue.delete_batch`; a message that is deleted twice is no error."""
        queue = self._queue

        def directly(direct: DirectCalls) -> Awaitable[dict[str, ClientError]]:
            request = queue.delete_request(receipts)
            return direct.call("DeleteMessageBatch", request, partial(not_deleted, receipts))

        return await call_either(
            self._direct, directly, partial(queue.delete_batch, receipts), "delete"
        )


def _check(answer: "ReceiveMessageResultTypeDef") -> list[Received]:
    """The messages of an answer. Raises ValueError if one is not what SQS sent."""
    for message in answer.get("Messages", []):
        digest = hashlib.md5(message["Body"].encode(), usedforsecurity=False).hexdigest()
        if digest != message["MD5OfBody"]:
            raise ValueError("a message with another digest")
    return decode_received(answer)


QueueAt = Callable[[str], QueueCalls]
"""Gives the queue of a URL."""


class Queues:
    """All queues of one agent."""

    def __init__(
        self, sqs: "SQSClient", window_s: float = 0, direct: DirectCalls | None = None
    ) -> None:
        """See `QueueCalls`."""
        self._sqs = sqs
        self._direct = direct
        self._window_s = window_s
        self._made: dict[str, QueueCalls] = {}

    def at(self, url: str) -> QueueCalls:
        """The queue of a URL; always the same object, which collects deletions."""
        if url not in self._made:
            queue = LaneQueue(self._sqs, url)
            self._made[url] = QueueCalls(queue, self._window_s, self._direct)
        return self._made[url]
