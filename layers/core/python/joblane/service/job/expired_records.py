"""Reports of Lambda on records of the stream that were too old when it first read them.

A mapping that reads the stream from its beginning, as sequel's does, meets records of 24 h when it
is created for a table that is older, as after `cdk destroy` and `deploy`. Those above its age limit
go to the queue `alternate` at once. Nothing was tried with them, and nobody has to act: the slots
and groups of their jobs are looked at by the requeue function (`joblane.service.key.watch`,
`joblane.service.group.watch`).
"""

import json
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

NEW_S = 3600
"""For so many seconds after its creation a mapping meets records that are older than itself: Lambda
may take minutes to begin, and reads each shard in turn."""


class Expired(NamedTuple):
    """A report on records that were too old."""

    function: str
    """Name of the function that was not called."""
    at: float
    """When they were given up, in Unix seconds."""
    records: int
    """How many."""


def read_expired(report: str) -> Expired | None:
    """Read a message of the queue `alternate`; None if it is no such report."""
    try:
        found = json.loads(report)
        context, batch = found["requestContext"], found["DDBStreamBatchInfo"]
        if context["condition"] != "RecordAgeExceeded":
            return None
        function = str(context["functionArn"]).split(":")[6]
        at = datetime.fromisoformat(found["timestamp"]).timestamp()
        return Expired(function, at, int(batch["batchSize"]))
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def is_of_new_mapping(expired: Expired, function: str, created: Callable[[], float | None]) -> bool:
    """Whether the records were older than the mapping that met them.

    `function` is the one that reads from the beginning; `created` returns when its mapping was
    created, in Unix seconds, or None while that is not written yet.
    """
    if expired.function != function:
        return False
    since = created()
    return since is None or expired.at < since + NEW_S
