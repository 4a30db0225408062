"""Calls that concern a deployment: queues, agents, conditions, the audit trail, health."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeVar

from joblane.client import models
from joblane.client.answers import as_object
from joblane.client.calls import (
    LIST_MAX,
    ApiStream,
    Call,
    Stream,
    act,
    answers,
    ask,
    get,
    list_entries,
    restart_body,
    segment,
    sweep,
)
from joblane.client.errors import InputError
from joblane.client.fields import Moment, Submission, encode_fields, encode_filters
from joblane.client.log_calls import job_path

T = TypeVar("T")

SETTINGS = ("run_jobs", "threads", "cluster_threads")


class DeploymentCalls:
    """The calls."""

    @answers(models.QueuePage)
    def queues(self) -> Call[dict[str, Any]]:
        """Read all queues: lanes, settings and activity."""
        return as_object((yield from get("/v1/queues")), "a list of queues")

    @answers(models.QueueView)
    def queue(self, queue: str) -> Call[dict[str, Any]]:
        """Read one queue. Raises `NotFoundError`."""
        return as_object((yield from get(_path(queue))), "a queue")

    @answers(models.Summary)
    def summary(self) -> Call[dict[str, Any]]:
        """Read what goes on: the caller, its jobs by state and limits, and agents of its queues.

        `jobs` is counted some seconds late; None for the role platform.
        """
        return as_object((yield from get("/v1/summary")), "a summary")

    @answers(models.QueueActivity)
    def queue_activity(self, queue: str, span: Literal["1h", "24h"] = "1h") -> Call[dict[str, Any]]:
        """Read the activity of a queue as `points`: an hour by minutes, or a day by five minutes.

        Raises `NotFoundError`.
        """
        path = f"{_path(queue)}/activity"
        return as_object((yield from get(path, {"span": span})), "the activity of a queue")

    @answers(models.FleetPage)
    def fleets(self) -> Call[dict[str, Any]]:
        """Read all fleets with the state of their Auto Scaling groups, for the role platform."""
        return as_object((yield from get("/v1/fleets")), "a list of fleets")

    @answers(models.QueueChoice)
    def explain_queue(self, submission: Submission) -> Call[dict[str, Any]]:
        """Say which queue would take a job, and of each queue why it would not.

        `submission` has the fields of a submission, as `{"command": ["true"], "labels": {}}`.
        Nothing is submitted. `queue` is None where a submission would be refused. Raises
        `RequestError` with one entry in `fields` for each field that the API refused.
        """
        return as_object(
            (yield from ask("/v1/queues/explain", encode_fields(submission))), "a choice of a queue"
        )

    @answers(models.SettingsView)
    def set_queue(
        self, queue: str, changes: Mapping[str, bool | int | None], *, reason: str | None = None
    ) -> Call[dict[str, Any]]:
        """Change settings of a queue and return all of them; other settings keep their values.

        `run_jobs` False pauses it, `threads` limits each agent (None: as in joblane.toml),
        `cluster_threads` all agents together (None: no limit); `reason` goes into the audit
        trail. Agents apply a change within 30 s; running jobs continue. Raises `RequestError`
        (412), without a change, when the settings were changed at the same time.
        """
        unknown = sorted(set(changes) - set(SETTINGS))
        if unknown:
            raise InputError(f"unknown queue setting {unknown[0]}; allowed: {', '.join(SETTINGS)}")
        path = f"{_path(queue)}/settings"
        now = as_object((yield from get(path)), "settings of a queue")
        wanted: dict[str, Any] = {name: now.get(name) for name in SETTINGS} | dict(changes)
        tag = f'"{now.get("version")}"'
        answer = yield from act("PUT", path, wanted, reason=reason, if_match=tag)
        return as_object(answer, "settings of a queue")

    @ApiStream
    def requeue(
        self, queue: str, job_type: str | None = None, *, reason: str | None = None
    ) -> Stream[models.Requeued]:
        """Send a new message for each open job of `queue` (`_all`: of all queues).

        Yields the answer for each page of jobs; stop iterating to stop.
        """
        return _pages(queue, "requeue", models.Requeued, job_type, reason)

    @ApiStream
    def restart_failed(
        self,
        queue: str,
        job_type: str | None = None,
        *,
        same_version: bool = False,
        reason: str | None = None,
    ) -> Stream[models.Restarted]:
        """Restart each failed or dead job of `queue` (`_all`: of all queues); see `requeue`.

        Typed jobs take the present version of their type, unless `same_version`; those that it does
        not take are in `refused`, and stay.
        """
        return _pages(
            queue, "restart-failed", models.Restarted, job_type, reason, restart_body(same_version)
        )

    @answers(models.AgentPage)
    def agents(
        self, *, facts: Sequence[str] = (), limit: int = LIST_MAX, cursor: str | None = None
    ) -> Call[dict[str, Any]]:
        """Read one page of the agents with a recent heartbeat, from `cursor`.

        `facts` names those that each entry shows, ten at most.
        """
        params = {"fact": facts or None, "limit": min(limit, LIST_MAX), "next": cursor or None}
        return as_object((yield from get("/v1/agents", params)), "a list of agents")

    @ApiStream
    def list_agents(
        self, limit: int | None = None, *, facts: Sequence[str] = ()
    ) -> Stream[models.AgentView]:
        """Yield the agents with a recent heartbeat, at most `limit`; pages are read as needed.

        `facts` names those that each entry shows, ten at most.
        """
        return list_entries(
            partial(DeploymentCalls.agents, self, facts=facts), limit, models.AgentView
        )

    @answers(models.AgentDetail)
    def agent(self, name: str) -> Call[dict[str, Any]]:
        """Read an agent with all its facts and its running jobs. Raises `NotFoundError`."""
        return as_object((yield from get(_agent_path(name))), "an agent")

    @answers(models.AgentAsked)
    def drain(self, agent: str, *, reason: str | None = None) -> Call[dict[str, Any]]:
        """Drain an agent: it takes no more jobs and stops. Returns its record before that.

        Raises `NotFoundError`, and `RequestError` (409) for an agent that has stopped.
        """
        return (yield from _ask(agent, "drain", reason))

    @answers(models.AgentAsked)
    def cordon(self, agent: str, *, reason: str | None = None) -> Call[dict[str, Any]]:
        """Let an agent take no more jobs, and stay. Returns its record before that.

        Its running jobs continue. It stays cordoned when it is started again. Raises as `drain`.
        """
        return (yield from _ask(agent, "cordon", reason))

    @answers(models.AgentAsked)
    def uncordon(self, agent: str, *, reason: str | None = None) -> Call[dict[str, Any]]:
        """Let an agent take jobs again. Returns its record before that. Raises as `drain`."""
        return (yield from _ask(agent, "uncordon", reason))

    @answers(models.AgentAsked)
    def set_log_level(
        self,
        agent: str,
        level: Literal["debug", "info", "warning"],
        *,
        for_s: float = 1800,
        reason: str | None = None,
    ) -> Call[dict[str, Any]]:
        """Have an agent write its log from a level on for some seconds; then from `info` on again.

        `for_s` is at most a day, and counts in whole seconds. Returns its record before that.
        Raises as `drain`.
        """
        path = f"{_agent_path(agent)}/log-level"
        body = {"level": level, "for_s": round(for_s)}
        return as_object((yield from act("POST", path, body, reason=reason)), "an agent")

    @answers(models.ConditionPage)
    def conditions(
        self, *, limit: int = LIST_MAX, cursor: str | None = None
    ) -> Call[dict[str, Any]]:
        """Read one page of the conditions that jobs wait for, from `cursor`."""
        params = {"limit": min(limit, LIST_MAX), "next": cursor or None}
        return as_object((yield from get("/v1/conditions", params)), "a list of conditions")

    @ApiStream
    def list_conditions(self, limit: int | None = None) -> Stream[models.ConditionView]:
        """Yield the conditions that jobs wait for, at most `limit`; pages are read as needed."""
        return list_entries(partial(DeploymentCalls.conditions, self), limit, models.ConditionView)

    @answers(models.AppView)
    def declare(
        self, app: str, state: Literal["up", "down"], reason: str = ""
    ) -> Call[dict[str, Any]]:
        """Declare an application (`app:<name>`) of the caller's tenant up or down.

        While it is down, for 48 h at most, jobs that require it do not start; the last declaration
        counts. Raises `RequestError` for any other condition.
        """
        path = f"/v1/conditions/{segment(app, 'name of an application, such as app:billing')}"
        done = yield from act("PUT", path, {"state": state}, reason=reason or None)
        return as_object(done, "a declaration")

    @answers(models.AuditPage)
    def audit(
        self,
        job_id: str | None = None,
        *,
        limit: int = LIST_MAX,
        cursor: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        action: str | None = None,
    ) -> Call[dict[str, Any]]:
        """Read one page of the audit trail, newest first, from `cursor`.

        With `job_id`: the actions on that job, its submission included; they are kept as long as
        the trail, which may be longer than the job. Without: the actions on the tenant's jobs and
        queues, filtered by `since`, `until` and `action`.
        """
        path = "/v1/audit" if job_id is None else f"{job_path(job_id)}/audit"
        filters = encode_filters({"since": since, "until": until, "action": action})
        params = {"limit": min(limit, LIST_MAX), "next": cursor or None, **filters}
        return as_object((yield from get(path, params)), "an audit trail")

    @ApiStream
    def list_audit(
        self,
        job_id: str | None = None,
        limit: int | None = None,
        *,
        since: Moment | None = None,
        until: Moment | None = None,
        action: str | None = None,
    ) -> Stream[models.AuditEntry]:
        """Yield entries of the audit trail as `audit` reads them, at most `limit`."""
        audit = DeploymentCalls.audit
        read = partial(audit, self, job_id, since=since, until=until, action=action)
        return list_entries(read, limit, models.AuditEntry)

    @answers(models.Health)
    def health(self) -> Call[dict[str, Any]]:
        """Read the API's health; needs no token."""
        return as_object((yield from get("/v1/health")), "a report of health")


def _agent_path(name: str) -> str:
    return f"/v1/agents/{segment(name, 'name of an agent')}"


def _ask(agent: str, command: str, reason: str | None) -> Call[dict[str, Any]]:
    path = f"{_agent_path(agent)}/{command}"
    return as_object((yield from act("POST", path, reason=reason)), "an agent")


def _pages(
    queue: str,
    action: str,
    made: Callable[[Any], T],
    job_type: str | None,
    reason: str | None,
    body: Mapping[str, Any] | None = None,
) -> Stream[T]:
    params = {} if job_type is None else {"type": job_type}
    return sweep(f"{_path(queue)}/{action}", made, reason, params, body)


def _path(queue: str) -> str:
    return f"/v1/queues/{segment(queue, 'name of a queue')}"
