"""The routes that show what goes on."""

from aws_lambda_powertools.event_handler.api_gateway import Response

from joblane.contract.status import ActivityQuery
from joblane.http.answers import success
from joblane.http.application import Application
from joblane.service.activity import ActivityReader
from joblane.service.summary import Summaries


def status_routes(app: Application, summaries: Summaries, activity: ActivityReader) -> None:
    """Bind the routes that show what goes on to a tenant or the role platform."""

    @app.route("GET /v1/summary")
    def summary() -> Response[str]:
        return success(summaries.of(app.principal()))

    @app.route("GET /v1/queues/{queue}/activity")
    def of_queue(queue: str) -> Response[str]:
        return success(activity.of(app.tenant(), queue, app.parameters(ActivityQuery).span))
