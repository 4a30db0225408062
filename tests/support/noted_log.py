"""A log that keeps its entries, for tests of what is logged."""

from typing import Any


class NotedLog:
    """Entries are message and fields."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, dict[str, Any]]] = []

    def of(self, message: str) -> list[dict[str, Any]]:
        """The fields of each entry with this message."""
        return [fields for text, fields in self.entries if text == message]

    def _note(self, msg: object, **fields: Any) -> None:
        self.entries.append((str(msg), fields))

    info = warning = error = exception = _note
