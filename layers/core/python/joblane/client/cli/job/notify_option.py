"""The options --notify, --notify-on and --notify-members of `run` and `submit`."""

from collections.abc import Sequence
from typing import Any

import typer


def notify_field(
    to: str | None, on: Sequence[str] | None, *, members: bool
) -> dict[str, Any] | None:
    """The field `notify` of the submission. Raises `typer.BadParameter`."""
    if to is None:
        if on:
            raise typer.BadParameter("--notify-on needs --notify")
        if members:
            raise typer.BadParameter("--notify-members needs --notify")
        return None
    if to == "eventbridge":
        field: dict[str, Any] = {"eventbridge": True}
    elif to.startswith("arn:"):
        field = {"sns": to}
    elif to.startswith(("https://", "http://")):
        field = {"url": to}
    else:
        raise typer.BadParameter(
            "--notify must be a URL with https://, the ARN of an SNS topic, or eventbridge"
        )
    events = [event for text in on or () for event in text.split(",") if event]
    return field | ({"on": events} if events else {}) | ({"members": True} if members else {})
