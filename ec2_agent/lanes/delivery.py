"""A delivered message: where it came from, and its JSON form in job directories and the journal."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ec2_agent.fields import fields_of
from joblane.aws.lanes import Received
from joblane.job.message import Message, NotOurs
from joblane.job.spec import DEFAULT_MEMORY_MB
from joblane.job.trace import parse_trace

AT_WORK = 64
"""Messages whose content is kept: one is read five times from its receipt to its job's end."""


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


def message_of(delivery: Delivery) -> Message | None:
    """Decode a delivered message; None if Joblane did not write it."""
    try:
        return read_message(delivery)
    except NotOurs:
        return None


def read_message(delivery: Delivery) -> Message:
    """Decode a delivered message. Raises NotOurs."""
    received = delivery.received
    return _read(received.body, received.traceparent, received.tracestate)


@lru_cache(AT_WORK)
def _read(body: str, traceparent: str | None, tracestate: str | None) -> Message:
    trace = parse_trace(traceparent, tracestate)
    return Message.decode(body).model_copy(update={"caller_trace": trace})


def encode_delivery(delivery: Delivery) -> dict[str, Any]:
    """Give a delivery as JSON. An agent of another version may read it: the keys stay."""
    return {
        "queue": delivery.queue,
        "lane": delivery.lane_url,
        "dead_letters": delivery.dead_letter_url,
        "since": delivery.received_at,
        **fields_of(delivery.received),
    }


def decode_delivery(value: dict[str, Any]) -> Delivery:
    """Inverse of `encode_delivery`. Raises KeyError or TypeError for anything else.

    Journals of agents up to version 0.1 have other keys, with the message in an object of its own.
    """
    earlier = "received" in value
    message = value["received"] if earlier else value
    return Delivery(
        queue=value["queue"],
        lane_url=value["lane_url" if earlier else "lane"],
        dead_letter_url=value["dead_letters_url" if earlier else "dead_letters"],
        received=Received(
            message["body"],
            message["receipt"],
            message["receives"],
            message["sent_ms"],
            message.get("memory_mb", DEFAULT_MEMORY_MB),  # absent up to version 0.2
            message.get("traceparent"),  # absent up to version 0.2
            message.get("tracestate"),
            message.get("job_queue"),  # absent up to version 0.3
        ),
        received_at=value["since"],
    )
