"""Agents without a process: their heartbeats, their inboxes, and the messages in these."""

import json
from contextlib import suppress
from typing import Any

from joblane.deployment.names import inbox_name
from joblane.errors import Unavailable
from joblane.job.lease import Heartbeat
from tests.support.aws import NAME, PREFIX, Cloud


def heartbeat(name: str, now_ms: int, **fields: Any) -> Heartbeat:
    """The heartbeat of an agent that takes jobs of the queue `default`."""
    values: dict[str, Any] = {
        "since_ms": now_ms - 60_000,
        "beat_ms": now_ms - 1_000,
        "threads": 4,
        "running": 0,
        "queues": ("default",),
        "isolation": "full",
        "version": "1",
        "labels": {},
    }
    return Heartbeat(name=name, **(values | fields))


def beat(aws: Cloud, name: str, now_ms: int, **fields: Any) -> Heartbeat:
    """Have an agent beat; it has its inbox."""
    row = heartbeat(name, now_ms, **fields)
    aws.agents.beat(row)
    aws.clients.make("sqs").create_queue(QueueName=inbox_name(NAME, name))
    return row


def inbox(name: str) -> str:
    """The URL of an agent's inbox."""
    return PREFIX + inbox_name(NAME, name)


def every_message(aws: Cloud, *names: str) -> list[tuple[str, Any]]:
    """What is in the inboxes of these agents: the agent, and the body."""
    found = []
    sqs = aws.clients.make("sqs")
    for name in names:
        with suppress(Unavailable):
            while received := sqs.receive_message(
                QueueUrl=inbox(name),
                MaxNumberOfMessages=10,
                VisibilityTimeout=30,
                WaitTimeSeconds=0,
            ).get("Messages", []):
                found += [(name, json.loads(message["Body"])) for message in received]
    return found
