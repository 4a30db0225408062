"""Admin: what an operator looks at and does. Agents, queues, dead letters, doing it again."""

from joblane.startup import once  # first of all: see there

# isort: split
import os
import re
import time
from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

from aws_lambda_powertools.event_handler.api_gateway import Response
from aws_lambda_powertools.logging import Logger
from pydantic import BaseModel, ConfigDict, Field, Json

import joblane
from joblane.answers import JSON, go_on, listing, place, success
from joblane.audit_routes import trail_route
from joblane.aws.again import ALL_QUEUES, Again, Progress, Selection, is_restart_cursor
from joblane.aws.agents import AgentRow, AgentStore
from joblane.aws.audit import AuditStore
from joblane.aws.clients import Clients
from joblane.aws.directory import AppStore, Directory
from joblane.aws.jobs import JobStore
from joblane.aws.lanes import Lanes
from joblane.aws.operations import Operations
from joblane.condition_routes import Conditions, condition_routes
from joblane.conditions import AnyPolicy
from joblane.head import Head, job_view, rfc3339
from joblane.lifecycle import Event, State
from joblane.login import Login
from joblane.message import JOB_ID_PATTERN, Command
from joblane.names import AGENT_NAME_PATTERN
from joblane.principal import AnyAccess
from joblane.problems import Problem
from joblane.queries import PageQuery, WorkQuery
from joblane.queue_routes import Board, Queues, Tables, queue_routes
from joblane.retention import Retention
from joblane.trail import Trail
from joblane.views import AgentDetail, AgentView, Drained
from joblane.web import Application, conflicts

CACHEABLE = "public, max-age=3600"


class Settings(BaseModel):
    """The function's environment; a missing variable fails the cold start by its name."""

    model_config = ConfigDict(frozen=True)

    deployment: Annotated[str, Field(alias="JOBLANE_DEPLOYMENT")]
    audit_table: Annotated[str, Field(alias="JOBLANE_AUDIT_TABLE")]
    agents_table: Annotated[str, Field(alias="JOBLANE_AGENTS_TABLE")]
    jobs_table: Annotated[str, Field(alias="JOBLANE_JOBS_TABLE")]
    queue_url_prefix: Annotated[str, Field(alias="JOBLANE_QUEUE_URL_PREFIX")]
    conditions_table: Annotated[str, Field(alias="JOBLANE_CONDITIONS_TABLE")]
    policies: Annotated[Json[dict[str, AnyPolicy]], Field(alias="JOBLANE_POLICIES")]
    """Policy of each kind of condition that does not have the default one."""
    queues: Annotated[Json[dict[str, tuple[str, ...]]], Field(alias="JOBLANE_QUEUES")]
    settings_table: Annotated[str, Field(alias="JOBLANE_SETTINGS_TABLE")]
    counters_table: Annotated[str, Field(alias="JOBLANE_COUNTERS_TABLE")]
    threads: Annotated[Json[dict[str, int]], Field(alias="JOBLANE_THREADS")]
    """What joblane.toml declares for each queue."""
    access: Annotated[Json[AnyAccess], Field(alias="JOBLANE_ACCESS")]
    login: Annotated[Json[Login], Field(alias="JOBLANE_LOGIN")]
    retention: Annotated[Json[Retention], Field(alias="JOBLANE_RETENTION")]


