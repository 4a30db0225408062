"""Adapter for the change stream of the `jobs` table: what is exported of it."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from joblane.aws.job.items import HEAD, tenant_of
from joblane.aws.table import Item, decode
from joblane.job.exported import RecordKind
from joblane.state.lifecycle import ENDED, State

_TTL: Final = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
"""`userIdentity` of a record by which DynamoDB deletes an expired row."""

_OF_DELETED: Final = ("job_id", "tenant", "of", "timeline")
"""What is passed on of a row that somebody deleted; of the timeline its last line."""


class Exported(BaseModel):
    """A change of a job that is exported."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    record: RecordKind
    sequence: int
    """Number of the change in the stream."""
    row: Item
    """The job's row as DynamoDB encodes it: as it is now, or as it was before it was deleted."""

    @property
    def tenant(self) -> str:
        """The tenant that owns the job."""
        return tenant_of(decode({k: v for k, v in self.row.items() if k in {"tenant", "of"}}))


def read_exported(record: Mapping[str, Any], tenants: Collection[str]) -> Exported | None:
    """Read a record of the stream; None if nothing is exported of it.

    A job that ends, again after a retry too, is; so is one that leaves an end for another, as from
    dead to dismissed. Raises KeyError, ValueError or TypeError for a record that cannot be read.
    """
    stream = record["dynamodb"]
    if stream["Keys"]["sk"]["S"] != HEAD:
        return None
    new, old = stream.get("NewImage"), stream.get("OldImage")
    row = old if new is None else new
    before, after = _state(old), _state(new)
    if new is None and record.get("userIdentity") == _TTL:
        kind: RecordKind = "expired"
        if before not in ENDED:
            return None  # an end that crossed its expiry has a row again, and ends again
    elif new is None:
        kind = "deleted"
        row = {k: v for k, v in row.items() if k in _OF_DELETED}
        row["timeline"] = {"L": row["timeline"]["L"][-1:]}
    elif after in ENDED and before is not after:
        kind = "ended"
    else:
        return None
    found = Exported(record=kind, sequence=int(stream["SequenceNumber"]), row=row)
    return found if found.tenant in tenants else None


def _state(image: Mapping[str, Any] | None) -> State | None:
    return None if image is None else State(image["state"]["S"])
