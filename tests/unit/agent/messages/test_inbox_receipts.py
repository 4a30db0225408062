"""A message of the inbox whose process was killed is received again at once by the next one."""

import asyncio
import time
from pathlib import Path

import pytest

from ec2_agent.aws_calls.queues import Queues
from ec2_agent.messages.delivery import Delivery
from ec2_agent.messages.flight import Flight
from ec2_agent.messages.inbox_receipts import InboxReceipts
from joblane.aws.queue.lanes import LaneQueue, Received
from joblane.deployment.names import inbox_name
from joblane.job.message import Message
from tests.support.aws import DESCRIPTOR, NAME, Cloud
from tests.support.jobs import JOB, named


class Host:
    """An instance, whose agent may be killed, and the agent's inbox."""

    def __init__(self, aws: Cloud, directory: Path) -> None:
        self.sqs = aws.clients.make("sqs")
        url = self.sqs.create_queue(QueueName=inbox_name(NAME, "agent-1"))["QueueUrl"]
        self.inbox = LaneQueue(self.sqs, url)
        self.directory = directory

    def process(self) -> Flight:
        """What a process of the agent holds."""
        return Flight(time.time, Queues(self.sqs).at, receipts=InboxReceipts(self.directory))

    def receive(self) -> Received:
        """Submit a job for this agent, and receive its message."""
        self.inbox.send(named(JOB))
        (received,) = self.inbox.receive(1, 0)
        return received

    def delivery(self, received: Received) -> Delivery:
        """A message of the inbox as the agent has it."""
        return Delivery("default", self.inbox.url, None, received, time.time())


@pytest.fixture(name="host")
def _host(aws: Cloud, tmp_path: Path) -> Host:
    return Host(aws, tmp_path / "inbox")


def test_the_next_process_shows_what_the_killed_one_held(host: Host):
    host.process().add(host.delivery(host.receive()))
    assert [] == host.inbox.receive(1, 0)
    asyncio.run(host.process().show_again(host.inbox.url))
    (again,) = host.inbox.receive(1, 0)
    assert (JOB, 2) == (Message.decode(again.body).job_id, again.receives)
    assert [] == list(host.directory.iterdir())


def test_what_the_next_process_goes_on_with_stays_hidden(host: Host):
    held = host.delivery(host.receive())
    host.process().add(held)
    second = host.process()
    second.add(held)  # its job runs under a shim, and was adopted
    asyncio.run(second.show_again(host.inbox.url))
    assert [] == host.inbox.receive(1, 0)
    asyncio.run(second.delete(held))
    assert [] == list(host.directory.iterdir())


@pytest.mark.parametrize("how", ["delete", "give_back", "abandon"])
def test_what_is_settled_is_not_shown(host: Host, how: str):
    held, first = host.delivery(host.receive()), host.process()
    first.add(held)
    if how == "delete":
        asyncio.run(first.delete(held))
    elif how == "give_back":
        asyncio.run(first.give_back(held, 60))
    else:
        first.abandon(held)
    asyncio.run(host.process().show_again(host.inbox.url))
    assert [] == host.inbox.receive(1, 0)


def test_messages_of_lanes_are_left_to_others(host: Host):
    lane = LaneQueue(host.sqs, DESCRIPTOR.lane_url("default", "default"))
    lane.send(named(JOB))
    (received,) = lane.receive(1, 0)
    host.process().add(Delivery("default", lane.url, DESCRIPTOR.dead_letter_url, received, 1.0))
    assert not host.directory.exists()


def test_a_disk_that_takes_nothing_and_a_file_that_is_no_receipt_change_nothing(host: Host):
    host.directory.write_text("not a directory", encoding="utf-8")
    first = host.process()
    first.add(host.delivery(host.receive()))
    asyncio.run(host.process().show_again(host.inbox.url))
    host.directory.unlink()
    host.directory.mkdir()
    (host.directory / "x").write_bytes(b"\xff\xfe")
    (host.directory / "y").write_text("a receipt of another day", encoding="utf-8")
    asyncio.run(host.process().show_again(host.inbox.url))
