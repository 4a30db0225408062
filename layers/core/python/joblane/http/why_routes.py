"""The route that says why a job waits, runs on or has ended."""

from typing import TYPE_CHECKING

from aws_lambda_powertools.event_handler.api_gateway import Response

from joblane.contract.route_tables.why import WHY_ROUTES
from joblane.http.answers import success
from joblane.http.application import Application

if TYPE_CHECKING:  # of the requests to this function most are for something else
    from collections.abc import Callable

    from joblane.service.why import WhyReader


def why_routes(app: Application, reader: "Callable[[], WhyReader]") -> None:
    """Bind the route; `reader` is made when it is first asked."""
    app.add(WHY_ROUTES)

    @app.route("GET /v1/jobs/{job_id}/why")
    def why(job_id: str) -> Response[str]:
        head = app.job(job_id)
        return success(reader().explain(head))
