"""The agent's inbox: an SQS queue of its own, with commands for the agent and its jobs.

The queue is created when the agent starts. The agent does not delete it: SQS refuses a name for a
minute after its deletion, and an agent that restarts needs its inbox at once. The end of the
instance deletes it, and a daily sweep does where there is no agent (`joblane.service.inbox_sweep`);
an agent that meets that creates its inbox again, after that minute.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from ec2_agent.calls import AWS_ERRORS, in_thread
from ec2_agent.logging import events
from joblane.aws.inboxes import KEPT_S, NO_SUCH_QUEUE
from joblane.aws.lanes import LaneQueue, Received
from joblane.job.message import Command, NotOurs

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

POLL_S = 20
MOST = 10
PAUSE_S = 5.0
"""After a poll that failed."""

_DELETED_RECENTLY = "AWS.SimpleQueueService.QueueDeletedRecently"


@dataclass
class Inbox:
    """Reads commands."""

    client: "SQSClient"
    name: str
    pause_s: float = PAUSE_S

    async def open(self) -> LaneQueue:
        """Create the queue, or find it; waits while SQS refuses the name of a deleted queue.

        Raises AWS's other errors: an agent must be reachable.
        """
        while True:
            try:
                answer = await in_thread(
                    lambda: self.client.create_queue(
                        QueueName=self.name, Attributes={"MessageRetentionPeriod": str(KEPT_S)}
                    ),
                    "open inbox",
                )
            except ClientError as error:
                if error.response["Error"]["Code"] != _DELETED_RECENTLY:
                    raise
                events.inbox_failed(error)
                await asyncio.sleep(self.pause_s)
            else:
                return LaneQueue(self.client, answer["QueueUrl"])

    async def run(self, queue: LaneQueue, on_command: Callable[[Command], None]) -> None:
        """Pass on each command, until cancelled; SQS may deliver one more than once."""
        gone = False
        while True:
            try:
                if gone:
                    await self.open()
                    gone = False
                received = await in_thread(lambda: queue.receive(MOST, POLL_S), "poll inbox")
                for message in received:
                    _pass_on(message, on_command)
                    await in_thread(partial(queue.delete, message.receipt), "delete command")
            except AWS_ERRORS as error:
                events.inbox_failed(error)
                gone = gone or (
                    isinstance(error, ClientError)
                    and error.response["Error"]["Code"] == NO_SUCH_QUEUE
                )
                await asyncio.sleep(self.pause_s)


def _pass_on(message: Received, on_command: Callable[[Command], None]) -> None:
    try:
        on_command(Command.decode(message.body))
    except NotOurs as error:
        events.command_dropped(error)
