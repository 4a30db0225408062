"""The routes that submit jobs, or say where one would go."""

from http import HTTPStatus
from typing import Any

from aws_lambda_powertools.event_handler.api_gateway import Response
from pydantic import BaseModel

from joblane.contract.problems import Problem
from joblane.contract.route_tables.submissions import SUBMISSION_ROUTES
from joblane.contract.submissions import NotAccepted, submitted_view
from joblane.http.answers import success
from joblane.http.application import Application
from joblane.http.conflicts import conflicts
from joblane.http.statuses import status_of
from joblane.job.spec import MAX_BODY_BYTES, Batch, Submission
from joblane.service.job.submit import Submitter
from joblane.service.job.submit_batch import BatchSubmitter
from joblane.service.key.admission import SubmissionOutcome

REPLAYED = {"Idempotency-Replayed": "true"}
"""With the answer to a request that had been done before."""


def submission_routes(app: Application, submitter: Submitter, batches: BatchSubmitter) -> None:
    """Bind the routes that submit jobs."""
    app.add(SUBMISSION_ROUTES)

    @app.route("POST /v1/jobs")
    def submit() -> Response[str]:
        spec = app.read(Submission, MAX_BODY_BYTES)
        key = app.idempotency_key()
        with conflicts():
            result, repeated = submitter.submit(app.principal(), spec, key, app.trace())
        app.jobs.name(result.head)
        return accept(result, repeated)

    @app.route("POST /v1/jobs/batch")
    def batch() -> Response[str]:
        entries = app.read(Batch, MAX_BODY_BYTES)
        key = app.idempotency_key()
        answers, repeated = batches.submit(app.principal(), entries, key, app.trace())
        headers = REPLAYED if repeated else {}
        return success({"entries": [_entry(answer) for answer in answers]}, headers=headers)

    @app.route("POST /v1/queues/explain")
    def explain() -> Response[str]:
        spec = app.read(Submission, MAX_BODY_BYTES)
        return success(submitter.admission.explain(app.principal(), spec, app.now_ms()))


def _entry(answer: SubmissionOutcome | Problem) -> dict[str, Any]:
    """One entry of a batch's answer."""
    if isinstance(answer, SubmissionOutcome):
        return {"status": _status(answer), "job": _view(answer).model_dump(mode="json")}
    told: dict[str, Any] = {"status": int(status_of(answer)), "detail": answer.detail}
    entry = NotAccepted(**told, errors=answer.errors, **answer.members)
    return entry.model_dump(mode="json")


def accept(result: SubmissionOutcome, repeated: bool) -> Response[str]:  # noqa: FBT001 - as `submit` has it
    """Make the answer of a submission."""
    where = {"Location": f"/v1/jobs/{result.head.job_id}"}
    headers = where | (REPLAYED if repeated else {})
    return success(_view(result), _status(result), headers)


def _status(result: SubmissionOutcome) -> HTTPStatus:
    return HTTPStatus.OK if result.admission == "coalesced" else HTTPStatus.ACCEPTED


def _view(result: SubmissionOutcome) -> BaseModel:
    return submitted_view(result.head, result.admission, result.replaced, result.warning)
