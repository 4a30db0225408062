"""Deliver a notification to an SNS topic, or to the default EventBridge bus."""

from dataclasses import dataclass

from joblane.aws.notify.event_bus import EventBus
from joblane.aws.notify.topics import Topics
from joblane.contract.job_events import DETAIL_TYPE, SOURCE, Delivery
from joblane.notify.rules import NotifyRules
from joblane.service.notify.notifier import NotDelivered


@dataclass(frozen=True)
class ToTopic:
    """Publishes to SNS topics."""

    rules: NotifyRules
    topics: Topics

    def deliver(self, delivery: Delivery, _attempt: int) -> None:
        """Publish one. Raises NotDelivered, Unavailable."""
        _require(self.rules, delivery)
        event = delivery.event
        attributes = {"event": event.event, "tenant": event.tenant, "state": event.state}
        self.topics.publish(
            delivery.notify.sns or "",
            event.model_dump_json(),
            {**attributes, "queue": event.queue, "id": event.id},
        )


@dataclass(frozen=True)
class ToBus:
    """Puts events on the default bus."""

    rules: NotifyRules
    bus: EventBus

    def deliver(self, delivery: Delivery, _attempt: int) -> None:
        """Put one. Raises NotDelivered, Unavailable."""
        _require(self.rules, delivery)
        problem = self.bus.put(SOURCE, DETAIL_TYPE, delivery.event.model_dump_json())
        if problem is not None:
            raise NotDelivered(f"EventBridge refused the event: {problem}")


def _require(rules: NotifyRules, delivery: Delivery) -> None:
    """What was allowed at the submission may not be allowed any more."""
    if (refusal := rules.refusal(delivery.event.tenant, delivery.notify)) is not None:
        raise NotDelivered(f"{refusal[0]} {refusal[1]}")
