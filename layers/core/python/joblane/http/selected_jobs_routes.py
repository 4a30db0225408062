"""The routes that change the jobs which filters select, a page at a time."""

from typing import TYPE_CHECKING

from aws_lambda_powertools.event_handler.api_gateway import Response

from joblane.contract.audit import Restart
from joblane.contract.cursors import is_job_or_members
from joblane.contract.queries import SelectJobs
from joblane.contract.route_tables.selected_jobs import SELECTED_JOBS_ROUTES
from joblane.http.answers import answer_sweep, page_start, require_filter
from joblane.http.application import Application
from joblane.service.deployment.limit_check import LimitCheck

if TYPE_CHECKING:  # most requests concern no group
    from collections.abc import Callable

    from joblane.service.job.delete_selected import SelectedDeletion
    from joblane.service.job.selected_jobs import SelectedJobs


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

    app.add(SELECTED_JOBS_ROUTES)

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
