"""The routes that show what goes on."""

from aws_lambda_powertools.event_handler.api_gateway import Response

from joblane.http.answers import success
from joblane.http.application import Application
from joblane.service.summary import Summaries


def status_routes(app: Application, summaries: Summaries) -> None:
    """Bind the routes that show what goes on to a tenant or the role platform."""

    @app.route("GET /v1/summary")
    def summary() -> Response[str]:
        return success(summaries.of(app.principal()))
