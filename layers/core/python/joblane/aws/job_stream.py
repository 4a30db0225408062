"""Adapter for the change stream of the `jobs` table: a record of the stream as a `JobChange`."""

import json
from collections.abc import Mapping
from typing import Any

from joblane.aws.job_items import HEAD
from joblane.job.head import Step
from joblane.job.lifecycle import State
from joblane.queue.activity import JobChange


def read_record(record: Mapping[str, Any]) -> JobChange | None:
    """Read a record of the stream; None for a deletion and for items that are not heads.

    Raises KeyError, ValueError or TypeError for a record that cannot be read.
    """
    stream = record["dynamodb"]
    if stream["Keys"]["sk"]["S"] != HEAD or record["eventName"] == "REMOVE":
        return None
    new, old = stream["NewImage"], stream.get("OldImage")
    queue, items = _queue_and_items(new)
    return JobChange(
        tenant=new["tenant"]["S"],
        queue=queue,
        items=items,
        minute=int(stream["ApproximateCreationDateTime"]) // 60,
        sequence=int(stream["SequenceNumber"]),
        after=State(new["state"]["S"]),
        after_ms=_last_step_ms(new),
        before=None if old is None else State(old["state"]["S"]),
        ready_ms=None if old is None else _ready_ms(old),
    )


def _queue_and_items(head: Mapping[str, Any]) -> tuple[str, int]:
    """Queue and items of a job, from its submission or from the attributes that replace it."""
    if "spec" in head:
        spec = json.loads(head["spec"]["S"])
        return str(spec["queue"]), int(spec.get("items", 1))
    return head["queue"]["S"], int(head["items"]["N"]) if "items" in head else 1


def _ready_ms(head: Mapping[str, Any]) -> int:
    return int(head["next_at"]["N"]) if "next_at" in head else _last_step_ms(head)


def _last_step_ms(head: Mapping[str, Any]) -> int:
    return Step.decode(head["timeline"]["L"][-1]["S"]).at_ms
