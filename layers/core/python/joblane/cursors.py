"""Cursors: a place in a list, as the API hands it out in `next` and takes it back. Pure.

A place is a key of the list's own order, which never changes (a job's id, an agent's name), so a
page that is read while others write neither repeats nor leaves out what was there before. Beside
it stands what the list was asked for: a cursor of one selection is refused in another. It is not
signed: it opens nothing that the caller's token does not open anyway.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable

_DIGEST = 6  # bytes: enough to notice a mistake, which is all that it is for


class NotACursor(ValueError):
    """A text that cannot be gone on from; the message says why."""


def encode_cursor(key: str, *bound: str) -> str:
    """Make the `next` of a list from the key it ended with, bound to what was asked for."""
    return base64.urlsafe_b64encode(_digest(bound) + key.encode()).decode("ascii").rstrip("=")


def decode_cursor(given: str, is_key: Callable[[str], object], *bound: str) -> str:
    """Inverse of `encode_cursor`. Raises NotACursor unless `is_key` accepts what it holds."""
    try:
        content = base64.b64decode(given + "=" * (-len(given) % 4), b"-_", validate=True)
        key = content[_DIGEST:].decode()
    except (binascii.Error, ValueError):
        content, key = b"", ""
    if not is_key(key):
        raise NotACursor("is not a cursor of this list; pass what its last page returned")
    if content[:_DIGEST] != _digest(bound):
        raise NotACursor(
            "is a cursor of a list with other filters; go on with those, or begin without it"
        )
    return key


def _digest(bound: tuple[str, ...]) -> bytes:
    return hashlib.sha256("\0".join(bound).encode("utf-8", "surrogatepass")).digest()[:_DIGEST]
