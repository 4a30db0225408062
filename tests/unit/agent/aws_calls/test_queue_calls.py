"""Deletions that wait a moment for others: one request, and each caller learns how its own went."""

import asyncio
from collections.abc import Sequence

from botocore.exceptions import ClientError

from ec2_agent.aws_calls.queues import QueueCalls
from joblane.aws.queue.batch import BATCH
from joblane.aws.queue.lanes import LaneQueue
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.jobs import JOB, named


class Counting(LaneQueue):
    """A lane that notes how many messages each request deletes."""

    def __init__(self, aws: Cloud) -> None:
        super().__init__(aws.clients.make("sqs"), DESCRIPTOR.lane_url("default", "default"))
        self.requests: list[int] = []
        self.away = False

    def delete_batch(self, receipts: Sequence[str]) -> dict[str, ClientError]:
        """Delete, and note it."""
        self.requests.append(len(receipts))
        if self.away:
            raise ClientError({"Error": {"Code": "Throttling"}}, "DeleteMessageBatch")
        return super().delete_batch(receipts)

    def receipts(self, number: int) -> list[str]:
        """Send and receive so many messages."""
        found: list[str] = []
        self.send_batch([(named(JOB), 0)] * number)
        while len(found) < number:
            found += [received.receipt for received in self.receive(10, 0)]
        return found

    @property
    def left(self) -> int:
        """Messages that were not deleted."""
        lengths = self.lengths()
        return lengths.visible + lengths.in_flight


def delete_together(lane: Counting, receipts: Sequence[str]) -> list[BaseException | None]:
    """Delete messages at the same time."""

    async def work() -> list[BaseException | None]:
        calls = QueueCalls(lane, 0.01)
        deletions = (calls.delete(receipt) for receipt in receipts)
        return list(await asyncio.gather(*deletions, return_exceptions=True))

    return asyncio.run(work())


def test_messages_of_one_moment_are_deleted_with_one_request_for_ten(aws: Cloud):
    lane = Counting(aws)
    assert [None] * 25 == delete_together(lane, lane.receipts(25))
    assert [5, BATCH, BATCH] == sorted(lane.requests)
    assert 0 == lane.left


def test_only_the_message_that_sqs_refuses_to_delete_has_an_error(aws: Cloud):
    lane = Counting(aws)
    (one, other) = lane.receipts(2)
    before, error, after = delete_together(lane, [one, "no receipt", other])
    assert (None, None) == (before, after)
    assert isinstance(error, ClientError)
    assert "ReceiptHandleIsInvalid" == error.response["Error"]["Code"]
    assert 0 == lane.left


def test_a_request_that_fails_is_the_error_of_all_its_messages(aws: Cloud):
    lane = Counting(aws)
    lane.away = True
    errors = delete_together(lane, lane.receipts(2))
    assert ["Throttling"] * 2 == [
        error.response["Error"]["Code"] for error in errors if isinstance(error, ClientError)
    ]
    assert 2 == lane.left


def test_who_gives_up_takes_nothing_from_the_others(aws: Cloud):
    lane = Counting(aws)
    (one, other) = lane.receipts(2)

    async def work() -> None:
        calls = QueueCalls(lane, 0.01)
        gone = asyncio.create_task(calls.delete(one))
        stays = asyncio.create_task(calls.delete(other))
        await asyncio.sleep(0)
        gone.cancel()
        await stays

    asyncio.run(work())
    assert 0 == lane.left
