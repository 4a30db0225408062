"""The agent's inbox: commands arrive, strangers' messages do not stop it."""

import asyncio

from ec2_agent.presence.inbox import Inbox
from joblane.job.message import Command
from tests.support.aws import Cloud
from tests.support.jobs import JOB


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
