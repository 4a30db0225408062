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

from joblane.startup import once  # first of all: see there

# isort: split
import os
import re
import time
from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from typing import Any

from aws_lambda_powertools.event_handler.api_gateway import Response
from aws_lambda_powertools.logging import Logger

from joblane.answers import etag, listing, place, success
from joblane.audit_routes import job_trail_route
from joblane.aws.audit import AuditStore
from joblane.aws.clients import Clients
from joblane.aws.jobs import JobStore
from joblane.head import Head, job_view
from joblane.job import Cancelled
from joblane.lifecycle import Event
from joblane.message import JOB_ID_PATTERN
from joblane.model import MAX_BODY_BYTES, Batch, Submission
from joblane.problems import Problem
from joblane.queries import ListJobs, LogQuery
from joblane.submitting import Settings, Submitter
from joblane.trail import Trail
from joblane.web import Application, conflicts

__all__ = ["Settings", "build", "main"]


def _entry(answer: Head | Problem) -> dict[str, Any]:
    """One entry of a batch's answer."""
    if isinstance(answer, Head):
        return {"status": HTTPStatus.ACCEPTED, "job": job_view(answer).model_dump(mode="json")}
    return {
        "status": answer.status,
        "detail": answer.detail,
        "errors": [problem.model_dump() for problem in answer.errors],
    }


REPLAYED = {"Idempotency-Replayed": "true"}
"""With the answer to a request that had been done before."""


def _accepted(head: Head, repeated: bool) -> Response[str]:  # noqa: FBT001 - as `submit` has it
    where = {"Location": f"/v1/jobs/{head.job_id}"}
    headers = where | (REPLAYED if repeated else {})
    return success(job_view(head), HTTPStatus.ACCEPTED, headers)


def routes(app: Application, submitter: Submitter) -> None:
    """Bind the routes of DESIGN.md section 11 that this function answers."""

    @app.route("POST /v1/jobs")
    def submit() -> Response[str]:
        spec = app.read(Submission, MAX_BODY_BYTES)
        return _accepted(*submitter.submit(app.principal(), spec, app.once()))

    @app.route("POST /v1/jobs/batch")
    def batch() -> Response[str]:
        entries = app.read(Batch, MAX_BODY_BYTES)
        answers, repeated = submitter.submit_batch(app.principal(), entries, app.once())
        headers = REPLAYED if repeated else {}
        return success({"entries": [_entry(answer) for answer in answers]}, headers=headers)

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
        return success(view, headers={"ETag": etag(head)})

    @app.route("GET /v1/jobs/{job_id}/logs")
    def logs(job_id: str) -> Response[str]:
        head = submitter.job(app.tenant(), job_id)
        return submitter.output.answer(app, head, app.parameters(LogQuery))


def move_routes(app: Application, submitter: Submitter) -> None:
    """Bind the routes with which a job's owner ends it, starts it again or puts it away."""

    @app.route("DELETE /v1/jobs/{job_id}")
    def delete(job_id: str) -> Response[str]:
        head = submitter.job(app.tenant(), job_id)
        exact = app.matches(head)
        with conflicts(exact=exact):
            submitter.delete(head, exact=exact)
        return Response(int(HTTPStatus.NO_CONTENT), body="")

    @app.route("POST /v1/jobs/{job_id}/cancel")
    def cancel(job_id: str) -> Response[str]:
        now_ms = submitter.now_ms()
        head = submitter.job(app.tenant(), job_id)
        exact, why = app.matches(head), app.asked("cancelled", now_ms)
        with conflicts(exact=exact):
            answer = submitter.operations.cancel(head, why, now_ms, exact=exact)
        job = job_view(answer.head).model_dump()
        return success(Cancelled(**job, note=answer.note), HTTPStatus.ACCEPTED)

    @app.route("POST /v1/jobs/{job_id}/retry")
    def retry(job_id: str) -> Response[str]:
        now_ms = submitter.now_ms()
        head = submitter.job(app.tenant(), job_id)
        exact, why = app.matches(head), app.asked("retried", now_ms)
        with conflicts(exact=exact):
            back = submitter.operations.restart(head, Event.RETRY, why, now_ms, exact=exact)
        return success(job_view(back), HTTPStatus.ACCEPTED)

    @app.route("POST /v1/jobs/{job_id}/resubmit")
    def resubmit(job_id: str) -> Response[str]:
        head = submitter.job(app.tenant(), job_id)
        with conflicts():
            return _accepted(*submitter.resubmit(app.principal(), head, app.once()))

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
    dynamodb = clients.make("dynamodb")
    store = AuditStore(dynamodb, settings.audit_table)
    trail = Trail(store, settings.retention.audit_days, clock)
    app = Application(settings.access, Logger(), trail)
    submitter = Submitter(settings, JobStore(dynamodb, settings.jobs_table), clients, clock)
    routes(app, submitter)
    move_routes(app, submitter)
    job_trail_route(app, trail, submitter.find)
    return app


@cache
def _application() -> Application:
    return once(lambda: build(Settings.model_validate(dict(os.environ)), Clients(), time.time))


def main(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Answer an event of API Gateway's HTTP API (payload format 2.0)."""
    return _application().handle(event, context)
