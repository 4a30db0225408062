"""Signatures of webhooks: HMAC-SHA256 over the time and the body.

The header `Joblane-Signature` is `t=<Unix seconds>,v1=<hexadecimal>`, with one `v1` for each secret
while a secret is being replaced. What is signed is `<Unix seconds>.<body>`, so an old delivery
cannot be sent again as a new one.
"""

import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

from joblane.errors import Failure

TOLERANCE_S: Final = 300.0
"""Difference of the clocks of sender and receiver that is accepted, in seconds."""

MAX_HEADER: Final = 4096
"""Characters of a header that is looked at."""


class InvalidSignature(Failure):
    """A webhook that was not signed with the secret, or too long ago; the text says which."""


def lines(secret: str) -> tuple[str, ...]:
    """The keys in a secret: its lines that are not empty."""
    return tuple(line.strip() for line in secret.splitlines() if line.strip())


def sign(body: bytes, keys: Sequence[str], now_s: int) -> str:
    """Return the header for a body that is sent now, signed with each of the keys."""
    return ",".join([f"t={now_s}", *(f"v1={_digest(body, key, now_s)}" for key in keys)])


def check(body: bytes, header: str, keys: Sequence[str], now_s: float, tolerance_s: float) -> None:
    """Raise InvalidSignature unless one of the keys has signed this body within the tolerance."""
    parts = [part.strip().partition("=") for part in header[:MAX_HEADER].split(",")]
    times = [value for name, _, value in parts if name == "t"]
    given = [value for name, _, value in parts if name == "v1"]
    if len(times) != 1 or not (times[0].isascii() and times[0].isdecimal()) or not given:
        raise InvalidSignature("the header must look like t=<Unix seconds>,v1=<hexadecimal>")
    signed_s = int(times[0])
    expected = [_digest(body, key, signed_s).encode() for key in keys]
    found = [value.encode("utf-8", "surrogateescape") for value in given]
    if not any([hmac.compare_digest(mine, theirs) for mine in expected for theirs in found]):  # noqa: C419 - each is compared, so that the time says nothing
        raise InvalidSignature("the body was not signed with this secret")
    if abs(now_s - signed_s) > tolerance_s:
        raise InvalidSignature(
            f"it was signed {now_s - signed_s:.0f} s ago; {tolerance_s:g} s are allowed"
        )


def _digest(body: bytes, key: str, at_s: int) -> str:
    return hmac.new(key.encode(), f"{at_s}.".encode() + body, hashlib.sha256).hexdigest()
