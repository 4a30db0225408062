"""Deliver a notification as a signed POST to a URL.

A redirect is a failure: the URL that was allowed is the one that is called. The body of the answer
is not read. Only the receiver's status counts: 2xx is a delivery.
"""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field

from joblane.condition.names import Address
from joblane.contract.job_events import Delivery
from joblane.notify.addresses import WebhookUrl, parse_url
from joblane.notify.rules import NotifyRules
from joblane.notify.signature import lines, sign
from joblane.service.notify.notifier import NotDelivered, require_allowed
from joblane.service.outbound import (
    Deadline,
    Guard,
    HostForbidden,
    ask,
    connect,
    secure_connection,
    trouble,
)

TIMEOUT_S = 10.0
"""Time limit of a request, from the connection to the status line."""

SECRET_S = 300.0
"""Seconds for which a secret that was read is used."""

LEAST_KEY = 16
"""Shortest key in a secret, in characters."""


@dataclass(frozen=True)
class Webhooks:
    """Sends webhooks."""

    rules: NotifyRules
    read_secret: Callable[[str, str], str]
    """Returns the secret of a reference and a tenant. Raises NotDelivered."""
    guard: Guard
    clock: Callable[[], float]
    _: KW_ONLY
    timeout_s: float = TIMEOUT_S
    cached: dict[str, tuple[float, tuple[str, ...]]] = field(default_factory=dict)
    """The keys of each tenant, and when they were read."""

    def deliver(self, delivery: Delivery, attempt: int) -> None:
        """Send one. Raises NotDelivered."""
        url, event = require_allowed(self.rules, delivery).url or "", delivery.event
        parsed, body = parse_url(url), event.model_dump_json().encode()
        signature = sign(body, self._keys(event.tenant), int(self.clock()))
        headers = {
            "Host": parsed.host_header,
            "User-Agent": "joblane",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Joblane-Event": event.event,
            "Joblane-Delivery": event.id,
            "Joblane-Attempt": str(attempt),
            "Joblane-Signature": signature,
            "Connection": "close",
        }
        status = self._post(parsed, _request(parsed, headers) + body)
        if status is None:
            raise NotDelivered("the receiver does not speak HTTP")
        if not 200 <= status < 300:
            raise NotDelivered(f"the receiver answers {status}")

    def _post(self, url: WebhookUrl, request: bytes) -> int | None:
        deadline = Deadline(self.timeout_s)
        try:
            with connect(self.guard, Address(url.host, url.port), deadline) as plain:
                if url.scheme == "http":
                    return ask(plain, request, deadline)
                with secure_connection(plain, url.host) as secure:
                    return ask(secure, request, deadline)
        except HostForbidden as refusal:
            raise NotDelivered(str(refusal)) from None
        except OSError as error:
            raise NotDelivered(f"the receiver: {trouble(error, self.timeout_s)}") from None

    def _keys(self, tenant: str) -> tuple[str, ...]:
        """The keys that sign a tenant's webhooks, read again after `SECRET_S`."""
        now = time.monotonic()
        known = self.cached.get(tenant)
        if known is not None and now - known[0] < SECRET_S:
            return known[1]
        reference = self.rules.tenants[tenant].secret or ""
        keys = lines(self.read_secret(reference, tenant))
        if not keys or min(map(len, keys)) < LEAST_KEY:
            raise NotDelivered(
                f"the secret {reference} must have a line of at least {LEAST_KEY} characters, and "
                "no shorter ones"
            )
        self.cached[tenant] = (now, keys)
        return keys


def _request(url: WebhookUrl, headers: Mapping[str, str]) -> bytes:
    """Head of the request."""
    head = [f"POST {url.target} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
    if any(re.search(r"[^ -~]", line) for line in head):
        raise NotDelivered("a header would have a character that is not printable")
    return ("\r\n".join(head) + "\r\n\r\n").encode("ascii")
