"""Idempotency keys: requests that create their jobs once, however often they are sent."""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

WINDOW_S = 86_400
"""How long a key is remembered."""


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A key, and the request that it was sent with."""

    row: str
    """Name of its row in the table: a digest of the tenant and the key."""
    digest: str
    """Of the request: its method, path and body."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What is known of a key's request."""

    first_id: str
    """The id of its job; of a batch, the id of its first job."""
    same: bool
    """Whether the key was used with this very request."""
    repeated: bool
    """Whether it was sent before."""
    deleted: frozenset[str] = frozenset()
    """Those of its jobs that were deleted since: they are not created again."""
    coalesced: Mapping[str, str] = field(default_factory=dict)
    """Ids that it was given for jobs that were not made, and the jobs that stand for them."""


def idempotency_key(tenant: str, key: str, request: Iterable[str]) -> IdempotencyKey:
    """Make a tenant's key; `request` is everything that identifies the request."""
    return IdempotencyKey(_digest(tenant, key), _digest(*request))


def _digest(*parts: str) -> str:
    """Hash to 132 bits, as text: the head of a job carries one, and has little room."""
    joined = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()
    return base64.urlsafe_b64encode(joined).decode("ascii")[:22]
