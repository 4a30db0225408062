"""Calls that concern a deployment: agents, conditions, the audit trail, health."""

from typing import Any, Literal
from urllib.parse import quote

from joblane.client.answers import as_object
from joblane.client.calls import Call, act, get
from joblane.client.errors import InputError
from joblane.client.job_calls import LIST_MAX, because, job_path


class DeploymentCalls:
    """The calls."""

    def agents(self) -> Call[dict[str, Any]]:
        """Read the agents with a recent heartbeat."""
        return as_object((yield from get("/v1/agents")), "a list of agents")

    def agent(self, name: str) -> Call[dict[str, Any]]:
        """Read an agent, and its running jobs that are yours. Raises `NotFoundError`."""
        if not name.strip("."):
            raise InputError(f"{name!r} is not the name of an agent")
        return as_object((yield from get(f"/v1/agents/{quote(name, safe='')}")), "an agent")

    def drain(self, agent: str, *, reason: str | None = None) -> Call[dict[str, Any]]:
        """Drain an agent: it takes no more jobs and stops. Returns its record before that.

        Raises `NotFoundError`, and `RequestError` (409) for an agent that has stopped.
        """
        path = f"/v1/agents/{quote(agent, safe='')}/drain"
        return as_object((yield from act("POST", path, because(reason))), "an agent")

    def conditions(
        self, *, limit: int = LIST_MAX, cursor: str | None = None
    ) -> Call[dict[str, Any]]:
        """Read one page of the conditions that jobs wait for, from `cursor`."""
        params: dict[str, str | int] = {"limit": min(limit, LIST_MAX)}
        if cursor:
            params["next"] = cursor
        return as_object((yield from get("/v1/conditions", params)), "a list of conditions")

    def declare(
        self, app: str, state: Literal["up", "down"], reason: str = ""
    ) -> Call[dict[str, Any]]:
        """Declare an application (`app:<name>`) of the caller's tenant up or down.

        While it is down, for 48 h at most, jobs that require it do not start; the last declaration
        counts. Raises `RequestError` for any other condition.
        """
        body = {"state": state, **({"reason": reason} if reason else {})}
        path = f"/v1/conditions/{quote(app, safe='')}"
        return as_object((yield from act("PUT", path, body)), "a declaration")

    def audit(  # noqa: PLR0913 - the filters of the API
        self,
        job_id: str | None = None,
        *,
        limit: int = LIST_MAX,
        cursor: str | None = None,
        since: str | None = None,
        until: str | None = None,
        action: str | None = None,
    ) -> Call[dict[str, Any]]:
        """Read one page of the audit trail, newest first, from `cursor`.

        With `job_id`: the actions on that job, its submission included; they are kept as long as
        the trail, which may be longer than the job. Without: the actions on the tenant's jobs and
        queues, filtered by `since`, `until` (RFC 3339, UTC) and `action`.
        """
        path = "/v1/audit" if job_id is None else f"{job_path(job_id)}/audit"
        given = {"next": cursor, "since": since, "until": until, "action": action}
        params: dict[str, str | int] = {"limit": min(limit, LIST_MAX)}
        params |= {name: value for name, value in given.items() if value}
        return as_object((yield from get(path, params)), "an audit trail")

    def health(self) -> Call[dict[str, Any]]:
        """Read the API's health; needs no token."""
        return as_object((yield from get("/v1/health")), "a report of health")
