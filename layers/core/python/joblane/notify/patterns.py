"""Patterns of reasons: what ended jobs have in common, without what differs from job to job.

The same patterns as those of `console/reasons.js`; a test compares the two.
"""

import re

MOST_CHARS: int = 300
"""Characters of a pattern; what is longer is cut."""

_READ_CHARS = 2_000

_PARTS = tuple(
    (re.compile(text, flags), instead)
    for text, flags, instead in (
        (
            r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?",
            re.ASCII,
            "<time>",
        ),
        (
            r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b",
            re.ASCII | re.IGNORECASE,
            "<id>",
        ),
        (r"\b[0-9A-HJKMNP-TV-Z]{26}\b", re.ASCII, "<id>"),
        (r"\b(?:i|vol|eni|subnet|sg|ami)-[0-9a-f]{8,17}\b", re.ASCII, "<id>"),
        (
            r"\b(?:0x[0-9a-f]+|(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,})\b",
            re.ASCII | re.IGNORECASE,
            "<id>",
        ),
        (r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b", re.ASCII, "<address>"),
    )
)
"""What differs, and what stands for it; the order matters."""

_NUMBER = re.compile(
    r"\b(exit code|signal|status|status code|HTTP|errno) \d+|(?<![a-z_])\d+(?:[.,]\d+)*",
    re.ASCII | re.IGNORECASE,
)
"""A number, but for a part of a name (`s3`); after these words it tells failures apart, and stays.
"""


def pattern_of(reason: str) -> str:
    """Return a reason without what differs: `exit code 3 after # s (attempt # of #)`."""
    text = reason[:_READ_CHARS]
    for part, instead in _PARTS:
        text = part.sub(instead, text)
    text = _NUMBER.sub(lambda found: found[0] if found[1] else "#", text)
    text = " ".join(text.split())
    return text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]}\u2026"
