"""The route that edits a job which waits."""

from typing import TYPE_CHECKING

from aws_lambda_powertools.event_handler.api_gateway import Response

from joblane.contract.edits import Edited, EditJob
from joblane.contract.job import job_view
from joblane.contract.problems import Invalid
from joblane.contract.route_tables.edits import EDIT_ROUTES
from joblane.http.answers import success
from joblane.http.application import Application
from joblane.http.conflicts import conflicts
from joblane.service.fleet.serving_check import ServingCheck

if TYPE_CHECKING:  # few jobs are edited
    from collections.abc import Callable

    from joblane.service.job.edit import Edits


def edit_route(app: Application, serving: ServingCheck, edits: "Callable[[], Edits]") -> None:
    """Bind the route."""
    app.add(EDIT_ROUTES)

    @app.route("PATCH /v1/jobs/{job_id}")
    def edit(job_id: str) -> Response[str]:
        head = app.job(job_id)
        exact, body = app.matches(head), app.read(EditJob)
        patch = body.model_dump(mode="json", exclude={"reason"}, exclude_unset=True)
        if not patch:
            raise Invalid("give at least one field to change")
        why = f"edited by {app.principal()}"
        with conflicts(exact=exact):
            after = edits().edit(head, patch, why, app.now_ms(), exact=exact)
        serving.look()
        return success(Edited(**dict(job_view(after)), warning=serving.warning(after)))