class Operator:
    """What the routes do, over the stores they are handed."""

    def __init__(self, settings: Settings, clients: Clients, clock: Callable[[], float]) -> None:
        self._settings = settings
        self.login = settings.login
        self._clock = clock
        dynamodb = clients.make("dynamodb")
        self._agents = AgentStore(dynamodb, settings.agents_table)
        self._sqs = clients.make("sqs")
        self._jobs = JobStore(dynamodb, settings.jobs_table)
        lanes = Lanes(self._sqs, settings.queue_url_prefix, settings.deployment)
        self._lanes = lanes
        self.operations = Operations(self._jobs, lanes, settings.retention)
        self.again = Again(self._jobs, lanes, self.operations)

    def agents(self, limit: int, after: str | None) -> tuple[list[AgentView], str | None]:
        """Read a page of agents."""
        rows, following = self._agents.page(limit=limit, after=after)
        now_ms = self.now_ms()
        return [_agent(row, now_ms) for row in rows], following

    def agent(self, tenant: str, name: str) -> AgentDetail:
        """Read one agent, and those of its jobs that are this tenant's. Raises Problem 404."""
        row = self._agent_row(name)
        heads = self._jobs.heads(row.jobs)
        return AgentDetail(
            **_agent(row, self.now_ms()).model_dump(),
            started_at=rfc3339(row.since_ms),
            jobs=tuple(job_view(head) for head in heads if head.tenant == tenant),
        )

    def _agent_row(self, name: str) -> AgentRow:
        row = self._agents.get(name) if re.match(AGENT_NAME_PATTERN, name) else None
        if row is None:
            raise Problem(HTTPStatus.NOT_FOUND, "there is no such agent")
        return row

    def drain(self, name: str) -> AgentView:
        """Tell an agent to leave. Raises Problem 404 and 409: there is nobody to tell."""
        row = self._agent_row(name)
        view = _agent(row, self.now_ms())
        if not view.alive or not self._lanes.tell(name, Command(command="drain")):
            raise Problem(
                HTTPStatus.CONFLICT, f"the agent is gone: last seen at {view.last_seen_at}"
            )
        return view

    def selection(self, tenant: str, queue: str, job_type: str | None) -> Selection:
        """Which jobs an operator means. Raises Problem 404 for a queue it may not use."""
        if queue != ALL_QUEUES and queue not in self._open_to(tenant):
            raise Problem(HTTPStatus.NOT_FOUND, f"there is no such queue; {ALL_QUEUES} names all")
        return Selection(tenant, queue, job_type)

    def dead(self, tenant: str, limit: int, before: str | None) -> tuple[list[Head], str | None]:
        """Read a page of a tenant's dead letters, newest first."""
        heads, following = self._jobs.attention_page(tenant, State.DEAD, limit=limit, before=before)
        return [head for head in heads if not self._past(head)], following

    def job(self, tenant: str, job_id: str) -> Head:
        """Read one job of a tenant. Raises Problem 404."""
        head = self._jobs.get(job_id) if re.match(JOB_ID_PATTERN, job_id) else None
        if head is None or head.tenant != tenant or self._past(head):
            raise Problem(HTTPStatus.NOT_FOUND, "there is no such job")
        return head

    def now_ms(self) -> int:
        """The time, in Unix milliseconds."""
        return int(self._clock() * 1000)

    def _past(self, head: Head) -> bool:
        return head.expires_at is not None and head.expires_at <= self._clock()

    def _open_to(self, tenant: str) -> list[str]:
        return [q for q, only in self._settings.queues.items() if not only or tenant in only]


def _agent(row: AgentRow, now_ms: int) -> AgentView:
    return AgentView(
        name=row.name,
        alive=row.alive(now_ms),
        last_seen_at=rfc3339(row.beat_ms),
        threads=row.threads,
        running=row.running,
        queues=row.queues,
        isolation=row.isolation,
        version=row.version,
        trouble=row.trouble,
    )


def routes(app: Application, operator: Operator) -> None:
    """Bind the routes of DESIGN.md section 11 that this function answers."""

    @app.route("GET /v1/health")
    def health() -> Response[str]:
        return success({"status": "ok", "version": joblane.__version__})

    @app.route("GET /v1/login")
    def login() -> Response[str]:
        return success(operator.login)

    @app.route("GET /v1/openapi.json")
    def contract() -> Response[str]:
        # Packed with the layer, and read by no other request.
        text = Path(joblane.__file__).with_name("openapi.json").read_text(encoding="utf-8")
        return Response(int(HTTPStatus.OK), JSON, text, headers={"Cache-Control": CACHEABLE})

    @app.route("GET /v1/agents")
    def agents() -> Response[str]:
        app.tenant()
        query = app.parameters(PageQuery)
        after = place(query, lambda key: re.match(AGENT_NAME_PATTERN, key))
        found, following = operator.agents(query.limit, after)
        return listing(found, query, following)

    @app.route("GET /v1/agents/{agent}")
    def agent(agent: str) -> Response[str]:
        return success(operator.agent(app.tenant(), agent))

    @app.route("POST /v1/agents/{agent}/drain")
    def drain(agent: str) -> Response[str]:
        app.tenant()
        view = operator.drain(agent)
        note = f"{agent} takes no more jobs, hands back what does not end in time, and leaves"
        return success(Drained(**view.model_dump(), note=note), HTTPStatus.ACCEPTED)


