"""The routes that show what goes on."""

from typing import TYPE_CHECKING

from aws_lambda_powertools.event_handler.api_gateway import Response

from joblane.contract.route_tables.status import STATUS_ROUTES
from joblane.contract.status import ActivityQuery
from joblane.http.answers import success
from joblane.http.application import Application
from joblane.service.deployment.summary import Summaries
from joblane.service.queue.activity import ActivityReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from joblane.service.fleet.fleets import FleetReader


def status_routes(
    app: Application,
    summaries: Summaries,
    activity: ActivityReader,
    fleets: "Callable[[], FleetReader]",
) -> None:
    """Bind the routes that show what goes on to a tenant or the role platform.

    `fleets` is called by requests that need it.
    """
    app.add(STATUS_ROUTES)

    @app.route("GET /v1/summary")
    def summary() -> Response[str]:
        return success(summaries.summarize(app.principal()))

    @app.route("GET /v1/queues/{queue}/activity")
    def of_queue(queue: str) -> Response[str]:
        return success(
            activity.read_activity(app.tenant(), queue, app.parameters(ActivityQuery).span)
        )

    @app.route("GET /v1/fleets")
    def all_fleets() -> Response[str]:
        return success(fleets().page())
