"""Adapter for the change stream of the `jobs` table: changes that somebody wants to know of."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from joblane.aws.job.items import HEAD, NOTIFY, TELLS, read_events
from joblane.aws.table import Row, decode
from joblane.notify.event_names import EventName, name_event
from joblane.notify.request import Notify
from joblane.state.lifecycle import State


class ToldChange(NamedTuple):
    """A transition of a job that somebody wants to know of."""

    event: EventName
    before: State | None
    """The job's state before; None if it is new."""
    row: Row
    """The job's row as this change left it; its submission may be in another item."""
    sequence: int
    """Number of the record in the stream: later changes of a job have larger ones, and a record
    that is delivered again has the same."""
    notify: Notify | None
    """Whom the job asked to notify of this event; None if it did not."""
    on_feed: bool
    """Whether its tenant's feed has the event."""


def read_change(record: Mapping[str, Any]) -> ToldChange | None:
    """Read a record of the stream; None if it is no transition, or nobody wants to know of it.

    Raises KeyError, ValueError or TypeError for a record that cannot be read.
    """
    stream = record["dynamodb"]
    if stream["Keys"]["sk"]["S"] != HEAD:
        return None
    new, old = decode(stream.get("NewImage", {})), decode(stream.get("OldImage", {}))
    if TELLS not in new:
        return None
    before = State(old["state"]) if old else None
    event = name_event(before, State(new["state"]), claimed=new["epoch"] != old.get("epoch"))
    if event is None:
        return None
    notify, on_feed = _notify(new), read_events(new) is not None
    if notify is not None and event not in notify.on:
        notify = None
    if notify is None and not on_feed:
        return None
    return ToldChange(event, before, new, int(stream["SequenceNumber"]), notify, on_feed)


def _notify(row: Row) -> Notify | None:
    """Whom to notify: from the submission, or from the attribute if that is in another item."""
    if NOTIFY not in row[TELLS].split():
        return None
    text = json.dumps(json.loads(row["spec"])["notify"]) if "spec" in row else row[NOTIFY]
    return Notify.model_validate_json(text, extra="ignore")
