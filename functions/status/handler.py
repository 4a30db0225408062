"""Lambda function behind the API's routes that show what goes on. It changes nothing."""

from joblane.aws.lambda_startup import Environment, once  # first of all: see there

# isort: split
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

from aws_lambda_powertools.logging import Logger
from pydantic import Field, Json

import joblane
from joblane.aws.agents import AgentStore
from joblane.aws.clients import Clients
from joblane.aws.usage import UsageStore
from joblane.contract.principal import AnyAccess
from joblane.contract.status import LinkView, PriceView
from joblane.contract.status_routes import STATUS_ROUTES
from joblane.deployment.limits import Limits
from joblane.http.application import Application
from joblane.http.request_jobs import RequestJobs
from joblane.http.status_routes import status_routes
from joblane.service.summary import Summaries


class Settings(Environment):
    """The function's environment."""

    agents_table: str
    counters_table: str
    queues: Json[dict[str, tuple[str, ...]]]
    """Tenants that may use each queue; none listed means all."""
    limits: Json[Limits]
    access: Json[AnyAccess]
    links: Json[tuple[LinkView, ...]] = ()
    prices: Json[dict[str, PriceView]] = Field(default_factory=dict)
    """By queue."""


def build(
    settings: Settings,
    clients: Clients,
    clock: Callable[[], float],
    pool: Callable[[int], Executor] = ThreadPoolExecutor,
) -> Application:
    """Compose the function from its settings, its clients and a clock in Unix seconds."""
    dynamodb = clients.make("dynamodb")
    logger = Logger()
    found = RequestJobs(lambda _tenant, _job_id: None, logger)
    app = Application(STATUS_ROUTES, settings.access, logger, None, clock, found)
    summaries = Summaries(
        settings.queues,
        settings.limits,
        AgentStore(dynamodb, settings.agents_table),
        UsageStore(dynamodb, settings.counters_table),
        app.now_ms,
        links=settings.links,
        prices=settings.prices,
        version=joblane.__version__,
        deployment=settings.deployment,
        pool=pool,
    )
    status_routes(app, summaries)
    return app


@once
def _application() -> Application:
    return build(Settings.read(__file__), Clients(), time.time)


def main(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Answer an event of API Gateway's HTTP API (payload format 2.0)."""
    return _application().handle(event, context)
