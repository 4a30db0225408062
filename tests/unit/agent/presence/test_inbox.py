"""The agent's inbox: commands arrive, strangers' messages do not stop it, nor does its deletion."""

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from ec2_agent.presence.inbox import LAST_POLLS_S, POLL_S, Inbox
from joblane.aws.fleet.inboxes import KEPT_S
from joblane.aws.queue.lanes import LaneQueue, Received
from joblane.job.message import Command, Message
from tests.support.aws import Cloud
from tests.support.jobs import JOB, named

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

HOUR_S = 3600
DELETED_RECENTLY = "AWS.SimpleQueueService.QueueDeletedRecently"


def test_commands_arrive_and_what_is_not_ours_is_dropped(aws: Cloud):
    sqs = aws.clients.make("sqs")
    seen: list[Command] = []
    jobs: list[Received] = []

    async def read() -> None:
        arrived = asyncio.Event()

        def on_command(command: Command) -> None:
            seen.append(command)
            arrived.set()

        inbox = Inbox(sqs, "joblane-inbox-agent-1", time.time)
        queue = await inbox.open()
        assert queue.url == (await inbox.open()).url  # a restart finds its inbox again
        kept = sqs.get_queue_attributes(
            QueueUrl=queue.url, AttributeNames=["MessageRetentionPeriod"]
        )["Attributes"]
        assert {"MessageRetentionPeriod": str(KEPT_S)} == kept  # the sweep knows inboxes by it
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
        reading = asyncio.create_task(inbox.run(queue, on_command, jobs.append))
        await asyncio.wait_for(arrived.wait(), 10)
        reading.cancel()

    asyncio.run(read())
    assert ([Command(command="cancel", job_id=JOB)], []) == (seen, jobs)


def no_job(received: Received) -> None:
    raise AssertionError(received.body)


def test_the_message_of_a_job_is_passed_on_with_its_queue_and_stays(aws: Cloud):
    sqs = aws.clients.make("sqs")

    async def read() -> tuple[Received, LaneQueue]:
        arrived: asyncio.Queue[Received] = asyncio.Queue()
        inbox = Inbox(sqs, "joblane-inbox-agent-1", time.time)
        queue = await inbox.open()
        queue.send(Message(job_id=JOB, tenant="acme", memory_mb=512, lane="bulk/default"))
        reading = asyncio.create_task(inbox.run(queue, lambda _: None, arrived.put_nowait))
        received = await asyncio.wait_for(arrived.get(), 10)
        reading.cancel()
        return received, queue

    received, queue = asyncio.run(read())
    assert ("bulk", 512) == (received.job_queue, received.memory_mb)
    assert Message(job_id=JOB, tenant="acme", lane="bulk/default") == received.message
    lengths = queue.lengths()
    assert (0, 1) == (lengths.visible, lengths.in_flight)


def test_an_agent_that_ends_waits_for_its_open_poll_which_is_short_by_then(aws: Cloud):
    """Else the job that it brings would be hidden from the next process for two minutes."""
    emitter = aws.emitter()
    sqs = aws.clients.make("sqs")
    waits_s: list[int] = []

    async def end() -> tuple[list[str], bool]:
        loop, opened, jobs = asyncio.get_running_loop(), asyncio.Queue[int](), list[Received]()

        def note(params: dict[str, Any], **_: Any) -> None:
            waits_s.append(params["WaitTimeSeconds"])
            loop.call_soon_threadsafe(opened.put_nowait, 1)

        emitter.register("provide-client-params.sqs.ReceiveMessage", note)
        inbox = Inbox(sqs, "joblane-inbox-agent-1", time.time)
        queue = await inbox.open()
        reading = asyncio.create_task(inbox.run(queue, lambda _: None, jobs.append))
        await asyncio.wait_for(opened.get(), 10)
        inbox.drain()
        queue.send(Message(job_id=JOB, tenant="acme", lane="bulk/default"))
        await asyncio.wait_for(opened.get(), 10)
        stopping = asyncio.create_task(inbox.stop())
        await asyncio.sleep(0)
        waited = not stopping.done()
        queue.send(named(JOB))
        await asyncio.wait_for(stopping, 10)
        await asyncio.wait_for(reading, 10)
        return [str(job.job_queue) for job in jobs], waited

    assert (["bulk", "default"], True) == asyncio.run(end())
    assert [POLL_S, LAST_POLLS_S] == waits_s


