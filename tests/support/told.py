"""What the function `sequel` has put into the queue of notifications."""

import json
from collections.abc import Callable
from typing import Any

from joblane.contract.job_events import Delivery, JobEvent


def take_deliveries(messages: Callable[[str], list[Any]], queue: str) -> list[Delivery]:
    """Take every message of the queue."""
    found: list[Delivery] = []
    while taken := messages(queue):
        found += [Delivery.decode(json.dumps(body)) for body in taken]
    return found


def told_by(
    messages: Callable[[str], list[Any]], queue: str
) -> tuple[list[JobEvent], list[JobEvent]]:
    """Take every message; returns the events that jobs asked for, and those of feeds."""
    found = take_deliveries(messages, queue)
    asked = [each.event for each in found if each.notify is not None]
    return asked, [event for each in found if each.notify is None for event in each.events]
