"""Deliver the messages of the queue of notifications, and try those that fail again later.

    queue notify              notifier                        receiver
    message  -------------->  delivers  ------------------->  refuses
             <--------------  hides it for 10 s
    (10 s later)
    message  -------------->  delivers  ------------------->  accepts
             <--------------  deleted

The time until the next attempt is the visibility timeout of the message, and the number of attempts
is that of its deliveries by SQS. After the last one SQS moves it to the dead-letter queue. A
function that is killed between the delivery and the deletion delivers again.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from joblane.aws.notify.queue import NotifyQueue
from joblane.contract.job_events import Delivery
from joblane.errors import Failure, Unavailable
from joblane.notify.request import Notify
from joblane.notify.rules import NotifyRules
from joblane.notify.schedule import wait_s
from joblane.service.log import Log

AT_ONCE = 10
"""Deliveries of a batch at the same time: all of them."""


FEED = "feed"
"""The channel of the feeds of tenants."""


class NotDelivered(Failure):
    """A notification that the receiver does not have; the text is for an operator."""

    retryable = True


def require_allowed(rules: NotifyRules, delivery: Delivery) -> Notify:
    """Return what a job asked for; what was allowed then may not be allowed any more.

    Raises NotDelivered.
    """
    if delivery.notify is None:
        raise NotDelivered("the message does not say whom to notify")
    if (refusal := rules.refusal(delivery.event.tenant, delivery.notify)) is not None:
        raise NotDelivered(f"{refusal[0]} {refusal[1]}")
    return delivery.notify


class Channel(Protocol):
    """A way to deliver."""

    def deliver(self, delivery: Delivery, attempt: int) -> None:
        """Deliver one notification. Raises NotDelivered, Unavailable."""


@dataclass(frozen=True)
class Notifier:
    """Delivers notifications."""

    queue: NotifyQueue
    channels: Mapping[str, Channel]
    """Each way to deliver, by the field of `notify`; `FEED` for those of feeds."""
    retry_s: Sequence[int]
    """Seconds after each failed attempt."""
    log: Log
    _: KW_ONLY
    jitter: Callable[[], float] = random.random
    """Returns a number from 0 to 1."""
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    def handle(self, records: Iterable[Mapping[str, Any]]) -> list[str]:
        """Deliver each record of an SQS event; returns the ids of those that failed."""
        with self.pool(AT_ONCE) as pool:
            return [failed for failed in pool.map(self._one, records) if failed is not None]

    def _one(self, record: Mapping[str, Any]) -> str | None:
        """Deliver one; returns its id if that failed."""
        message_id = str(record.get("messageId"))
        attempt = int(record.get("attributes", {}).get("ApproximateReceiveCount", 1))
        names: dict[str, object] = {"message_id": message_id, "attempt": attempt}
        try:
            delivery = Delivery.decode(record["body"])
            names |= _names(delivery)
            self.channels[_kind(delivery.notify)].deliver(delivery, attempt)
        except (NotDelivered, Unavailable) as error:
            self.log.warning("notification not delivered", problem=str(error), **names)
        except Exception:
            # Whatever it was, the other notifications must not wait for it.
            self.log.exception("notification not delivered", **names)
        else:
            self.log.info("notification delivered", **names)
            return None
        self._put_off(str(record.get("receiptHandle")), attempt, names)
        return message_id

    def _put_off(self, receipt: str, attempt: int, names: Mapping[str, object]) -> None:
        """Have the message come back later; if that fails, after the queue's own timeout."""
        try:
            self.queue.hide(receipt, wait_s(attempt, self.retry_s, self.jitter()))
        except Unavailable as error:
            self.log.warning("notification not put off", problem=str(error), **names)


def _kind(notify: Notify | None) -> str:
    """The channel of a message."""
    if notify is None:
        return FEED
    return next(kind for kind in ("url", "sns", "eventbridge") if getattr(notify, kind))


def _names(delivery: Delivery) -> dict[str, object]:
    """What a log entry says; a URL may have a secret in its path, so only its host stands there."""
    notify, event = delivery.notify, delivery.event
    if notify is None:
        return {"tenant": event.tenant, "ids": [each.id for each in delivery.events], "to": FEED}
    to = notify.sns or "eventbridge"
    if notify.url is not None:
        to = urlsplit(notify.url).netloc
    return {"id": event.id, "job_id": event.job_id, "event": event.event, "to": to}
