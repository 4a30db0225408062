"""The agent's inbox: an SQS queue of its own, with commands for the agent and its jobs.

The queue is created when the agent starts and is never deleted: SQS refuses a name for a minute
after its deletion, and an agent that restarts needs its inbox at once. An empty queue is free.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ec2_agent.calls import AWS_ERRORS, in_thread
from ec2_agent.logging import events
from joblane.aws.lanes import LaneQueue, Received
from joblane.job.message import Command, NotOurs

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

POLL_S = 20
MOST = 10
PAUSE_S = 5.0
"""After a poll that failed."""

KEPT_S = 3600
"""Retention of commands: one that is an hour old is about a job that has ended or moved on."""


@dataclass
class Inbox:
    """Reads commands."""

    client: "SQSClient"
    name: str

    async def open(self) -> LaneQueue:
        """Create the queue, or find it. Raises AWS's errors: an agent must be reachable."""
        answer = await in_thread(
            lambda: self.client.create_queue(
                QueueName=self.name, Attributes={"MessageRetentionPeriod": str(KEPT_S)}
            ),
            "open inbox",
        )
        return LaneQueue(self.client, answer["QueueUrl"])

    async def run(self, queue: LaneQueue, on_command: Callable[[Command], None]) -> None:
        """Pass on each command, until cancelled; SQS may deliver one more than once."""
        while True:
            try:
                received = await in_thread(lambda: queue.receive(MOST, POLL_S), "poll inbox")
                for message in received:
                    _pass_on(message, on_command)
                    await in_thread(partial(queue.delete, message.receipt), "delete command")
            except AWS_ERRORS as error:
                events.inbox_failed(error)
                await asyncio.sleep(PAUSE_S)


def _pass_on(message: Received, on_command: Callable[[Command], None]) -> None:
    try:
        on_command(Command.decode(message.body))
    except NotOurs as error:
        events.command_dropped(error)
