"""The lines of the log: each one JSON object."""

import json

from joblane.formats.times import rfc3339

TYPE_CHECKING = False  # see ec2_agent/state/__init__.py
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def line(
    at_s: float,
    level: str,
    event: str,
    message: str,
    values: "Mapping[str, Any]",
    trace: str | None,
) -> str:
    """Encode one line, without its line feed."""
    members = {
        "time": rfc3339(int(at_s * 1000)),
        "level": level,
        "event": event,
        "message": message,
        **values,
    }
    if trace is not None:
        members["trace"] = trace
    return json.dumps(members)
