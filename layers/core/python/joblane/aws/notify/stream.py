"""Adapter for the change stream of the `jobs` table: changes that somebody wants to know of."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from joblane.aws.job.items import HEAD, NOTIFY, TELLS, read_events
from joblane.aws.table import Row, decode
from joblane.notify.event_names import PASSED, EventName, name_event
from joblane.notify.request import Notify
from joblane.state.lifecycle import State


class ToldChange(NamedTuple):
    """A transition of a job that somebody wants to know of."""

    event: EventName
    before: State | None
    """The job's state before; None if it is new."""
    row: Row
    """The job's row as its record left it; its submission may be in another item."""
    sequence: int
    """Later transitions of a job have larger ones, and a record that is delivered again the same:
    twice the number of the record in the stream, and one more for its last transition."""
    notify: Notify | None
    """Whom the job asked to notify of this event; None if it did not."""
    on_feed: bool
    """Whether its tenant's feed has the event."""
    passed: State | None = None
    """The state after this transition, if its record has another one that follows."""


def read_changes(record: Mapping[str, Any]) -> list[ToldChange]:
    """Read a record of the stream: its transitions that somebody wants to know of, in order.

    Raises KeyError, ValueError or TypeError for a record that cannot be read.
    """
    stream = record["dynamodb"]
    if stream["Keys"]["sk"]["S"] != HEAD:
        return []
    new, old = decode(stream.get("NewImage", {})), decode(stream.get("OldImage", {}))
    if TELLS not in new:
        return []
    before, after = State(old["state"]) if old else None, State(new["state"])
    claimed, number = new["epoch"] != old.get("epoch"), 2 * int(stream["SequenceNumber"])
    notify, on_feed = _notify(new), read_events(new) is not None
    moves: list[tuple[State | None, State, int, State | None]] = []
    if before is not None and (passed := PASSED.get((before, after))) is not None:
        moves.append((before, passed, number, passed))
        before = passed
    moves.append((before, after, number + 1, None))
    changes = []
    for source, state, sequence, passed in moves:
        event = name_event(source, state, claimed=claimed)
        to = notify if notify is not None and event in notify.on else None
        if event is not None and (to is not None or on_feed):
            changes.append(ToldChange(event, source, new, sequence, to, on_feed, passed))
    return changes


def _notify(row: Row) -> Notify | None:
    """Whom to notify: from the submission, or from the attribute if that is in another item."""
    if NOTIFY not in row[TELLS].split():
        return None
    text = json.dumps(json.loads(row["spec"])["notify"]) if "spec" in row else row[NOTIFY]
    return Notify.model_validate_json(text, extra="ignore")
