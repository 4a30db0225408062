"""The SDK: what concerns a deployment rather than one job."""

from collections.abc import Iterator
from typing import Any, Literal
from urllib.parse import quote

from client.connection import Connection
from client.moves import because, job_path
from client.wire import as_object

LIST_MAX = 100
"""Most entries in one answer of the API."""


class Deployment:
    """The part of `client.api.Client` that looks at and changes a deployment."""

    _connection: Connection

    def requeue(
        self, queue: str, job_type: str | None = None, *, reason: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """Send a fresh message for every job that waits in `queue` (`_all`: in any).

        Yields the answer for each page as it is done; stop iterating to stop.
        """
        return self._paged(queue, "requeue", job_type, reason)

    def restart_failed(
        self, queue: str, job_type: str | None = None, *, reason: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """Start every failed or dead job of `queue` (`_all`: of any) again; as `requeue`."""
        return self._paged(queue, "restart-failed", job_type, reason)

    def _paged(
        self, queue: str, verb: str, job_type: str | None, reason: str | None
    ) -> Iterator[dict[str, Any]]:
        path = f"/v1/queues/{quote(queue, safe='')}/{verb}"
        params = {} if job_type is None else {"type": job_type}
        while True:
            done = self._connection.act("POST", path, because(reason), params=params)
            answer = as_object(done, "a page of work")
            yield answer
            if not answer.get("next"):
                return
            params["next"] = str(answer["next"])

    def audit(  # noqa: PLR0913 - the filters of the API
        self,
        job_id: str | None = None,
        *,
        limit: int = LIST_MAX,
        cursor: str | None = None,
        since: str | None = None,
        until: str | None = None,
        action: str | None = None,
    ) -> dict[str, Any]:
        """Read one page of who did what and why, newest first, from `cursor` on.

        With a job's id: what was done to that job, its submission included, for as long as the
        trail is kept, which may be longer than the job is. Without: what was done to the
        tenant's jobs and queues, and `since`, `until` (RFC 3339, UTC) and `action` narrow it.
        """
        path = "/v1/audit" if job_id is None else f"{job_path(job_id)}/audit"
        given = {"next": cursor, "since": since, "until": until, "action": action}
        params: dict[str, str | int] = {"limit": min(limit, LIST_MAX)}
        params |= {name: value for name, value in given.items() if value}
        return as_object(self._connection.get(path, params), "an audit trail")

    def conditions(self, *, limit: int = LIST_MAX, cursor: str | None = None) -> dict[str, Any]:
        """Read one page of the conditions that jobs wait for, from `cursor` on."""
        params: dict[str, str | int] = {"limit": min(limit, LIST_MAX)}
        if cursor:
            params["next"] = cursor
        return as_object(self._connection.get("/v1/conditions", params), "a list of conditions")

    def declare(self, app: str, state: Literal["up", "down"], reason: str = "") -> dict[str, Any]:
        """Declare an application (`app:<name>`) of the caller's tenant up or down.

        While it is down no job goes that waits for it, for 48 h at most; the last declaration
        holds. Raises `RequestError` for anything but an application.
        """
        body = {"state": state, **({"reason": reason} if reason else {})}
        path = f"/v1/conditions/{quote(app, safe='')}"
        return as_object(self._connection.act("PUT", path, body), "a declaration")

    def drain(self, agent: str, *, reason: str | None = None) -> dict[str, Any]:
        """Have an agent hand its jobs back and leave; returns it as it was.

        Raises NotFound, and Conflict for one that has left already.
        """
        path = f"/v1/agents/{quote(agent, safe='')}/drain"
        return as_object(self._connection.act("POST", path, because(reason)), "an agent")

    def agents(self) -> dict[str, Any]:
        """Read the agents that have reported lately."""
        return as_object(self._connection.get("/v1/agents"), "a list of agents")

    def health(self) -> dict[str, Any]:
        """Ask whether the API is up; needs no token."""
        return as_object(self._connection.get("/v1/health"), "a report of health")
