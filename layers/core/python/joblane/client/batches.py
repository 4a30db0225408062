"""What one request with many submissions may have, and which answers are worth another try."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

BATCH_BYTES = 2_900_000
"""Bytes of the jobs in a request; the API takes 3,000,000."""


def may_succeed(answer: Mapping[str, Any]) -> bool:
    """Whether a job was refused for lack of capacity: the same request may succeed later."""
    status = answer.get("status")
    return isinstance(status, int) and (
        status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    )
