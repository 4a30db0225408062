"""Submission: accepts jobs, and answers what became of them.

`POST /v1/jobs` sends the wake-up message first and stores the job second, so a job in the table
always has a message, and no sweeper has to look for jobs that lost theirs:

    function                      lane               table                agent
    send  --------------------->  message
                                          --------------------------->   receives
    put   ------------------------------------->     pending
                                                     active  <---------  claims

An agent that is faster than the put finds no job and tries again for a moment; one whose put
never came is discarded by the agent after a minute. Nothing is ever half there.
"""

import os
import re
import time
from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from typing import Annotated, Any

from aws_lambda_powertools.event_handler.api_gateway import Response
from aws_lambda_powertools.logging import Logger
from pydantic import BaseModel, ConfigDict, Field, Json, ValidationError
from ulid import ULID

from joblane.aws.clients import Clients
from joblane.aws.jobs import JobStore
from joblane.aws.lanes import LaneQueue
from joblane.aws.logs import LogStore
from joblane.head import Head, job_view, submitted
from joblane.logs import Cursor
from joblane.message import JOB_ID_PATTERN, Message
from joblane.model import LOG_PAGE_MAX, MAX_BODY_BYTES, Submission, field_problems
from joblane.names import LANES, lane_name
from joblane.web import (
    Application,
    Caller,
    Problem,
    decode_cursor,
    encode_cursor,
    listing,
    once,
    page_limit,
    success,
    wrong,
)


class Settings(BaseModel):
    """The function's environment; a missing variable fails the cold start by its name."""

    model_config = ConfigDict(frozen=True)

    deployment: Annotated[str, Field(alias="JOBLANE_DEPLOYMENT")]
    jobs_table: Annotated[str, Field(alias="JOBLANE_JOBS_TABLE")]
    log_group: Annotated[str, Field(alias="JOBLANE_LOG_GROUP")]
    queue_url_prefix: Annotated[str, Field(alias="JOBLANE_QUEUE_URL_PREFIX")]
    queues: Annotated[Json[dict[str, tuple[str, ...]]], Field(alias="JOBLANE_QUEUES")]
    """Tenants that may submit to each queue; none listed means all."""
    default_queue: Annotated[str, Field(alias="JOBLANE_DEFAULT_QUEUE")]
    tenants: Annotated[Json[dict[str, str]], Field(alias="JOBLANE_TENANTS")]
    """Tenant of each OAuth client."""


class Submitter:
    """What the routes do, over the stores they are handed."""

    def __init__(
        self, settings: Settings, jobs: JobStore, clients: Clients, clock: Callable[[], float]
    ) -> None:
        self._settings = settings
        self._jobs = jobs
        self._clock = clock
        self._clients = clients
        sqs = clients.make("sqs")
        self._lanes = {
            (queue, lane): LaneQueue(
                sqs, settings.queue_url_prefix + lane_name(settings.deployment, queue, lane)
            )
            for queue in settings.queues
            for lane in LANES
        }

    def submit(self, tenant: str, body: str) -> Head:
        """Accept one job. Raises Problem 400 naming each wrong field."""
        try:
            spec = Submission.model_validate_json(body)
        except ValidationError as error:
            problems = field_problems(error)
            detail = "; ".join(f"{p.field}: {p.problem}" for p in problems[:3])
            raise Problem(HTTPStatus.BAD_REQUEST, detail, problems) from None
        spec = spec.model_copy(update={"queue": self._route(tenant, spec)})
        now_ms = self._now_ms()
        head = submitted(str(ULID.from_timestamp(now_ms / 1000)), tenant, spec, now_ms)
        self._lanes[head.queue, spec.priority].send(Message(job_id=head.job_id, tenant=tenant))
        self._jobs.put_new(head)
        return head

    def job(self, tenant: str, job_id: str) -> Head:
        """Read one job; another tenant's is as absent as one that never was: Problem 404."""
        head = self._jobs.get(job_id) if re.match(JOB_ID_PATTERN, job_id) else None
        if head is None or head.tenant != tenant or self._past(head):
            raise Problem(HTTPStatus.NOT_FOUND, "there is no such job")
        return head

    def jobs(self, tenant: str, limit: int, before: str | None) -> tuple[list[Head], str | None]:
        """Read a page of jobs, newest first; what TTL has not yet deleted is left out."""
        heads, following = self._jobs.page(tenant, limit=limit, before=before)
        return [head for head in heads if not self._past(head)], following

    def logs(self, head: Head, cursor: Cursor, limit: int) -> dict[str, Any]:
        """Read a page of a job's output."""
        store = LogStore(self._clients.make("logs"), self._settings.log_group)
        page = store.page(head, cursor, limit=limit, now_ms=self._now_ms())
        return {
            "entries": [record.model_dump(exclude_none=True) for record in page.records],
            "limit": limit,
            "next": page.cursor.encode(),
            "state": head.state,
            "complete": page.complete,
        }

    def _route(self, tenant: str, spec: Submission) -> str:
        open_to = [q for q, only in self._settings.queues.items() if not only or tenant in only]
        queue = spec.queue or self._settings.default_queue
        if queue not in open_to:
            raise wrong("queue", f"is unknown; this tenant may use {', '.join(open_to) or 'none'}")
        return queue

    def _past(self, head: Head) -> bool:
        return head.expires_at is not None and head.expires_at <= self._clock()

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)


def routes(app: Application, submitter: Submitter) -> None:
    """Bind the routes of DESIGN.md section 11 that this function answers."""
    resolver = app.resolver

    @resolver.post("/v1/jobs")
    def submit() -> Response[str]:
        head = submitter.submit(app.tenant(), app.body(MAX_BODY_BYTES))
        where = {"Location": f"/v1/jobs/{head.job_id}"}
        return success(job_view(head), HTTPStatus.ACCEPTED, where)

    @resolver.get("/v1/jobs")
    def jobs() -> Response[str]:
        query = app.query("limit", "next")
        limit = page_limit(query.get("limit"))
        before = decode_cursor(query.get("next"), lambda key: re.match(JOB_ID_PATTERN, key))
        heads, following = submitter.jobs(app.tenant(), limit, before)
        return listing(
            (job_view(head) for head in heads),
            limit,
            encode_cursor(following) if following else None,
        )

    @resolver.get("/v1/jobs/<job_id>")
    def job(job_id: str) -> Response[str]:
        app.query()
        return success(job_view(submitter.job(app.tenant(), job_id)))

    @resolver.get("/v1/jobs/<job_id>/logs")
    def logs(job_id: str) -> Response[str]:
        query = app.query("limit", "next")
        limit = page_limit(query.get("limit"), default=100, most=LOG_PAGE_MAX)
        head = submitter.job(app.tenant(), job_id)
        try:
            cursor = Cursor.decode(query["next"]) if "next" in query else Cursor()
            return success(submitter.logs(head, cursor, limit))
        except ValueError as error:
            raise wrong("next", f"{error}; pass what the last page returned") from None


def build(settings: Settings, clients: Clients, clock: Callable[[], float]) -> Application:
    """Compose the function from its settings, its clients and a clock in Unix seconds."""
    app = Application(Caller(settings.tenants), Logger())
    jobs = JobStore(clients.make("dynamodb"), settings.jobs_table)
    routes(app, Submitter(settings, jobs, clients, clock))
    return app


@cache
def _application() -> Application:
    return once(lambda: build(Settings.model_validate(dict(os.environ)), Clients(), time.time))


def main(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Answer an event of API Gateway's HTTP API (payload format 2.0)."""
    return _application().handle(event, context)
