"""Agents without a process: their heartbeats, their inboxes, and the messages in these."""

import json
import time
from contextlib import suppress
from typing import Any

from joblane.deployment.names import inbox_name
from joblane.errors import Unavailable
from joblane.state.lease import Heartbeat
from tests.support.aws import NAME, PREFIX, Cloud

FLEET: dict[str, Any] = {
    "name": "main",
    "queues": ["default"],
    "instance_types": ["c7g.large"],
    "architecture": "arm64",
    "ami": None,
    "packages": [],
    "setup": None,
    "min_size": 0,
    "max_size": 4,
    "price_per_hour": {},
}
"""As functions have fleets in their environment."""


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


def beat_ago(aws: Cloud, name: str, *, since_s: float = 3600, age_s: float = 0) -> None:
    """The last heartbeat of an agent without an inbox: so long ago, by the clock of the host."""
    now = time.time()
    since_ms, beat_ms = int((now - since_s) * 1000), int((now - age_s) * 1000)
    aws.agents.beat(Heartbeat(name, since_ms, beat_ms, 4, 0, ("default",), "full", "0"))
