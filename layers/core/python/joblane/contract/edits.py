"""The request that edits a job which waits."""

from typing import Annotated

from pydantic import Field, field_validator

from joblane.contract.audit import Because
from joblane.contract.job import Job
from joblane.deployment.names import Lane, Name
from joblane.job.fields import LabelKey, LabelValue, Moment, Timeout
from joblane.job.spec import Resources


class EditJob(Because):
    """Body of `PATCH /v1/jobs/{job_id}`: a JSON Merge Patch (RFC 7396) of the job's submission.

    What is left out stays, and null removes what a member had.
    """

    queue: Name | None = None
    """The queue that it is to wait in; it gets a message there, and the earlier one starts nothing.
    """
    priority: Lane | None = None
    """The lane of the queue."""
    deadline: Moment | None = None
    """Latest end time; null removes it."""
    labels: Annotated[dict[LabelKey, LabelValue | None], Field(max_length=40)] | None = None
    """Labels that are to be added or changed; one that is null is removed, and null removes all."""
    resources: Resources | None = None
    """Limits of an attempt that are to be changed; one that is null is the default again."""
    timeout_s: Timeout | None = None
    """Time limit of one attempt."""

    @field_validator("queue", "priority", "timeout_s")
    @classmethod
    def _has_a_value(cls, value: object) -> object:
        if value is None:
            raise ValueError("must not be null; leave it out to keep what the job has")
        return value


class Edited(Job):
    """A job after an edit."""

    warning: str | None
    """Why no live agent can serve the job now, as in the answer to a submission. null if one
    can."""
