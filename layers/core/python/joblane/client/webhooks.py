"""For receivers of webhooks: check the signature of a request, and read its event.

    from joblane.client import webhooks

    event = webhooks.verify(body, headers["Joblane-Signature"], secret)
    if event["state"] == "failed":
        ...

Standard library only.
"""

import json
import time
from typing import Any

from joblane.notify.signature import TOLERANCE_S, InvalidSignature, check, lines

__all__ = ["TOLERANCE_S", "InvalidSignature", "verify"]


def verify(
    body: bytes | str,
    signature: str,
    secret: str,
    *,
    tolerance_s: float = TOLERANCE_S,
    now_s: float | None = None,
) -> dict[str, Any]:
    """Return the event of a request that was signed with `secret`.

    `body` is the body as it was received, before it is parsed, and `signature` the value of the
    header `Joblane-Signature`. `secret` may have several lines, of which one must have signed. A
    request that was signed more than `tolerance_s` seconds ago is refused. An event may be
    delivered more than once: its `id` is the same each time.

    Raises `InvalidSignature`, whose text says what is wrong; answer such a request with 400.
    """
    raw = body.encode() if isinstance(body, str) else body
    keys = lines(secret)
    if not keys:
        raise ValueError("the secret is empty")
    check(raw, signature, keys, time.time() if now_s is None else now_s, tolerance_s)
    event = json.loads(raw)
    if not isinstance(event, dict):
        raise InvalidSignature("the body is not an event")
    return event
