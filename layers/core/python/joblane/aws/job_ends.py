"""Adapter for the change stream of the `jobs` table: which records are ends of jobs with a key."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from joblane.aws.job_items import HEAD, key_of
from joblane.aws.table import decoded
from joblane.job.lifecycle import ENDED, State
from joblane.key.decide import End
from joblane.key.segments import KeyName
from joblane.key.state import FREES_SLOT


class KeyedEnd(NamedTuple):
    """The end of a job, and the key that it had."""

    tenant: str
    key: KeyName
    end: End


def read_end(record: Mapping[str, Any]) -> KeyedEnd | None:
    """Read a record of the stream; None if no slot of a key follows from it.

    A job that is deleted before its end has ended too:

        API                          table                      sequel
                                     waiting, or pending
        delete  ----------------->   REMOVE record     ------>  its slot goes to the next one

    Raises KeyError, ValueError or TypeError for a record that cannot be read.
    """
    stream = record["dynamodb"]
    if stream["Keys"]["sk"]["S"] != HEAD:
        return None
    new, old = decoded(stream.get("NewImage", {})), decoded(stream.get("OldImage", {}))
    key = key_of(new or old)
    if key is None or not old or old["state"] in ENDED:
        return None
    after = State(new["state"]) if new else None
    if after is not None and after not in FREES_SLOT:
        return None
    image = new or old
    end = End(image["job_id"], image.get("slot"), stale=after is State.STALE)
    return KeyedEnd(image["tenant"], key, end)
