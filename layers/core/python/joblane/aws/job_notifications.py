"""Adapter for the change stream of the `jobs` table: changes that somebody wants to know of."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from joblane.aws.job_items import HEAD
from joblane.aws.table import Row, decoded
from joblane.job.lifecycle import State
from joblane.notify.request import Notify, NotifyState

ATTRIBUTE = "notify"
"""Attribute of the jobs that notify somebody; infra/sequel.py filters by it."""


class Change(NamedTuple):
    """A job that has come to a state that it notifies about."""

    notify: Notify
    state: NotifyState
    previous: State | None
    row: Row
    """The job's row as this change left it; its submission may be in another item."""


def read_change(record: Mapping[str, Any]) -> Change | None:
    """Read a record of the stream; None if it is no change of the state, or not to such a one.

    Raises KeyError, ValueError or TypeError for a record that cannot be read.
    """
    stream = record["dynamodb"]
    if stream["Keys"]["sk"]["S"] != HEAD:
        return None
    new, old = decoded(stream.get("NewImage", {})), decoded(stream.get("OldImage", {}))
    if ATTRIBUTE not in new or new["state"] == old.get("state"):
        return None
    notify = Notify.model_validate_json(new[ATTRIBUTE])
    for state in notify.on:
        if state == new["state"]:
            return Change(notify, state, State(old["state"]) if old else None, new)
    return None