def letter_routes(app: Application, operator: Operator) -> None:
    """Bind the routes of dead letters, and of doing it again."""

    def move(job_id: str) -> tuple[Head, int]:
        return operator.job(app.tenant(), job_id), operator.now_ms()

    @app.route("GET /v1/dlq")
    def dead() -> Response[str]:
        query = app.parameters(PageQuery)
        before = place(query, lambda key: re.match(JOB_ID_PATTERN, key))
        heads, following = operator.dead(app.tenant(), query.limit, before)
        return listing((job_view(head) for head in heads), query, following)

    @app.route("POST /v1/dlq/{job_id}/replay")
    def replay(job_id: str) -> Response[str]:
        head, now_ms = move(job_id)
        why = app.asked("replayed", now_ms)
        exact = app.matches(head)
        with conflicts(exact=exact):
            head = operator.operations.restart(head, Event.REPLAY, why, now_ms, exact=exact)
        return success(job_view(head), HTTPStatus.ACCEPTED)

    @app.route("POST /v1/dlq/{job_id}/dismiss")
    def dismiss(job_id: str) -> Response[str]:
        head, now_ms = move(job_id)
        why = app.asked("dismissed", now_ms)
        exact = app.matches(head)
        with conflicts(exact=exact):
            head = operator.operations.decide(head, Event.DISMISS, why, now_ms, exact=exact)
        return success(job_view(head))

    @app.route("POST /v1/queues/{queue}/requeue")
    def requeue(queue: str) -> Response[str]:
        query = app.parameters(WorkQuery)
        before = place(query, lambda key: re.match(JOB_ID_PATTERN, key))
        selection = operator.selection(app.tenant(), queue, query.type)
        now_ms = operator.now_ms()
        done = operator.again.requeue(selection, now_ms, limit=query.limit, before=before)
        return success(_progress("requeued", done, query))

    @app.route("POST /v1/queues/{queue}/restart-failed")
    def restart_failed(queue: str) -> Response[str]:
        query = app.parameters(WorkQuery)
        after = place(query, is_restart_cursor)
        selection = operator.selection(app.tenant(), queue, query.type)
        now_ms = operator.now_ms()
        done = operator.again.restart_failed(
            selection, app.asked("restarted", now_ms), now_ms, limit=query.limit, after=after
        )
        return success(_progress("restarted", done, query))


def _progress(name: str, progress: Progress, query: PageQuery) -> dict[str, Any]:
    """The answer of a route that does a page of work."""
    refused = [{"id": job_id, "detail": why} for job_id, why in progress.refused.items()]
    return {
        "examined": progress.examined,
        name: progress.done,
        "refused": refused,
        "next": go_on(query, progress.following),
    }


def build(settings: Settings, clients: Clients, clock: Callable[[], float]) -> Application:
    """Compose the function from its settings, its clients and a clock in Unix seconds."""
    dynamodb = clients.make("dynamodb")
    store = AuditStore(dynamodb, settings.audit_table)
    trail = Trail(store, settings.retention.audit_days, clock)
    app = Application(settings.access, Logger(), trail)
    trail_route(app, trail)
    operator = Operator(settings, clients, clock)
    routes(app, operator)
    board = Board(
        clients,
        Queues(settings.queues, settings.threads, settings.queue_url_prefix, settings.deployment),
        Tables(settings.settings_table, settings.agents_table, settings.counters_table),
        clock,
        app.logger,
    )
    queue_routes(app, board)
    letter_routes(app, operator)
    conditions = Conditions(
        Directory(dynamodb, settings.conditions_table),
        AppStore(dynamodb, settings.conditions_table),
        settings.policies,
        clock,
    )
    condition_routes(app, conditions)
    return app


@cache
def _application() -> Application:
    return once(lambda: build(Settings.model_validate(dict(os.environ)), Clients(), time.time))


def main(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Answer an event of API Gateway's HTTP API (payload format 2.0)."""
    return _application().handle(event, context)
