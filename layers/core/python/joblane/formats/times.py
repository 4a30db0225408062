"""Times: RFC 3339 in UTC, as the API writes them, and Unix milliseconds."""

import re
from datetime import UTC, datetime

_PATTERN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z")


def rfc3339(at_ms: int) -> str:
    """Unix milliseconds as `2026-11-21T02:07:09.123Z`."""
    moment = datetime.fromtimestamp(at_ms / 1000, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def unix_ms(text: str) -> int:
    """Inverse of `rfc3339`; a finer moment is rounded down.

    Raises ValueError for what is not RFC 3339 in UTC, written with a `Z`.
    """
    if not _PATTERN.fullmatch(text):
        raise ValueError("must be a time in UTC such as 2026-11-21T02:07:09Z")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("must be a time that exists") from None
    return int(moment.timestamp()) * 1000 + moment.microsecond // 1000
