"""What one request with many submissions may have, and what became of each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Generic, TypeVar

from joblane.client.answers import JobJson, job_json
from joblane.client.errors import ApiError
from joblane.client.models import Accepted, NotAccepted
from joblane.client.responses import refusal

J = TypeVar("J")

BATCH_BYTES = 2_900_000
"""Bytes of the jobs in a request; the API takes 3,000,000."""


def may_succeed(answer: Mapping[str, Any]) -> bool:
    """Whether a job was refused for lack of capacity: the same request may succeed later."""
    status = answer.get("status")
    return isinstance(status, int) and (
        status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    )


@dataclass(frozen=True, slots=True)
class BatchEntry(Generic[J]):
    """What became of one job of `submit_batch`: either `job` or `error` is set."""

    job: J | None
    """The handle of its job."""
    error: ApiError | None
    """Why it was refused, such as `RequestError`."""
    data: Accepted | NotAccepted
    """The entry as the API answered it."""

    @classmethod
    def of(cls, entry: dict[str, Any], handle: Callable[[JobJson], J]) -> "BatchEntry[J]":
        """Make it of an entry of the answer. Raises `AnswerError`."""
        if entry.get("job") is None:
            return cls(None, refusal(entry), NotAccepted(entry))
        return cls(handle(job_json(entry["job"])), None, Accepted(entry))