def test_a_command_of_yesterday_is_dropped_and_one_of_now_is_not(aws: Cloud):
    sqs = aws.clients.make("sqs")
    later_s = [HOUR_S + 1, HOUR_S + 1, 0]

    async def read() -> list[Command]:
        arrived: asyncio.Queue[Command] = asyncio.Queue()
        inbox = Inbox(sqs, "joblane-inbox-agent-1", lambda: time.time() + later_s.pop(0))
        queue = await inbox.open()
        for command in ("drain", "cordon", "uncordon"):
            sqs.send_message(QueueUrl=queue.url, MessageBody=f'{{"v":1,"command":"{command}"}}')
        reading = asyncio.create_task(inbox.run(queue, arrived.put_nowait, no_job))
        found = [await asyncio.wait_for(arrived.get(), 10)]
        reading.cancel()
        return found

    assert [Command(command="uncordon")] == asyncio.run(read())
    assert [] == later_s  # one poll brought all three


def refusing(aws: Cloud, call: str = "CreateQueue") -> "tuple[SQSClient, list[str]]":
    """A client of SQS that refuses a call for each entry of the list, with its error code."""
    refusals: list[str] = []

    def refuse(**_: Any) -> None:
        if refusals:
            raise ClientError({"Error": {"Code": refusals.pop()}}, call)

    aws.emitter().register(f"before-call.sqs.{call}", refuse)
    return aws.clients.make("sqs"), refusals


def test_an_inbox_that_was_deleted_is_created_again_when_sqs_allows_it(aws: Cloud):
    sqs, refusals = refusing(aws)

    creations: list[str] = []

    async def read() -> list[Command]:
        arrived: asyncio.Queue[Command] = asyncio.Queue()
        loop, created = asyncio.get_running_loop(), asyncio.Event()
        inbox = Inbox(sqs, "joblane-inbox-agent-1", time.time, pause_s=0.01)
        queue = await inbox.open()
        reading = asyncio.create_task(inbox.run(queue, arrived.put_nowait, no_job))
        refusals.extend([DELETED_RECENTLY] * 2)

        def note(**_: Any) -> None:
            creations.append("again")
            loop.call_soon_threadsafe(created.set)

        sqs.meta.events.register("after-call.sqs.CreateQueue", note)
        sqs.delete_queue(QueueUrl=queue.url)  # while it polls
        await asyncio.wait_for(created.wait(), 10)
        commands = []
        for _ in range(2):
            sqs.send_message(QueueUrl=queue.url, MessageBody=Command(command="drain").encode())
            commands.append(await asyncio.wait_for(arrived.get(), 10))
        reading.cancel()
        return commands

    assert [Command(command="drain")] * 2 == asyncio.run(asyncio.wait_for(read(), 40))
    assert ([], ["again"]) == (refusals, creations)


def test_a_poll_that_fails_otherwise_is_repeated_and_creates_nothing(aws: Cloud):
    sqs, refusals = refusing(aws, "ReceiveMessage")
    creations: list[str] = []
    sqs.meta.events.register("after-call.sqs.CreateQueue", lambda **_: creations.append("once"))

    async def read() -> Command:
        arrived: asyncio.Queue[Command] = asyncio.Queue()
        inbox = Inbox(sqs, "joblane-inbox-agent-1", time.time, pause_s=0.01)
        queue = await inbox.open()
        sqs.send_message(QueueUrl=queue.url, MessageBody=Command(command="drain").encode())
        refusals.extend(["RequestThrottled"] * 2)
        reading = asyncio.create_task(inbox.run(queue, arrived.put_nowait, no_job))
        command = await asyncio.wait_for(arrived.get(), 10)
        reading.cancel()
        return command

    assert Command(command="drain") == asyncio.run(read())
    assert ([], ["once"]) == (refusals, creations)


def test_an_agent_that_starts_a_moment_after_its_inbox_was_deleted_waits(aws: Cloud):
    sqs, refusals = refusing(aws)
    refusals.extend([DELETED_RECENTLY] * 3)
    inbox = Inbox(sqs, "joblane-inbox-agent-1", time.time, pause_s=0.1)
    began = time.monotonic()
    assert asyncio.run(inbox.open()).url.endswith("/joblane-inbox-agent-1")
    assert [] == refusals
    assert time.monotonic() - began >= 3 * 0.1  # a pause after each refusal


def test_an_agent_that_may_not_have_an_inbox_does_not_start(aws: Cloud):
    sqs, refusals = refusing(aws)
    refusals.append("AccessDenied")
    with pytest.raises(ClientError, match="AccessDenied"):
        asyncio.run(Inbox(sqs, "joblane-inbox-agent-1", time.time).open())
