"""The agent's inbox: commands arrive, strangers' messages do not stop it, nor does its deletion."""

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from ec2_agent.presence.inbox import Inbox
from joblane.job.message import Command
from tests.support.aws import Cloud
from tests.support.jobs import JOB

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

DELETED_RECENTLY = "AWS.SimpleQueueService.QueueDeletedRecently"


def test_commands_arrive_and_what_is_not_ours_is_dropped(aws: Cloud):
    sqs = aws.clients.make("sqs")
    seen: list[Command] = []

    async def read() -> None:
        arrived = asyncio.Event()

        def on_command(command: Command) -> None:
            seen.append(command)
            arrived.set()

        inbox = Inbox(sqs, "joblane-inbox-agent-1")
        queue = await inbox.open()
        assert queue.url == (await inbox.open()).url  # a restart finds its inbox again
        for body in (
            "nonsense",
            '{"v":1,"command":"format","job_id":"x"}',
            '{"v":1,"command":"cancel"}',
            f'{{"v":1,"command":"drain","job_id":"{JOB}"}}',
        ):
            sqs.send_message(QueueUrl=queue.url, MessageBody=body)
        sqs.send_message(
            QueueUrl=queue.url, MessageBody=Command(command="cancel", job_id=JOB).encode()
        )
        reading = asyncio.create_task(inbox.run(queue, on_command))
        await asyncio.wait_for(arrived.wait(), 10)
        reading.cancel()

    asyncio.run(read())
    assert [Command(command="cancel", job_id=JOB)] == seen


def refusing(aws: Cloud) -> "tuple[SQSClient, list[str]]":
    """A client of SQS that refuses a name for each entry of the list."""
    refusals: list[str] = []

    def refuse(**_: Any) -> None:
        if refusals:
            raise ClientError({"Error": {"Code": refusals.pop()}}, "CreateQueue")

    aws.emitter().register("before-call.sqs.CreateQueue", refuse)
    return aws.clients.make("sqs"), refusals


def test_an_inbox_that_was_deleted_is_created_again_when_sqs_allows_it(aws: Cloud):
    sqs, refusals = refusing(aws)

    async def read() -> Command:
        arrived: asyncio.Queue[Command] = asyncio.Queue()
        loop, created = asyncio.get_running_loop(), asyncio.Event()
        inbox = Inbox(sqs, "joblane-inbox-agent-1", pause_s=0.01)
        queue = await inbox.open()
        reading = asyncio.create_task(inbox.run(queue, arrived.put_nowait))
        refusals.extend([DELETED_RECENTLY] * 2)

        def note(**_: Any) -> None:
            loop.call_soon_threadsafe(created.set)

        sqs.meta.events.register("after-call.sqs.CreateQueue", note)
        sqs.delete_queue(QueueUrl=queue.url)  # while it polls
        await asyncio.wait_for(created.wait(), 10)
        sqs.send_message(QueueUrl=queue.url, MessageBody=Command(command="drain").encode())
        try:
            return await asyncio.wait_for(arrived.get(), 10)
        finally:
            reading.cancel()

    assert Command(command="drain") == asyncio.run(asyncio.wait_for(read(), 20))
    assert [] == refusals


def test_an_agent_that_starts_a_moment_after_its_inbox_was_deleted_waits(aws: Cloud):
    sqs, refusals = refusing(aws)
    refusals.extend([DELETED_RECENTLY] * 3)
    inbox = Inbox(sqs, "joblane-inbox-agent-1", pause_s=0.01)
    assert asyncio.run(inbox.open()).url.endswith("/joblane-inbox-agent-1")
    assert [] == refusals


def test_an_agent_that_may_not_have_an_inbox_does_not_start(aws: Cloud):
    sqs, refusals = refusing(aws)
    refusals.append("AccessDenied")
    with pytest.raises(ClientError, match="AccessDenied"):
        asyncio.run(Inbox(sqs, "joblane-inbox-agent-1").open())
