"""Adapter for the change stream of the `jobs` table: what the spans of a job are made of."""

import json
from collections.abc import Mapping
from typing import Any

from joblane.aws.job.items import HEAD, member_of, queue_of, tenant_of
from joblane.aws.table import Row, decode
from joblane.job.spans import Ended, ends_something
from joblane.state.lifecycle import Outcome, State
from joblane.state.trace import in_sample, parse_trace


def read_ended(record: Mapping[str, Any], ratio: float) -> Ended | None:
    """Read a record of the stream; None if it ends nothing, or the job is not in the sample.

    `ratio` is the part of the traces without a caller that are. Raises KeyError, ValueError or
    TypeError for a record that cannot be read.
    """
    stream = record["dynamodb"]
    if stream["Keys"]["sk"]["S"] != HEAD or "NewImage" not in stream:
        return None
    before, after = _state(stream.get("OldImage")), _state(stream["NewImage"])
    if after is None or not (before is State.ACTIVE or before is not after):
        return None  # decided before both images are decoded: most changes end nothing
    new, old = decode(stream["NewImage"]), decode(stream.get("OldImage", {}))
    claimed = new["epoch"] != old.get("epoch")
    if not ends_something(before, after, claimed=claimed) or not _in_sample(new, ratio):
        return None
    spec = json.loads(new["spec"]) if "spec" in new else new
    lost = after is State.ACTIVE
    ran = before is State.ACTIVE and not lost
    return Ended(
        job_id=new["job_id"],
        tenant=tenant_of(new),
        queue=queue_of(new),
        type=spec.get("type"),
        name=spec.get("name"),
        before=before,
        after=after,
        epoch=old.get("epoch", new["epoch"]),
        attempt=old.get("attempt", new["attempt"]),
        agent=old.get("held_by"),
        timeline=_timeline(old.get("timeline", []), new["timeline"]),
        outcome=Outcome(new["outcome"]) if ran and "outcome" in new else None,
        exit_code=new.get("exit_code") if ran else None,
        signal=new.get("term_signal") if ran else None,
        usage_json=new.get("usage_json") if ran else None,
        traceparent=new.get("traceparent"),
        tracestate=new.get("tracestate"),
    )


def _state(image: Mapping[str, Any] | None) -> State | None:
    return None if image is None else State(image["state"]["S"])


def _in_sample(row: Row, ratio: float) -> bool:
    group = member_of(row)
    earlier = [row.get("resubmit_of"), None if group is None else group.group_id]
    caller = parse_trace(row.get("traceparent"), row.get("tracestate"))
    return in_sample(row["job_id"], caller, ratio, [each for each in earlier if each is not None])


def _timeline(old: list[str], new: list[str]) -> tuple[str, ...]:
    """All steps up to the change.

    A change may shorten the timeline (`joblane.state.timeline.extend`), and so leave out when the
    attempt began that it ends: then the earlier steps are those of before.
    """
    longer = new[: len(old)] == old and len(new) > len(old)
    return tuple(new) if longer else (*old, new[-1])
