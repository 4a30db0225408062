"""Submission: accepts jobs, answers what became of them, and lets their owner end them.

`POST /v1/jobs` sends the wake-up message first and stores the job second, so a job in the table
always has a message, and no sweeper has to look for jobs that lost theirs:

    function                      lane               table                agent
    send  --------------------->  message
                                          --------------------------->   receives
    put   ------------------------------------->     pending
                                                     active  <---------  claims

An agent that is faster than the put finds no job and tries again for a moment; one whose put
never came is discarded by the agent after a minute. Nothing is ever half there.

A job whose `run_at` is within SQS's 15 minutes gets a delayed message; a later one gets none,
and its row in the index `wake` brings it to its lane in time. docs/decisions/0201 says why a
batch is put job by job. A submission too large for the table is in S3 before its message is sent
(`joblane.aws.payloads`).
"""

import json
import math
import os
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from http import HTTPStatus
from typing import Annotated, Any

from aws_lambda_powertools.event_handler.api_gateway import Response
from aws_lambda_powertools.logging import Logger
from botocore.exceptions import BotoCoreError, ClientError
from pydantic import BaseModel, ConfigDict, Field, Json
from ulid import ULID

from joblane.aws.clients import Clients
from joblane.aws.jobs import JobStore, Refused
from joblane.aws.lanes import MAX_DELAY_S, LaneQueue, Lanes
from joblane.aws.logs import LogStore
from joblane.aws.operations import Gone, Operations
from joblane.aws.payloads import MAX_DATA_BYTES, PayloadLost, Payloads, is_large
from joblane.aws.search import Found, search
from joblane.aws.settings import SettingsStore
from joblane.head import Head, job_view, submitted
from joblane.lifecycle import Event, State
from joblane.message import JOB_ID_PATTERN, Message
from joblane.model import (
    MAX_BODY_BYTES,
    Batch,
    Cancelled,
    FieldProblem,
    Job,
    Submission,
)
from joblane.names import LANES, Lane
from joblane.output import Output
from joblane.principal import AnyAccess
from joblane.queries import ListJobs, LogQuery
from joblane.queues import UNSET, explained
from joblane.retention import PAYLOAD_START_DAYS, Retention
from joblane.secret_names import allowed
from joblane.secret_names import parse as parse_secret
from joblane.web import (
    Application,
    Problem,
    conflicts,
    listing,
    once,
    parsed,
    place,
    success,
    wrong,
)


class Settings(BaseModel):
    """The function's environment; a missing variable fails the cold start by its name."""

    model_config = ConfigDict(frozen=True)

    deployment: Annotated[str, Field(alias="JOBLANE_DEPLOYMENT")]
    jobs_table: Annotated[str, Field(alias="JOBLANE_JOBS_TABLE")]
    log_group: Annotated[str, Field(alias="JOBLANE_LOG_GROUP")]
    bucket: Annotated[str, Field(alias="JOBLANE_BUCKET")]
    queue_url_prefix: Annotated[str, Field(alias="JOBLANE_QUEUE_URL_PREFIX")]
    queues: Annotated[Json[dict[str, tuple[str, ...]]], Field(alias="JOBLANE_QUEUES")]
    """Tenants that may submit to each queue; none listed means all."""
    default_queue: Annotated[str, Field(alias="JOBLANE_DEFAULT_QUEUE")]
    settings_table: Annotated[str, Field(alias="JOBLANE_SETTINGS_TABLE")]
    access: Annotated[Json[AnyAccess], Field(alias="JOBLANE_ACCESS")]
    retention: Annotated[Json[Retention], Field(alias="JOBLANE_RETENTION")]


PUTS_AT_ONCE = 8
"""Threads that store a batch: each waits some milliseconds for DynamoDB, a hundred times."""


