"""Adapter for the change stream of the `jobs` table: changes that somebody wants to know of."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from joblane.aws.job.items import HEAD, NOTIFY
from joblane.aws.table import Row, decode
from joblane.notify.request import Notify, NotifyState
from joblane.state.lifecycle import State


class NotifiedChange(NamedTuple):
    """A job that has come to a state that it notifies about."""

    notify: Notify
    state: NotifyState
    previous: State | None
    row: Row
    """The job's row as this change left it; its submission may be in another item."""


def read_change(record: Mapping[str, Any]) -> NotifiedChange | None:
    """Read a record of the stream; None if it is no change of the state, or not to such a one.

    Raises KeyError, ValueError or TypeError for a record that cannot be read.
    """
    stream = record["dynamodb"]
    if stream["Keys"]["sk"]["S"] != HEAD:
        return None
    new, old = decode(stream.get("NewImage", {})), decode(stream.get("OldImage", {}))
    if NOTIFY not in new or new["state"] == old.get("state"):
        return None
    notify = _notify(new)
    for state in notify.on:
        if state == new["state"]:
            return NotifiedChange(notify, state, State(old["state"]) if old else None, new)
    return None


def _notify(row: Row) -> Notify:
    """Whom to notify: from the submission, or from the attribute if that is in another item."""
    text = json.dumps(json.loads(row["spec"])["notify"]) if "spec" in row else row[NOTIFY]
    return Notify.model_validate_json(text, extra="ignore")
