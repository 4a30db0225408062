"""The agent's inbox: an SQS queue of its own, with commands for the agent, and targeted jobs.

The queue is created when the agent starts. The agent does not delete it: SQS refuses a name for a
minute after its deletion, and an agent that restarts needs its inbox at once. The end of the
instance deletes it, and a daily sweep does where there is no agent
(`joblane.service.fleet.inbox_sweep`); an agent that meets that creates its inbox again, after that
minute.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from ec2_agent.calls import AWS_ERRORS, in_thread
from ec2_agent.logging import events
from joblane.aws.fleet.inboxes import KEPT_S, NO_SUCH_QUEUE
from joblane.aws.queue.lanes import LaneQueue, Received
from joblane.job.message import Command, Message, NotOurs

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

POLL_S = 20
LAST_POLLS_S = 1
"""While the agent drains: it waits for the poll that is open when its last job has ended."""

MOST = 10
PAUSE_S = 5.0
"""After a poll that failed."""

COMMAND_S = 3600
"""An older command is dropped: it is about a job that has ended or moved on, or asks the agent to
drain that was there then."""

_DELETED_RECENTLY = "AWS.SimpleQueueService.QueueDeletedRecently"


@dataclass
class Inbox:
    """Reads commands, and messages of targeted jobs."""

    client: "SQSClient"
    name: str
    clock: Callable[[], float]
    """Unix seconds."""
    pause_s: float = PAUSE_S

    def __post_init__(self) -> None:
        self._wait_s = POLL_S
        self._stopped = False
        self._polling = asyncio.Lock()

    async def open(self) -> LaneQueue:
        """Create the queue, or find it; waits while SQS refuses the name of a deleted queue.

        Raises AWS's other errors: an agent must be reachable.
        """
        while True:
            try:
                return LaneQueue(self.client, await in_thread(self._create, "open inbox"))
            except ClientError as error:
                if error.response["Error"]["Code"] not in {_DELETED_RECENTLY, NO_SUCH_QUEUE}:
                    raise
                events.inbox_failed(error)
                await asyncio.sleep(self.pause_s)

    def _create(self) -> str:
        """Create the queue, or find it. Returns its URL."""
        answer = self.client.create_queue(
            QueueName=self.name, Attributes={"MessageRetentionPeriod": str(KEPT_S)}
        )
        return answer["QueueUrl"]

    async def run(
        self,
        queue: LaneQueue,
        on_command: Callable[[Command], None],
        on_job: Callable[[Received], None],
    ) -> None:
        """Pass on what comes, until `stop`; SQS may deliver a message more than once.

        A command is deleted after it was passed on; the message of a job is `on_job`'s to settle.
        """
        gone = False
        deletions: set[asyncio.Task[None]] = set()
        while True:
            try:
                if gone:
                    await self.open()
                    gone = False
                async with self._polling:
                    if self._stopped:
                        return
                    received = await in_thread(
                        partial(queue.receive, MOST, self._wait_s), "poll inbox"
                    )
                    done = self._pass_on(received, on_command, on_job)
                for message in done:
                    # Beside the next poll: a targeted job must not wait for it.
                    deletion = asyncio.create_task(_delete(queue, message))
                    deletions.add(deletion)
                    deletion.add_done_callback(deletions.discard)
            except AWS_ERRORS as error:
                events.inbox_failed(error)
                gone = gone or (
                    isinstance(error, ClientError)
                    and error.response["Error"]["Code"] == NO_SUCH_QUEUE
                )
                await asyncio.sleep(self.pause_s)

    def drain(self) -> None:
        """Make polls short from the next one on: the agent is to end."""
        self._wait_s = LAST_POLLS_S

    async def stop(self) -> None:
        """Open no poll any more, and wait for the open one.

        What that brings would be hidden from the next process for as long as SQS waits for this
        one's answer.
        """
        self._stopped = True
        async with self._polling:
            pass

    def _pass_on(
        self,
        received: Iterable[Received],
        on_command: Callable[[Command], None],
        on_job: Callable[[Received], None],
    ) -> list[Received]:
        """Pass on all that a poll brought. Returns what is to be deleted."""
        done: list[Received] = []
        for message in received:
            if _is_job(message):
                on_job(message)
                continue
            done.append(message)
            try:
                command = Command.decode(message.body)
            except NotOurs as error:
                events.command_dropped(error)
                continue
            age_s = int(self.clock() - message.sent_ms / 1000)
            if age_s > COMMAND_S:
                events.command_too_old(command.command, age_s)
            else:
                on_command(command)
        return done


async def _delete(queue: LaneQueue, message: Received) -> None:
    """Delete a command; one that stays is passed on again, which changes nothing."""
    try:
        await in_thread(partial(queue.delete, message.receipt), "delete command")
    except AWS_ERRORS as error:
        events.inbox_failed(error)


def _is_job(message: Received) -> bool:
    try:
        Message.decode(message.body)
    except NotOurs:
        return False
    return True
