"""Adapter for the change stream of the `jobs` table: ends of jobs with a key, and of members.

And groups of which members are left to be placed (`joblane.service.group.expansion`).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from joblane.aws.job.items import HEAD, key_of, member_of
from joblane.aws.table import Row, decode
from joblane.group.record import MemberOf
from joblane.key.decide import End
from joblane.key.segments import KeyName
from joblane.state.lifecycle import ENDED, State
from joblane.state.timeline import Step


class KeyedEnd(NamedTuple):
    """The end of a job, and the key that it had."""

    tenant: str
    key: KeyName
    end: End


class LeftGroup(NamedTuple):
    """A group of which members are left to be placed."""

    group_id: str


def read_left(record: Mapping[str, Any]) -> LeftGroup | None:
    """Read a record of the stream: whoever placed members of a group has left the others.

    Raises KeyError for a record that cannot be read.
    """
    stream = record["dynamodb"]
    group = stream.get("NewImage", {}).get("group")
    if stream["Keys"]["sk"]["S"] != HEAD or group is None or "goes_on" not in group["M"]:
        return None
    return LeftGroup(stream["Keys"]["job_id"]["S"])


def read_end(record: Mapping[str, Any]) -> KeyedEnd | MemberOf | None:
    """Read a record of the stream: a job with a key, or a member of a group, has ended.

    None if nothing follows from it. A job that is deleted before its end has ended too:

        API                          table                      sequel
                                     waiting, or pending
        delete  ----------------->   REMOVE record     ------>  its slot goes to the next one

    Raises KeyError, ValueError or TypeError for a record that cannot be read.
    """
    stream = record["dynamodb"]
    if stream["Keys"]["sk"]["S"] != HEAD:
        return None
    new, old = decode(stream.get("NewImage", {})), decode(stream.get("OldImage", {}))
    member = member_of(new or old)
    if member is not None:
        return member if _ends(old, new) else None
    key = key_of(new or old)
    if key is None or not old or old["state"] in ENDED:
        return None
    after = State(new["state"]) if new else None
    if after is not None and after not in ENDED:
        return None
    if after is State.SKIPPED and old["state"] != State.ACTIVE:
        return None  # never in its key, or the transaction that skipped it gave its place away
    image = new or old
    steps = new.get("timeline")  # only for a measurement: its lack must not keep a slot taken
    at_ms = Step.decode(steps[-1]).at_ms if steps else None
    end = End(image["job_id"], image.get("slot"), stale=after is State.STALE, at_ms=at_ms)
    return KeyedEnd(image["tenant"], key, end)


def _ends(old: Row, new: Row) -> bool:
    """Whether a member ended between two images of its row, or was deleted before its end."""
    return bool(old) and old["state"] not in ENDED and (not new or new["state"] in ENDED)
