"""The routes that submit ended jobs again: one, or those that filters select."""

from typing import TYPE_CHECKING

from aws_lambda_powertools.event_handler.api_gateway import Response

from joblane.contract.problems import Conflict
from joblane.contract.queries import SelectJobs
from joblane.contract.route_tables.resubmissions import RESUBMISSION_ROUTES
from joblane.contract.submissions import Resubmission
from joblane.http.answers import answer_sweep, page_start, require_filter
from joblane.http.application import Application
from joblane.http.conflicts import conflicts
from joblane.http.submission_routes import accept
from joblane.job.message import is_id
from joblane.job.spec import MAX_BODY_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from joblane.service.job.resubmit import Resubmitter


def resubmission_routes(app: Application, resubmitter: "Callable[[], Resubmitter]") -> None:
    """Bind the routes that submit ended jobs again."""
    app.add(RESUBMISSION_ROUTES)

    @app.route("POST /v1/jobs/{job_id}/resubmit")
    def resubmit(job_id: str) -> Response[str]:
        head = app.job(job_id)
        if head.member_of is not None:
            group = head.member_of.group_id
            raise Conflict(
                f"the job is a member of group {group}: retry it, or resubmit the group",
            )
        asked = app.read_action(Resubmission, MAX_BODY_BYTES)
        with conflicts():
            key = app.idempotency_key()
            return accept(*resubmitter().resubmit(app.principal(), head, asked.changes, key))

    @app.route("POST /v1/jobs/resubmit")
    def resubmit_selected() -> Response[str]:
        wanted = app.parameters(SelectJobs)
        require_filter(wanted)
        after = page_start(wanted, is_id)
        changes = app.read_action(Resubmission, MAX_BODY_BYTES).changes
        result = resubmitter().resubmit_selected(app.principal(), wanted, changes, after)
        made = [{"id": old, "resubmitted_as": new} for old, new in result.made.items()]
        return answer_sweep("resubmitted", result, wanted, already=result.already, jobs=made)
