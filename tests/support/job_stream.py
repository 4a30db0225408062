"""The stream of the jobs table, made of heads that a test writes."""

import hashlib
from dataclasses import replace
from typing import Any

from joblane.aws.job.items import to_item
from joblane.formats.ids import new_id
from joblane.job.head import Head, make_head
from joblane.state.lifecycle import State
from joblane.state.timeline import Step
from tests.support.jobs import submission

NOON = 1_800_014_400
NOON_MS = NOON * 1000


class Stream:
    """The stream of the jobs table, as DynamoDB makes it, for a test to deliver."""

    def __init__(self, sequence: int = 0) -> None:
        """Number records from `sequence` on; those of AWS have some 25 digits."""
        self._sequence = sequence
        self._known: dict[str, dict[str, Any]] = {}

    def write(
        self,
        job: str,
        state: State | None,
        at: int = NOON,
        tenant: str = "acme",
        *,
        output: int = 0,
        files: int = 0,
        beside: bool = False,
        submitted: int = NOON,
        **fields: Any,
    ) -> dict[str, Any]:
        """The record of a job that was written with this state, or deleted (None).

        `fields` are of its submission, which is `beside` its row if it is long. Its id is of the
        second `submitted`.
        """
        job = id_of_job(job, submitted)
        self._sequence += 1
        old = self._known.pop(job, None)
        stream: dict[str, Any] = {
            "ApproximateCreationDateTime": float(at),
            "Keys": {"job_id": {"S": job}, "sk": {"S": "JOB"}},
            "SequenceNumber": f"{self._sequence:021d}",
        }
        if old is not None:
            stream["OldImage"] = old
        if state is None:
            return {"eventName": "REMOVE", "dynamodb": stream}
        head = _head(job, tenant, state, fields)
        spec = None if beside else head.spec.model_dump_json(exclude_defaults=True)
        new = to_item(head, spec)
        if output:
            new["output_bytes"] = {"N": str(output)}
        if files:
            new["output_file_bytes"] = {"N": str(files)}
        stream["NewImage"] = self._known[job] = new
        return {"eventName": "MODIFY" if old else "INSERT", "dynamodb": stream}


def id_of_job(name: str, submitted: int = NOON) -> str:
    """The id of a job that a test calls so."""
    random_bits = int.from_bytes(hashlib.sha256(name.encode()).digest()[:10])
    return new_id(submitted * 1000, random_bits)


def _head(job: str, tenant: str, state: State, fields: dict[str, Any]) -> Head:
    head = make_head(job, tenant, submission(**{"queue": "default", **fields}), NOON_MS)
    step = Step(state, NOON_MS, 1, "x", "agent-1")
    return replace(head, state=state, timeline=(*head.timeline, step))