class Submitter:
    """What the routes do, over the stores they are handed."""

    def __init__(
        self, settings: Settings, jobs: JobStore, clients: Clients, clock: Callable[[], float]
    ) -> None:
        self._settings = settings
        self._jobs = jobs
        self._clock = clock
        self._queues = SettingsStore(clients.make("dynamodb"), settings.settings_table)
        self._payloads = Payloads(cache(lambda: clients.make("s3")), settings.bucket)
        lanes = Lanes(clients.make("sqs"), settings.queue_url_prefix, settings.deployment)
        self.operations = Operations(jobs, lanes, settings.retention)
        self.output = Output(
            jobs, lambda: LogStore(clients.make("logs"), settings.log_group), clock
        )
        self._lanes = {
            (queue, lane): lanes.lane(queue, lane) for queue in settings.queues for lane in LANES
        }

    def submit(self, tenant: str, spec: Submission) -> Head:
        """Accept one job. Raises Problem 400 for a queue that it may not use."""
        head = self._payloads.keep(self._judge(tenant, spec))
        if (delay_s := _delay_s(head)) is not None:
            message = Message(job_id=head.job_id, tenant=tenant)
            self._lane(head).send(message, delay_s)
        self._jobs.put_new(head)
        return head

    def submit_batch(self, tenant: str, batch: Batch) -> list[Head | Problem]:
        """Accept many jobs, each judged for itself: heads and problems in the order given.

        All messages are sent before the first job is put, so an answer that is an error as a
        whole (503) leaves messages without jobs, which agents discard, and no job.
        """
        judged = [self._judged(tenant, job) for job in batch.jobs]
        heads = [entry for entry in judged if isinstance(entry, Head)]
        lanes: dict[tuple[str, Lane], list[tuple[Message, int]]] = {}
        for head in heads:
            if (delay_s := _delay_s(head)) is not None:
                message = Message(job_id=head.job_id, tenant=tenant)
                lanes.setdefault((head.queue, head.spec.priority), []).append((message, delay_s))
        refused = {
            message.job_id
            for lane, messages in lanes.items()
            for message in self._lanes[lane].send_batch(messages)
        }
        stored = self._put_all([head for head in heads if head.job_id not in refused])
        return [
            stored.get(entry.job_id, _unavailable("was not accepted; submit it again"))
            if isinstance(entry, Head)
            else entry
            for entry in judged
        ]

    def _judged(self, tenant: str, job: object) -> Head | Problem:
        try:
            spec = parsed(Submission, json.dumps(job))
            return self._payloads.keep(self._judge(tenant, spec))
        except Problem as problem:
            return problem
        except (ClientError, BotoCoreError):
            return _unavailable("was not accepted; submit it again")

    def _judge(self, tenant: str, spec: Submission) -> Head:
        self._check_secrets(tenant, spec)
        spec = spec.model_copy(update={"queue": self._route(tenant, spec)})
        now_ms = self.now_ms()
        head = submitted(str(ULID.from_timestamp(now_ms / 1000)), tenant, spec, now_ms)
        latest_ms = now_ms + PAYLOAD_START_DAYS * 86_400_000
        if head.next_at_ms is not None and head.next_at_ms > latest_ms and is_large(spec):
            problem = f"must be within {PAYLOAD_START_DAYS} days for a job that is kept in S3, "
            raise wrong("run_at", f"{problem}one of more than {MAX_DATA_BYTES} bytes")
        if not head.ended:
            return head
        return replace(head, expires_at=self._settings.retention.expires_at(head.state, now_ms))

    def _check_secrets(self, tenant: str, spec: Submission) -> None:
        deployment = self._settings.deployment
        problem = f"is not a name that this tenant may use: {allowed(deployment, tenant)}"
        foreign = [
            FieldProblem(field=f"secret_env.{variable}", problem=problem)
            for variable, reference in spec.secret_env.items()
            if not parse_secret(reference).belongs_to(deployment, tenant)
        ]
        if foreign:
            detail = f"{foreign[0].field} {problem}"
            raise Problem(HTTPStatus.BAD_REQUEST, detail, foreign)

    def _put_all(self, heads: Sequence[Head]) -> dict[str, Head | Problem]:
        def put(head: Head) -> Head | Problem:
            try:
                self._jobs.put_new(head)
            except (ClientError, BotoCoreError):
                return _unavailable("may have been accepted all the same; look before trying again")
            return head

        with ThreadPoolExecutor(PUTS_AT_ONCE) as pool:
            return {
                head.job_id: stored
                for head, stored in zip(heads, pool.map(put, heads), strict=True)
            }

    def _lane(self, head: Head) -> LaneQueue:
        return self._lanes[head.queue, head.spec.priority]

    def delete(self, head: Head) -> None:
        """Delete a job that is not running. Raises Refused, and Gone if it is gone already."""
        try:
            self._jobs.delete(head.job_id)
        except Refused as refusal:
            if refusal.head is None:
                raise Gone from refusal
            raise
        self._payloads.delete(head)

    def whole(self, head: Head) -> Head:
        """Return a job with its whole submission, or as it is if that is lost."""
        try:
            return self._payloads.whole(head)
        except PayloadLost:
            return head

    def job(self, tenant: str, job_id: str) -> Head:
        """Read one job; another tenant's is as absent as one that never was: Problem 404."""
        head = self._jobs.get(job_id) if re.match(JOB_ID_PATTERN, job_id) else None
        if head is None or head.tenant != tenant or self._past(head):
            raise Problem(HTTPStatus.NOT_FOUND, "there is no such job")
        return head

    def jobs(self, tenant: str, query: ListJobs, before: str | None) -> Found:
        """Read a page of jobs, newest first. Raises Problem 400 for a queue it may not use."""
        if query.queue is not None:
            self._require(tenant, query.queue)
        return search(self._jobs, tenant, query, before, self._clock())

    def views(self, heads: Sequence[Head], *, whole: bool = False) -> list[Job]:
        """Show jobs; one read tells whether the queues of those that wait are paused.

        `whole` shows all of their submissions, as far as the heads have them.
        """
        waiting = {head.queue for head in heads if head.state in {State.PENDING, State.RETRY}}
        found = self._queues.get_all(waiting)
        return [
            explained(job_view(head, whole=whole), found.get(head.queue, UNSET)) for head in heads
        ]

    def _route(self, tenant: str, spec: Submission) -> str:
        queue = spec.queue or self._settings.default_queue
        self._require(tenant, queue)
        return queue

    def _require(self, tenant: str, queue: str) -> None:
        open_to = [q for q, only in self._settings.queues.items() if not only or tenant in only]
        if queue not in open_to:
            raise wrong("queue", f"is unknown; this tenant may use {', '.join(open_to) or 'none'}")

    def _past(self, head: Head) -> bool:
        return head.expires_at is not None and head.expires_at <= self._clock()

    def now_ms(self) -> int:
        """The time, in Unix milliseconds."""
        return int(self._clock() * 1000)


