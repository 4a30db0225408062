"""SQS as it promises to be and no better: late, twice, out of order, on a simulated clock."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError

LATE_S = 1.0
"""A message that was sent shows within this time."""


class Faults:
    """Whether a call fails now, and how: before it was made, or after, the answer lost."""

    def __init__(self, dice: random.Random, share: float) -> None:
        self.dice = dice
        self.share = share

    def refuse(self, **_: Any) -> None:
        """Fail before the call is made."""
        if self.dice.random() < self.share:
            raise ClientError({"Error": {"Code": "ThrottlingException"}}, "Any")

    def lose_answer(self, **_: Any) -> None:
        """Fail after the call was made."""
        if self.dice.random() < self.share:
            raise ReadTimeoutError(endpoint_url="https://aws.test")

    @contextmanager
    def call(self) -> Iterator[None]:
        """Fail around a call."""
        self.refuse()
        yield
        self.lose_answer()


@dataclass
class Entry:
    """A message in a queue."""

    body: str
    sent: float
    visible_at: float
    attributes: dict[str, Any]
    receives: int = 0
    receipt: str = ""


class Queues:
    """What all queues hold, by URL. A queue is there once somebody has made it."""

    def __init__(self, dice: random.Random, clock: Callable[[], float]) -> None:
        self.dice = dice
        self.clock = clock
        self.entries: dict[str, dict[int, Entry]] = {}
        self._ids = count()

    def make(self, url: str) -> None:
        """Make a queue, or find it."""
        self.entries.setdefault(url, {})

    def send(self, url: str, body: str, delay_s: float, attributes: dict[str, Any]) -> None:
        """Take a message in."""
        now = self.clock()
        shows = now + delay_s + self.dice.uniform(0, LATE_S)
        self.entries[url][next(self._ids)] = Entry(body, now, shows, attributes)

    def visible(self, url: str) -> list[int]:
        """Ids of what could be received now."""
        now = self.clock()
        return [key for key, entry in self.entries[url].items() if entry.visible_at <= now]

    def bodies(self) -> Iterator[str]:
        """Every message, wherever it is."""
        for entries in self.entries.values():
            for entry in entries.values():
                yield entry.body


class Sqs:
    """A client of SQS, as botocore would make it, with its caller's faults."""

    def __init__(self, queues: Queues, faults: Faults) -> None:
        self._queues = queues
        self._faults = faults

    def send_message(self, **request: Any) -> None:
        """Send one message."""
        url = request["QueueUrl"]
        with self._faults.call():
            if url not in self._queues.entries:
                code = "AWS.SimpleQueueService.NonExistentQueue"
                raise ClientError({"Error": {"Code": code}}, "SendMessage")
            delay_s, attributes = request.get("DelaySeconds", 0), request.get("MessageAttributes")
            self._queues.send(url, request["MessageBody"], delay_s, attributes or {})

    def send_message_batch(self, **request: Any) -> Any:
        """Send many; now and then one is refused by itself."""
        failed = []
        with self._faults.call():
            for entry in request["Entries"]:
                if self._faults.dice.random() < self._faults.share:
                    failed.append({"Id": entry["Id"]})
                    continue
                body, delay_s = entry["MessageBody"], entry["DelaySeconds"]
                self._queues.send(request["QueueUrl"], body, delay_s, {})
        return {"Failed": failed}

    def receive_message(self, **request: Any) -> Any:
        """Hand out any visible messages, now and then without hiding them."""
        url, queues, dice = request["QueueUrl"], self._queues, self._faults.dice
        with self._faults.call():
            keys = queues.visible(url)
            dice.shuffle(keys)
            found = []
            for key in keys[: request["MaxNumberOfMessages"]]:
                entry = queues.entries[url][key]
                entry.receives += 1
                entry.receipt = f"{key}/{entry.receives}"
                if dice.random() >= self._faults.share:
                    entry.visible_at = queues.clock() + request["VisibilityTimeout"]
                found.append(
                    {
                        "Body": entry.body,
                        "ReceiptHandle": entry.receipt,
                        "Attributes": {
                            "ApproximateReceiveCount": str(entry.receives),
                            "SentTimestamp": str(int(entry.sent * 1000)),
                        },
                    }
                )
        return {"Messages": found}

    def delete_message(self, **request: Any) -> None:
        """Delete, by the latest receipt or an older one."""
        key = int(request["ReceiptHandle"].partition("/")[0])
        with self._faults.call():
            self._queues.entries[request["QueueUrl"]].pop(key, None)

    def change_message_visibility(self, **request: Any) -> None:
        """Change visibility; an old receipt changes nothing."""
        receipt = request["ReceiptHandle"]
        with self._faults.call():
            entry = self._queues.entries[request["QueueUrl"]].get(int(receipt.partition("/")[0]))
            if entry is not None and entry.receipt == receipt:
                entry.visible_at = self._queues.clock() + request["VisibilityTimeout"]
