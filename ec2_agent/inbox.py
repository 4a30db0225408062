"""The agent's inbox: commands to a job that runs here, from a queue of the agent's own.

The queue is made at the agent's start and stays: SQS refuses a name for a minute after its
deletion, and an agent that restarts needs its inbox at once. What it costs when empty is nothing.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from ec2_agent.calls import in_thread
from ec2_agent.events import CommandDropped, InboxFailed
from ec2_agent.log_event import tell
from joblane.aws.lanes import LaneQueue, Received
from joblane.message import Command, NotOurs, decode_command

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

POLL_S = 20
MOST = 10
TROUBLE_S = 5.0

KEPT_S = 3600
"""A command that nobody read within the hour speaks of a job that has long moved on."""


@dataclass
class Inbox:
    """Reads commands until cancelled."""

    client: "SQSClient"
    name: str
    on_command: Callable[[Command], None]

    async def open(self) -> LaneQueue:
        """Make the queue, or find it. Raises what AWS says: an agent must be reachable."""
        answer = await in_thread(
            lambda: self.client.create_queue(
                QueueName=self.name, Attributes={"MessageRetentionPeriod": str(KEPT_S)}
            ),
            "open inbox",
        )
        return LaneQueue(self.client, answer["QueueUrl"])

    async def run(self, queue: LaneQueue) -> None:
        """Act on each command, once or more often: every command may be repeated."""
        while True:
            try:
                received = await in_thread(lambda: queue.receive(MOST, POLL_S), "poll inbox")
                for message in received:
                    self._act(message)
                    await in_thread(partial(queue.delete, message.receipt), "delete command")
            except (BotoCoreError, ClientError) as error:
                tell(InboxFailed(error))
                await asyncio.sleep(TROUBLE_S)

    def _act(self, message: Received) -> None:
        try:
            self.on_command(decode_command(message.body))
        except NotOurs as error:
            tell(CommandDropped(error))
