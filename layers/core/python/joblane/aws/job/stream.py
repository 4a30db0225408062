"""Adapter for the change stream of the `jobs` table: what a record of it counts as."""

from collections.abc import Mapping
from typing import Any

from joblane.aws.job.items import HEAD, queue_of, submitted_field, tenant_of
from joblane.aws.table import Row, decode
from joblane.formats.ids import submitted_ms
from joblane.job.fields import COMMAND
from joblane.queue.activity import Change, kind_of
from joblane.state.lifecycle import State
from joblane.state.timeline import Step, waits_since


def read_record(record: Mapping[str, Any]) -> Change | None:
    """Read a record of the stream; None for what is not counted.

    Items that are not heads are not. Raises KeyError, ValueError or TypeError for a
    record that cannot be read.
    """
    stream = record["dynamodb"]
    if stream["Keys"]["sk"]["S"] != HEAD:
        return None
    new, old = decode(stream.get("NewImage", {})), decode(stream.get("OldImage", {}))
    before, after = _state(old), _state(new)
    # Of a group, its members are counted, and itself while it waits for its run_at.
    kind = None if after is None or "group" in new else kind_of(before, after)
    output_bytes = _added("output_bytes", old, new)
    file_bytes = _added("output_file_bytes", old, new)
    moved_from = queue_of(old) if old and new and queue_of(old) != queue_of(new) else None
    unbegun = _unbegun(new) - _unbegun(old)
    told = output_bytes or file_bytes or moved_from or unbegun
    if kind is None and before is after and not told:
        return None
    return Change(
        tenant=tenant_of(new or old),
        queue=queue_of(new or old),
        kind=kind,
        items=int(submitted_field(new or old, "items", 1)),
        type=str(submitted_field(new or old, "type", COMMAND)),
        moved_from=moved_from,
        unbegun=unbegun,
        minute=int(stream["ApproximateCreationDateTime"]) // 60,
        sequence=int(stream["SequenceNumber"]),
        submitted=submitted_ms(stream["Keys"]["job_id"]["S"]) // 60_000,
        waited_ms=max(0, _last_step_ms(new) - _ready_ms(old)) if kind == "started" else 0,
        ran_ms=_ran_ms(old, new) if before is State.ACTIVE and after is not None else None,
        output_bytes=output_bytes,
        file_bytes=file_bytes,
        before=before,
        after=after,
        listed="tenant" in (new or old),  # a member of a group has `of` in its place
    )


def _unbegun(head: Row) -> int:
    """Members of a group that are still to begin; 0 of any other job, or of none."""
    group = head.get("group")
    if group is None or State(head["state"]) is not State.PROCESSING or "stop" in group:
        return 0
    return int(group["n"] - group["begun"])


def _added(name: str, old: Row, new: Row) -> int:
    return int(max(0, new.get(name, 0) - old.get(name, 0)))


def _state(image: Row) -> State | None:
    """The state of a job in an image of the stream; None if there was or is no job."""
    return State(image["state"]) if image else None


def _ready_ms(head: Row) -> int:
    """When a job could have started: at its next start, or since it came to its state."""
    if (next_ms := head.get("next_at")) is not None:
        return int(next_ms)
    return waits_since([Step.decode(line) for line in head["timeline"]]).at_ms


def _ran_ms(old: Row, new: Row) -> int | None:
    """How long an attempt ran that has ended; None if it goes on."""
    if _state(new) is State.ACTIVE:
        return None
    return max(0, _last_step_ms(new) - _last_step_ms(old))


def _last_step_ms(head: Row) -> int:
    return Step.decode(head["timeline"][-1]).at_ms
