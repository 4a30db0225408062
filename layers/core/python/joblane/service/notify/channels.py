"""Deliver a notification to an SNS topic, or events to the default EventBridge bus."""

from collections.abc import Iterable
from dataclasses import dataclass

from joblane.aws.notify.event_bus import EventBus
from joblane.aws.notify.topics import Topics
from joblane.contract.job_events import DETAIL_TYPE, SOURCE, Delivery, JobEvent
from joblane.notify.rules import NotifyRules
from joblane.service.notify.notifier import NotDelivered, require_allowed


@dataclass(frozen=True)
class ToTopic:
    """Publishes to SNS topics."""

    rules: NotifyRules
    topics: Topics

    def deliver(self, delivery: Delivery, _attempt: int) -> None:
        """Publish one. Raises NotDelivered, Unavailable."""
        notify, event = require_allowed(self.rules, delivery), delivery.event
        attributes = {"event": event.event, "tenant": event.tenant, "state": event.state}
        self.topics.publish(
            notify.sns or "",
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
        require_allowed(self.rules, delivery)
        _put(self.bus, [delivery.event])


@dataclass(frozen=True)
class ToFeed:
    """Puts the events of a tenant's feed on the default bus."""

    rules: NotifyRules
    bus: EventBus

    def deliver(self, delivery: Delivery, _attempt: int) -> None:
        """Put those that joblane.toml still asks for. Raises NotDelivered, Unavailable.

        If one is refused, all of them are put again: their ids are the same.
        """
        if events := [event for event in delivery.events if self._is_on(event)]:
            _put(self.bus, events)

    def _is_on(self, event: JobEvent) -> bool:
        """Whether the feed still is asked for; no job waits for it to be told of."""
        scope = self.rules.events.get(event.tenant)
        return scope == "members" or (scope == "jobs" and event.group is None)


def _put(bus: EventBus, events: Iterable[JobEvent]) -> None:
    problem = bus.put(SOURCE, DETAIL_TYPE, [event.model_dump_json() for event in events])
    if problem is not None:
        raise NotDelivered(f"EventBridge refused the event: {problem}")
