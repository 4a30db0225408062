"""Cursors: positions in lists, the `next` of a page.

A position is a key of the list's order, which never changes (a job's id, an agent's name), so pages
neither repeat nor skip entries while others are written. A cursor is bound to the filters of its
list and refused with others. It is not signed: it gives no access beyond the caller's token.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Callable

from joblane.job.message import is_id

_DIGEST = 6  # bytes: enough to detect a mistake


class NotACursor(ValueError):
    """A text that is not a cursor of this list; the message says why."""


def encode_cursor(key: str, *bound: str) -> str:
    """Make the `next` of a list from the key of its last entry, bound to the filters."""
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
            "is a cursor of a list with other filters; use the same filters, or leave it out"
        )
    return key


def is_job_or_members(key: str) -> bool:
    """Whether a position is a job's id, or a group's with a number: `01J...:3`.

    Bulk operations that go through jobs stop at a group for its members.
    """
    job_id, _, number = key.partition(":")
    return is_id(job_id) and (number == "" or re.fullmatch(r"[0-9]{1,5}", number) is not None)


def _digest(bound: tuple[str, ...]) -> bytes:
    return hashlib.sha256("\0".join(bound).encode("utf-8", "surrogatepass")).digest()[:_DIGEST]
