"""Adapter for the account's default EventBridge bus."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_events.client import EventBridgeClient


class EventBus:
    """Puts events."""

    def __init__(self, client: "EventBridgeClient") -> None:
        self._client = client

    def put(self, source: str, detail_type: str, detail: str) -> str | None:
        """Put an event; returns why it was refused. Raises Unavailable."""
        answer = self._client.put_events(
            Entries=[{"Source": source, "DetailType": detail_type, "Detail": detail}]
        )
        if not answer["FailedEntryCount"]:
            return None
        entry = answer["Entries"][0]
        return f"{entry.get('ErrorCode')}: {entry.get('ErrorMessage')}"
