"""SQS as it promises to be and no better: late, twice, out of order, on a simulated clock."""

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol, TypeVar

from botocore.exceptions import ClientError

from joblane.aws.fleet.inboxes import NO_SUCH_QUEUE

T = TypeVar("T")

PREFIX = "https://sqs.us-east-1.amazonaws.com/123456789012/"
"""URLs of queues begin with it."""

_RECEIPT = re.compile(r"\d+/\d+")

VISIBILITY_S = 30
"""How long SQS hides a message if nobody says."""

KEPT_S = 14 * 86_400
"""SQS deletes a message so long after it was sent."""

LATE_S = 1.0
"""A message is visible within this time after it was sent."""


@dataclass
class Entry:
    """A message in a queue."""

    body: str
    sent: float
    visible_at: float
    attributes: dict[str, Any]
    receives: int = 0
    receipt: str = ""
    group: str | None = None

    def show(self, request: dict[str, Any]) -> dict[str, Any]:
        """What the answer to a request has of it."""
        system = {
            "ApproximateReceiveCount": str(self.receives),
            "SentTimestamp": str(int(self.sent * 1000)),
        }
        if self.group is not None:
            system["MessageGroupId"] = self.group
        found: dict[str, Any] = {"Body": self.body, "ReceiptHandle": self.receipt}
        for name, having, wanted in (
            ("Attributes", system, request.get("MessageSystemAttributeNames", ())),
            ("MessageAttributes", self.attributes, request.get("MessageAttributeNames", ())),
        ):
            if chosen := {n: v for n, v in having.items() if n in wanted or "All" in wanted}:
                found[name] = chosen
        return found


class Queues:
    """What all queues hold, by URL. A queue is there once somebody has made it."""

    def __init__(
        self,
        rng: random.Random,
        clock: Callable[[], float],
        late_s: float = LATE_S,
        *,
        in_order: bool = False,
    ) -> None:
        self.rng = rng
        self.late_s = late_s
        self.in_order = in_order
        self.clock = clock
        self.entries: dict[str, dict[int, Entry]] = {}
        self.attributes: dict[str, dict[str, str]] = {}
        self.last: tuple[str, int] | None = None
        """Where the message is that was sent or handed out last, and its key."""
        self._ids = count()

    def make(self, url: str, attributes: dict[str, str] | None = None) -> None:
        """Make a queue, or find it. Raises ClientError: it has other attributes."""
        self.entries.setdefault(url, {})
        kept, given = self.attributes.setdefault(url, attributes or {}), attributes or {}
        if kept | given != kept:
            raise ClientError({"Error": {"Code": "QueueAlreadyExists"}}, "CreateQueue")

    def unmake(self, url: str) -> None:
        """Delete a queue with its messages. Raises ClientError: there is no such queue."""
        if url not in self.entries:
            raise ClientError({"Error": {"Code": NO_SUCH_QUEUE}}, "DeleteQueue")
        del self.entries[url], self.attributes[url]
        if self.last is not None and self.last[0] == url:
            self.last = None

    def of(self, url: str) -> dict[int, Entry]:
        """Messages of a queue. Raises ClientError: there is no such queue."""
        if url not in self.entries:
            raise ClientError({"Error": {"Code": NO_SUCH_QUEUE}}, "ReceiveMessage")
        return self._without_old(url)

    def _without_old(self, url: str) -> dict[int, Entry]:
        """Messages of a queue, after those are deleted that are too old."""
        entries, until = self.entries[url], self.clock() - KEPT_S
        for key in [key for key, entry in entries.items() if entry.sent <= until]:
            del entries[key]
        return entries

    def send(
        self,
        url: str,
        body: str,
        delay_s: float,
        attributes: dict[str, Any],
        group: str | None = None,
    ) -> None:
        """Take a message in. Raises ClientError: there is no such queue."""
        if url not in self.entries:
            raise ClientError({"Error": {"Code": NO_SUCH_QUEUE}}, "SendMessage")
        now = self.clock()
        shows = now + delay_s + self.rng.choice([0, self.rng.uniform(0, self.late_s)])
        key = next(self._ids)
        self.entries[url][key] = Entry(body, now, shows, attributes, group=group)
        if shows <= now:
            self.last = (url, key)

    def visible(self, url: str) -> list[int]:
        """Ids of what could be received now."""
        now = self.clock()
        return [key for key, entry in self.of(url).items() if entry.visible_at <= now]

    def hand_out(self, url: str, key: int, visible_at: float) -> Entry:
        """Receive one message."""
        entry = self.entries[url][key]
        entry.receives += 1
        entry.receipt = f"{key}/{entry.receives}"
        entry.visible_at = visible_at
        self.last = (url, key)
        return entry

    def bodies(self) -> Iterator[str]:
        """Every message, wherever it is."""
        for url in self.entries:
            for entry in self._without_old(url).values():
                yield entry.body


