"""Lanes of queues that joblane.toml gets and loses."""

from joblane.deployment.names import LANES, lane_name
from tests.support.aws import NAME, PREFIX, Cloud


def make_lanes(aws: Cloud, *queues: str) -> None:
    """Make the lanes of queues, as a deployment does."""
    for queue in queues:
        for lane in LANES:
            aws.clients.make("sqs").create_queue(QueueName=lane_name(NAME, queue, lane))


def unmake_lanes(aws: Cloud, *queues: str) -> None:
    """Delete the lanes of queues that joblane.toml has no more."""
    for queue in queues:
        for lane in LANES:
            aws.clients.make("sqs").delete_queue(QueueUrl=PREFIX + lane_name(NAME, queue, lane))
