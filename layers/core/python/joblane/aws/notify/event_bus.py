"""Adapter for the account's default EventBridge bus."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_events.client import EventBridgeClient


PUT_MOST = 10
"""Events of one request, at most; of 256 KB together."""


class EventBus:
    """Puts events."""

    def __init__(self, client: "EventBridgeClient") -> None:
        self._client = client

    def put(self, source: str, detail_type: str, details: Iterable[str]) -> str | None:
        """Put up to `PUT_MOST` events; returns why one was refused. Raises Unavailable."""
        answer = self._client.put_events(
            Entries=[
                {"Source": source, "DetailType": detail_type, "Detail": detail}
                for detail in details
            ]
        )
        if not answer["FailedEntryCount"]:
            return None
        entry = next(entry for entry in answer["Entries"] if "ErrorCode" in entry)
        return f"{entry.get('ErrorCode')}: {entry.get('ErrorMessage')}"
