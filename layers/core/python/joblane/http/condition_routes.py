"""The routes of conditions: list them, and declare applications up or down."""

from urllib.parse import unquote

from aws_lambda_powertools.event_handler.api_gateway import Response

from joblane.condition.names import is_condition
from joblane.contract.conditions import Declaration
from joblane.contract.query import PageQuery
from joblane.contract.route_tables.conditions import CONDITION_ROUTES
from joblane.http.answers import listing, page_start, success
from joblane.http.application import Application
from joblane.service.condition.conditions import Conditions, require_application


def condition_routes(app: Application, conditions: Conditions) -> None:
    """Bind the routes of conditions."""
    app.add(CONDITION_ROUTES)

    @app.route("GET /v1/conditions")
    def page() -> Response[str]:
        query = app.parameters(PageQuery)
        after = page_start(query, is_condition)
        found, following = conditions.page(app.tenant(), query.limit, after)
        down = conditions.outages(app.tenant()) if after is None else ()
        return listing(found, query, following, down=down)

    @app.route("PUT /v1/conditions/{condition}")
    def declare(condition: str) -> Response[str]:
        tenant, name = app.tenant(), unquote(condition)
        require_application(name)
        declared = app.read(Declaration)
        by = app.describe_request(f"declared {declared.state}", app.now_ms())
        return success(conditions.declare(tenant, name, declared, by))
