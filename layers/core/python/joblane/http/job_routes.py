"""The routes of jobs: submit, read, and what a job's owner may do with it."""

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.event_handler.api_gateway import Response
from pydantic import BaseModel

from joblane.contract.audit import Restart
from joblane.contract.cursors import is_job_or_members
from joblane.contract.job import job_view
from joblane.contract.problems import Problem
from joblane.contract.queries import ListJobs, SelectJobs
from joblane.contract.submissions import Cancelled, NotAccepted, submitted_view
from joblane.http.answers import answer_sweep, etag, listing, page_start, require_filter, success
from joblane.http.application import Application
from joblane.http.conflicts import conflicts
from joblane.http.statuses import status_of
from joblane.job.message import is_id
from joblane.job.spec import MAX_BODY_BYTES, Batch, Submission
from joblane.service.deployment.limit_check import LimitCheck
from joblane.service.job.delete import JobDeleter
from joblane.service.job.operations import Operations
from joblane.service.job.read import JobViews
from joblane.service.job.search import JobSearch
from joblane.service.job.submit import Submitter
from joblane.service.key.admission import SubmissionOutcome
from joblane.state.lifecycle import Event

if TYPE_CHECKING:  # most requests concern no group
    from collections.abc import Callable

    from joblane.service.group.groups import Groups
    from joblane.service.job.delete_selected import SelectedDeletion
    from joblane.service.job.selected_jobs import SelectedJobs

REPLAYED = {"Idempotency-Replayed": "true"}
"""With the answer to a request that had been done before."""


def job_routes(app: Application, submitter: Submitter, search: JobSearch, views: JobViews) -> None:
    """Bind the routes that submit and read jobs."""

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
        answers, repeated = submitter.submit_batch(app.principal(), entries, key, app.trace())
        headers = REPLAYED if repeated else {}
        return success({"entries": [_entry(answer) for answer in answers]}, headers=headers)

    @app.route("POST /v1/queues/explain")
    def explain() -> Response[str]:
        spec = app.read(Submission, MAX_BODY_BYTES)
        return success(submitter.admission.explain(app.principal(), spec, app.now_ms()))

    @app.route("GET /v1/jobs")
    def jobs() -> Response[str]:
        query = app.parameters(ListJobs)
        before = page_start(query, is_id)
        heads, following = search.page(app.tenant(), query, before)
        return listing(views.show_many(heads), query, following)

    @app.route("GET /v1/jobs/{job_id}")
    def job(job_id: str) -> Response[str]:
        head = app.job(job_id)
        return success(views.show_whole(head), headers={"ETag": etag(head)})


def job_operation_routes(
    app: Application,
    limits: LimitCheck,
    operations: Operations,
    deleter: JobDeleter,
    groups: "Callable[[], Groups]",
) -> None:
    """Bind the routes with which a job's owner stops, restarts, hides or deletes it."""

    @app.route("DELETE /v1/jobs/{job_id}")
    def delete(job_id: str) -> Response[str]:
        head = app.job(job_id)
        exact = app.matches(head)
        with conflicts(exact=exact):
            if head.group is None:
                deleter.delete(head, exact=exact)
            else:
                groups().deleter.delete(head)
        return Response(int(HTTPStatus.NO_CONTENT), body="")

    @app.route("POST /v1/jobs/{job_id}/cancel")
    def cancel(job_id: str) -> Response[str]:
        now_ms = app.now_ms()
        head = app.job(job_id)
        exact, why = app.matches(head), app.describe_request("cancelled", now_ms)
        with conflicts(exact=exact):
            result = operations.cancel(head, why, now_ms, exact=exact)
        job = job_view(result.head).model_dump()
        return success(Cancelled(**job, note=result.note), HTTPStatus.ACCEPTED)

    @app.route("POST /v1/jobs/{job_id}/retry")
    def retry(job_id: str) -> Response[str]:
        now_ms = app.now_ms()
        head = app.job(job_id)
        exact, why = app.matches(head), app.describe_request("retried", now_ms)
        same = app.read_action(Restart).same_version
        limits.require(app.tenant())
        with conflicts(exact=exact):
            back = operations.restart(
                head, Event.RETRY, why, now_ms, exact=exact, same_version=same
            )
        return success(job_view(back), HTTPStatus.ACCEPTED)

    def show(job_id: str, *, hidden: bool) -> Response[str]:
        head = app.job(job_id)
        with conflicts():
            return success(job_view(operations.hide(head, hidden=hidden)))

    @app.route("POST /v1/jobs/{job_id}/hide")
    def hide(job_id: str) -> Response[str]:
        return show(job_id, hidden=True)

    @app.route("POST /v1/jobs/{job_id}/unhide")
    def unhide(job_id: str) -> Response[str]:
        return show(job_id, hidden=False)


def selected_jobs_routes(
    app: Application,
    limits: LimitCheck,
    selected: "Callable[[], SelectedJobs]",
    deletion: "Callable[[], SelectedDeletion]",
) -> None:
    """Bind the routes that cancel, retry and delete what filters select, a page at a time."""

    def query() -> tuple[SelectJobs, str | None]:
        found = app.parameters(SelectJobs)
        require_filter(found)
        return found, page_start(found, is_job_or_members)

    @app.route("POST /v1/jobs/cancel")
    def cancel() -> Response[str]:
        now_ms = app.now_ms()
        wanted, after = query()
        why = app.describe_request("cancelled", now_ms)
        result = selected().cancel(app.tenant(), wanted, why, now_ms, after)
        return answer_sweep("cancelled", result, wanted)

    @app.route("POST /v1/jobs/retry")
    def retry() -> Response[str]:
        now_ms = app.now_ms()
        wanted, after = query()
        limits.require(app.tenant())
        why = app.describe_request("retried", now_ms)
        same = app.read_action(Restart).same_version
        result = selected().retry(app.tenant(), wanted, why, now_ms, after, same_version=same)
        limits.note(app.tenant(), result.done - 1)
        return answer_sweep("retried", result, wanted)

    @app.route("POST /v1/jobs/delete")
    def delete() -> Response[str]:
        wanted, after = query()
        return answer_sweep("deleted", deletion().delete(app.tenant(), wanted, after), wanted)


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
