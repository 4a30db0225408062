"""The result of a job: JSON that its last attempt gave.

Standard library only: every job's shim imports it.
"""

import json
from dataclasses import dataclass

MAX_RESULT_BYTES = 262_144
"""Bytes of a result, as written and in its shortest form."""

INLINE_RESULT_BYTES = 1024
"""Longest result that the job's row holds; a longer one is an object in S3. Each KB of the row
costs a write unit, and is read whenever the job is listed."""


def says_changed(result: str | None) -> bool:
    """Whether a result, as JSON, is an object that says `"changed": true`."""
    value = None if result is None else json.loads(result)
    return isinstance(value, dict) and value.get("changed") is True


@dataclass(frozen=True, slots=True)
class ResultObject:
    """A result that is stored in S3, under the job's id and epoch."""

    size: int
    """Bytes."""
    sha256: str
    """Hexadecimal."""
