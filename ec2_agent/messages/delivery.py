"""A delivered message: where it came from, and its JSON form in job directories and the journal."""

from dataclasses import dataclass
from typing import Any

from ec2_agent.fields import fields_of
from joblane.aws.queue.lanes import Received, read_body
from joblane.job.message import Message, NotOurs


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message that SQS delivered to this agent."""

    queue: str
    lane_url: str
    dead_letter_url: str | None
    """None for a message of the agent's inbox."""
    received: Received
    received_at: float
    """Unix seconds."""

    @property
    def targeted(self) -> bool:
        """Whether it came from the agent's inbox: no other agent may run its job."""
        return self.dead_letter_url is None


def message_of(delivery: Delivery) -> Message | None:
    """Decode a delivered message; None if Joblane did not write it."""
    return delivery.received.message


def read_message(delivery: Delivery) -> Message:
    """Decode a delivered message. Raises NotOurs, also for one that names another queue's lane.

    Who may send to the lanes of one queue starts no job of another.
    """
    message = read_body(delivery.received.body)
    if message.queue != delivery.queue:
        raise NotOurs(f"lane: must be one of queue {delivery.queue}, which it came from")
    return message


def encode_delivery(delivery: Delivery) -> dict[str, Any]:
    """Give a delivery as JSON."""
    return {
        "queue": delivery.queue,
        "lane": delivery.lane_url,
        "dead_letters": delivery.dead_letter_url,
        "since": delivery.received_at,
        **fields_of(delivery.received),
    }


def decode_delivery(value: dict[str, Any]) -> Delivery:
    """Inverse of `encode_delivery`; ignores further keys. Raises KeyError or TypeError."""
    return Delivery(
        queue=value["queue"],
        lane_url=value["lane"],
        dead_letter_url=value["dead_letters"],
        received=Received(value["body"], value["receipt"], value["receives"], value["sent_ms"]),
        received_at=value["since"],
    )
