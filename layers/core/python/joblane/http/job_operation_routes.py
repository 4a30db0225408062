"""The routes with which a job's owner stops, restarts, hides or deletes it."""

from http import HTTPStatus
from typing import TYPE_CHECKING

from aws_lambda_powertools.event_handler.api_gateway import Response

from joblane.contract.audit import Restart
from joblane.contract.job import job_view
from joblane.contract.route_tables.operations import OPERATION_ROUTES
from joblane.contract.submissions import Cancelled
from joblane.http.answers import success
from joblane.http.application import Application
from joblane.http.conflicts import conflicts
from joblane.service.deployment.limit_check import LimitCheck
from joblane.service.job.delete import JobDeleter
from joblane.service.job.operations import Operations
from joblane.state.lifecycle import Event

if TYPE_CHECKING:  # most requests concern no group
    from collections.abc import Callable

    from joblane.service.group.groups import Groups


def job_operation_routes(
    app: Application,
    limits: LimitCheck,
    operations: Operations,
    deleter: JobDeleter,
    groups: "Callable[[], Groups]",
) -> None:
    """Bind the routes with which a job's owner stops, restarts, hides or deletes it."""
    app.add(OPERATION_ROUTES)

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
