"""The routes of the deployment itself: health, login, and the API's own description."""

from http import HTTPStatus
from pathlib import Path

from aws_lambda_powertools.event_handler.api_gateway import Response

from joblane.contract.deployment_answers import Login
from joblane.contract.route_tables.deployment import DEPLOYMENT_ROUTES
from joblane.http.answers import JSON, success
from joblane.http.application import Application

CACHEABLE = "public, max-age=3600"


def deployment_routes(app: Application, login: Login, version: str, openapi: Path) -> None:
    """Bind the routes that anyone may read; `openapi` is the file of the API's description."""
    app.add(DEPLOYMENT_ROUTES)

    @app.route("GET /v1/health")
    def health() -> Response[str]:
        return success({"status": "ok", "version": version})

    @app.route("GET /v1/login")
    def how_to_log_in() -> Response[str]:
        return success(login)

    @app.route("GET /v1/openapi.json")
    def contract() -> Response[str]:
        text = openapi.read_text(encoding="utf-8")
        return Response(int(HTTPStatus.OK), JSON, text, headers={"Cache-Control": CACHEABLE})