def _key(receipt: str) -> int:
    """The message of a receipt. Raises ClientError: it is none."""
    if not _RECEIPT.fullmatch(receipt):
        raise ClientError({"Error": {"Code": "ReceiptHandleIsInvalid"}}, "DeleteMessage")
    return int(receipt.partition("/")[0])


class Way(Protocol):
    """The way of one host or function to AWS."""

    def call(self, make: Callable[[], T], *, writes: bool) -> T:
        """Make a call as the SDK does."""


class Faults(Protocol):
    """How much trouble there is."""

    @property
    def rng(self) -> random.Random:
        """Orders messages."""

    def hit(self, of: float = 1.0) -> bool:
        """Whether it happens now."""


class NoFaults:
    """None."""

    rng = random.Random(1)

    def hit(self, of: float = 1.0) -> bool:
        """See Faults."""
        del of
        return False


class Direct:
    """A way to SQS on which nothing happens."""

    def call(self, make: Callable[[], T], *, writes: bool) -> T:
        """Make a call."""
        del writes
        return make()


class Sqs:
    """A client of SQS, as botocore would make it, over its caller's way to AWS."""

    def __init__(self, queues: Queues, network: Way, faults: Faults) -> None:
        self._queues = queues
        self._network = network
        self._faults = faults

    def send_message(self, **request: Any) -> None:
        """Send one message."""
        url, body = request["QueueUrl"], request["MessageBody"]
        delay_s, attributes = request.get("DelaySeconds", 0), request.get("MessageAttributes", {})
        group = request.get("MessageGroupId")
        self._network.call(
            lambda: self._queues.send(url, body, delay_s, attributes, group), writes=True
        )

    def send_message_batch(self, **request: Any) -> Any:
        """Send many; now and then one is refused by itself."""
        return self._network.call(lambda: self._send_all(**request), writes=True)

    def _send_all(self, **request: Any) -> Any:
        failed = []
        for entry in request["Entries"]:
            if self._faults.hit():
                failed.append({"Id": entry["Id"]})
                continue
            body, delay_s = entry["MessageBody"], entry.get("DelaySeconds", 0)
            attributes, group = entry.get("MessageAttributes", {}), entry.get("MessageGroupId")
            self._queues.send(request["QueueUrl"], body, delay_s, attributes, group)
        return {"Failed": failed}

    def receive_message(self, **request: Any) -> Any:
        """Hand out any visible messages, now and then without hiding them."""
        return self._network.call(lambda: self._receive(**request), writes=False)

    def _receive(self, **request: Any) -> Any:
        url, queues, faults = request["QueueUrl"], self._queues, self._faults
        hidden_until = queues.clock() + request.get("VisibilityTimeout", VISIBILITY_S)
        keys = queues.visible(url)
        if not queues.in_order:
            faults.rng.shuffle(keys)
        found = [
            queues.hand_out(url, key, queues.clock() if faults.hit() else hidden_until)
            for key in keys[: request.get("MaxNumberOfMessages", 1)]
        ]
        return {"Messages": [entry.show(request) for entry in found]}

    def delete_message(self, **request: Any) -> None:
        """Delete by the latest receipt; an older one may do it or not."""
        self._network.call(lambda: self._delete(**request), writes=True)

    def _delete(self, **request: Any) -> None:
        receipt, entries = request["ReceiptHandle"], self._queues.of(request["QueueUrl"])
        key = _key(receipt)
        if key in entries and (entries[key].receipt == receipt or self._faults.hit(10.0)):
            del entries[key]

    def delete_message_batch(self, **request: Any) -> Any:
        """Delete many; now and then one is refused by itself."""
        return self._network.call(lambda: self._each(request, self._delete), writes=True)

    def change_message_visibility(self, **request: Any) -> None:
        """Change visibility; an old receipt changes nothing."""
        self._network.call(lambda: self._hide(**request), writes=True)

    def change_message_visibility_batch(self, **request: Any) -> Any:
        """Change the visibility of many; now and then one is refused by itself."""
        return self._network.call(lambda: self._each(request, self._hide), writes=True)

    def _each(self, request: dict[str, Any], make: Callable[..., None]) -> Any:
        failed = []
        for entry in request["Entries"]:
            if self._faults.hit():
                failed.append({"Id": entry["Id"]})
                continue
            try:
                make(QueueUrl=request["QueueUrl"], **entry)
            except ClientError as error:
                failed.append({"Id": entry["Id"], **error.response["Error"]})
        return {"Failed": failed}

    def _hide(self, **request: Any) -> None:
        receipt = request["ReceiptHandle"]
        entry = self._queues.of(request["QueueUrl"]).get(_key(receipt))
        if entry is not None and entry.receipt == receipt:
            entry.visible_at = self._queues.clock() + request["VisibilityTimeout"]

    def create_queue(self, **request: Any) -> dict[str, str]:
        """Make a queue, or find it."""
        url, attributes = PREFIX + request["QueueName"], request.get("Attributes")
        self._network.call(lambda: self._queues.make(url, attributes), writes=True)
        return {"QueueUrl": url}

    def get_queue_url(self, **request: Any) -> dict[str, str]:
        """Find a queue."""
        url = PREFIX + request["QueueName"]
        self._network.call(lambda: self._queues.of(url), writes=False)
        return {"QueueUrl": url}

    def list_queues(self, **request: Any) -> dict[str, Any]:
        """A page of the queues whose names begin so."""
        after, most = request.get("NextToken", ""), request.get("MaxResults", 1000)
        prefix = PREFIX + request.get("QueueNamePrefix", "")
        urls = sorted(u for u in self._queues.entries if u.startswith(prefix) and u > after)
        answer: dict[str, Any] = {"QueueUrls": found} if (found := urls[:most]) else {}
        return answer | ({"NextToken": found[-1]} if len(urls) > most else {})

    def delete_queue(self, **request: Any) -> None:
        """Delete a queue."""
        self._network.call(lambda: self._queues.unmake(request["QueueUrl"]), writes=True)

    def purge_queue(self, **request: Any) -> None:
        """Delete all messages of a queue."""
        self._network.call(self._queues.of(request["QueueUrl"]).clear, writes=True)

    def set_queue_attributes(self, **request: Any) -> None:
        """Change attributes."""
        self._queues.of(request["QueueUrl"])
        self._queues.attributes[request["QueueUrl"]] |= request["Attributes"]

    def get_queue_attributes(self, **request: Any) -> Any:
        """Count messages, as exactly as SQS does not, and read attributes."""
        return self._network.call(lambda: self._read(**request), writes=False)

    def _read(self, **request: Any) -> Any:
        url = request["QueueUrl"]
        now, entries = self._queues.clock(), self._queues.of(url).values()
        hidden = [entry for entry in entries if entry.visible_at > now]
        delayed = sum(entry.receives == 0 for entry in hidden)
        counts = {
            "ApproximateNumberOfMessages": len(entries) - len(hidden),
            "ApproximateNumberOfMessagesNotVisible": len(hidden) - delayed,
            "ApproximateNumberOfMessagesDelayed": delayed,
        }
        all_of_them = {
            "MessageRetentionPeriod": "345600",
            "QueueArn": f"arn:aws:sqs:us-east-1:123456789012:{url.removeprefix(PREFIX)}",
            **{name: str(count) for name, count in counts.items()},
            **self._queues.attributes[url],
        }
        wanted = request.get("AttributeNames", ())
        shown = {n: v for n, v in all_of_them.items() if n in wanted or "All" in wanted}
        return {"Attributes": shown}
