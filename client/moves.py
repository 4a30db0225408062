"""Parts of the SDK's client that need no more than its connection."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict
from urllib.parse import quote

from client.connection import Connection
from client.errors import InputError
from client.wire import JobJson, as_object, job_json, rows


class Filters(TypedDict, total=False):
    """Which jobs to list; all must hold."""

    state: str | None
    type: str | None
    queue: str | None
    label: str | None
    """`key=value`."""
    since: str | None
    """Submitted at or after this moment: RFC 3339 in UTC."""
    until: str | None
    """Submitted before this moment."""
    hidden: bool
    """Hidden jobs too."""


def parameters(filters: Filters) -> dict[str, str]:
    """Filters as the API takes them."""
    given = {name: value for name, value in filters.items() if value not in {None, False}}
    return {name: "true" if value is True else str(value) for name, value in given.items()}


class Moves:
    """What to do to jobs and agents, answered by the API's JSON."""

    _connection: Connection

    def submit_batch(
        self, jobs: Sequence[Mapping[str, Any]], *, idempotency_key: str | None = None
    ) -> list[dict[str, Any]]:
        """Submit up to 100 jobs, each the fields of a submission.

        Returns an entry for each, in order: `{"status": 202, "job": ...}`, or `status`,
        `detail` and `errors` of one that was refused, which does not touch the others. With an
        `idempotency_key` it is sent again after a failure, and no job is made twice.
        """
        answer = self._connection.post(
            "/v1/jobs/batch", {"jobs": list(jobs)}, idempotency_key=idempotency_key
        )
        return rows(answer)

    def resubmit_json(
        self, job_id: str, idempotency_key: str | None = None, reason: str | None = None
    ) -> JobJson:
        """Submit a job that has ended again; see `Client.resubmit`."""
        path = f"{job_path(job_id)}/resubmit"
        moved = self._connection.act("POST", path, because(reason), idempotency_key=idempotency_key)
        return job_json(moved)

    def agent(self, name: str) -> dict[str, Any]:
        """Read one agent, with those of its running jobs that are yours. Raises `NotFoundError`."""
        if not name.strip("."):
            raise InputError(f"{name!r} is not the name of an agent")
        path = f"/v1/agents/{quote(name, safe='')}"
        return as_object(self._connection.get(path), "an agent")


def because(reason: str | None) -> Mapping[str, str] | None:
    """Make the body of an action: why it is done, for the audit trail."""
    return None if reason is None else {"reason": reason}


def job_path(job_id: str, under: str = "jobs") -> str:
    """Path of a job. Raises `InputError`: an empty or dotted id would be another path."""
    if not job_id.strip("."):
        raise InputError(f"{job_id!r} is not the id of a job")
    try:
        return f"/v1/{under}/{quote(job_id, safe='')}"
    except UnicodeEncodeError as error:
        raise InputError("the id of a job is plain text") from error
