"""Jobs for tests."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from joblane.aws.job.items import HEAD, attention, member_of, tenant_of
from joblane.aws.table import decode
from joblane.job.message import Message
from joblane.job.spec import Submission
from joblane.state.lifecycle import INDEXED, State

JOB = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def submission(**fields: object) -> Submission:
    """A submission as the API would have accepted and routed it."""
    return Submission.model_validate_json(
        json.dumps({"command": ["true"], "queue": "default", **fields})
    )


def check_index(items: Iterable[Mapping[str, Any]]) -> None:
    """Jobs are in the index `attention` exactly while their states belong there.

    `items` are those of the jobs table, as DynamoDB has them.
    """
    for item in items:
        row = decode(item)
        if row["sk"] == HEAD:
            state = State(row["state"])
            listed = state in INDEXED and member_of(row) is None
            expected = attention(tenant_of(row), state) if listed else None
            assert expected == row.get("attention"), (row["job_id"], row["timeline"])


def named(job_id: str, lane: str = "default/default", edit: int = 0) -> Message:
    """The message of a job."""
    return Message(job_id=job_id, tenant="acme", lane=lane, edit=edit)