def _delay_s(head: Head) -> int | None:
    """Seconds to keep a new job's message back; None for one that needs no message now."""
    if head.state is State.PENDING:
        return 0
    if head.next_at_ms is None:
        return None
    delay_s = math.ceil((head.next_at_ms - head.timeline[0].at_ms) / 1000)
    return delay_s if delay_s <= MAX_DELAY_S else None


def _unavailable(detail: str) -> Problem:
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, f"the job {detail}")


def _entry(answer: Head | Problem) -> dict[str, Any]:
    """One entry of a batch's answer."""
    if isinstance(answer, Head):
        return {"status": HTTPStatus.ACCEPTED, "job": job_view(answer).model_dump(mode="json")}
    return {
        "status": answer.status,
        "detail": answer.detail,
        "errors": [problem.model_dump() for problem in answer.errors],
    }


def routes(app: Application, submitter: Submitter) -> None:
    """Bind the routes of DESIGN.md section 11 that this function answers."""

    @app.route("POST /v1/jobs")
    def submit() -> Response[str]:
        head = submitter.submit(app.tenant(), app.read(Submission, MAX_BODY_BYTES))
        where = {"Location": f"/v1/jobs/{head.job_id}"}
        return success(job_view(head), HTTPStatus.ACCEPTED, where)

    @app.route("POST /v1/jobs/batch")
    def batch() -> Response[str]:
        answers = submitter.submit_batch(app.tenant(), app.read(Batch, MAX_BODY_BYTES))
        return success({"entries": [_entry(answer) for answer in answers]})

    @app.route("GET /v1/jobs")
    def jobs() -> Response[str]:
        query = app.parameters(ListJobs)
        before = place(query, lambda key: re.match(JOB_ID_PATTERN, key))
        found = submitter.jobs(app.tenant(), query, before)
        return listing(submitter.views(found.heads), query, found.following)

    @app.route("GET /v1/jobs/{job_id}")
    def job(job_id: str) -> Response[str]:
        head = submitter.whole(submitter.job(app.tenant(), job_id))
        (view,) = submitter.views([head], whole=True)
        return success(view)

    @app.route("GET /v1/jobs/{job_id}/logs")
    def logs(job_id: str) -> Response[str]:
        head = submitter.job(app.tenant(), job_id)
        return submitter.output.answer(app, head, app.parameters(LogQuery))


def move_routes(app: Application, submitter: Submitter) -> None:
    """Bind the routes with which a job's owner ends it, starts it again or puts it away."""

    @app.route("DELETE /v1/jobs/{job_id}")
    def delete(job_id: str) -> Response[str]:
        with conflicts():
            submitter.delete(submitter.job(app.tenant(), job_id))
        return Response(int(HTTPStatus.NO_CONTENT), body="")

    @app.route("POST /v1/jobs/{job_id}/cancel")
    def cancel(job_id: str) -> Response[str]:
        now_ms = submitter.now_ms()
        head = submitter.job(app.tenant(), job_id)
        with conflicts():
            answer = submitter.operations.cancel(head, app.asked("cancelled", now_ms), now_ms)
        job = job_view(answer.head).model_dump()
        return success(Cancelled(**job, note=answer.note), HTTPStatus.ACCEPTED)

    @app.route("POST /v1/jobs/{job_id}/retry")
    def retry(job_id: str) -> Response[str]:
        now_ms = submitter.now_ms()
        head = submitter.job(app.tenant(), job_id)
        with conflicts():
            back = submitter.operations.restart(
                head, Event.RETRY, app.asked("retried", now_ms), now_ms
            )
        return success(job_view(back), HTTPStatus.ACCEPTED)

    def show(job_id: str, *, hidden: bool) -> Response[str]:
        head = submitter.job(app.tenant(), job_id)
        with conflicts():
            return success(job_view(submitter.operations.hide(head, hidden=hidden)))

    @app.route("POST /v1/jobs/{job_id}/hide")
    def hide(job_id: str) -> Response[str]:
        return show(job_id, hidden=True)

    @app.route("POST /v1/jobs/{job_id}/unhide")
    def unhide(job_id: str) -> Response[str]:
        return show(job_id, hidden=False)


def build(settings: Settings, clients: Clients, clock: Callable[[], float]) -> Application:
    """Compose the function from its settings, its clients and a clock in Unix seconds."""
    app = Application(settings.access, Logger())
    jobs = JobStore(clients.make("dynamodb"), settings.jobs_table)
    submitter = Submitter(settings, jobs, clients, clock)
    routes(app, submitter)
    move_routes(app, submitter)
    return app


@cache
def _application() -> Application:
    return once(lambda: build(Settings.model_validate(dict(os.environ)), Clients(), time.time))


def main(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Answer an event of API Gateway's HTTP API (payload format 2.0)."""
    return _application().handle(event, context)
