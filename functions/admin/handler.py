"""Admin: what an operator looks at. Agents, queues, and whether the API is there at all."""

import os
import re
import time
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

from aws_lambda_powertools.event_handler.api_gateway import Response
from aws_lambda_powertools.logging import Logger
from pydantic import BaseModel, ConfigDict, Field, Json

from joblane import __version__
from joblane.aws.agents import AgentRow, AgentStore
from joblane.aws.clients import Clients
from joblane.aws.lanes import LaneQueue
from joblane.head import rfc3339
from joblane.names import AGENT_NAME_PATTERN, LANES, Lane, dead_letter_name, lane_name
from joblane.web import (
    Application,
    Caller,
    decode_cursor,
    encode_cursor,
    listing,
    once,
    page_limit,
    success,
)


class Settings(BaseModel):
    """The function's environment; a missing variable fails the cold start by its name."""

    model_config = ConfigDict(frozen=True)

    deployment: Annotated[str, Field(alias="JOBLANE_DEPLOYMENT")]
    agents_table: Annotated[str, Field(alias="JOBLANE_AGENTS_TABLE")]
    queue_url_prefix: Annotated[str, Field(alias="JOBLANE_QUEUE_URL_PREFIX")]
    queues: Annotated[Json[dict[str, tuple[str, ...]]], Field(alias="JOBLANE_QUEUES")]
    tenants: Annotated[Json[dict[str, str]], Field(alias="JOBLANE_TENANTS")]


class AgentView(BaseModel):
    """An agent as the API answers it."""

    name: str
    alive: bool
    """Whether it still holds the lease on its jobs."""
    last_seen_at: str
    threads: int
    running: int
    queues: tuple[str, ...]
    isolation: str
    version: str


class LaneView(BaseModel):
    """One lane: how many messages SQS counts in it, and in its dead-letter queue."""

    lane: Lane
    visible: int
    in_flight: int
    delayed: int
    dead_letters: int


class QueueView(BaseModel):
    """A queue as the API answers it; its lanes in the order in which agents serve them."""

    name: str
    lanes: tuple[LaneView, ...]


class Operator:
    """What the routes do, over the stores they are handed."""

    def __init__(self, settings: Settings, clients: Clients, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._agents = AgentStore(clients.make("dynamodb"), settings.agents_table)
        self._sqs = clients.make("sqs")

    def agents(self, limit: int, after: str | None) -> tuple[list[AgentView], str | None]:
        """Read a page of agents."""
        rows, following = self._agents.page(limit=limit, after=after)
        now_ms = int(self._clock() * 1000)
        return [_agent(row, now_ms) for row in rows], following

    def queues(self, tenant: str) -> list[QueueView]:
        """Measure the queues that a tenant may use: two requests a lane."""
        return [
            QueueView(name=queue, lanes=tuple(self._lane(queue, lane) for lane in LANES))
            for queue, only in self._settings.queues.items()
            if not only or tenant in only
        ]

    def _lane(self, queue: str, lane: Lane) -> LaneView:
        prefix, deployment = self._settings.queue_url_prefix, self._settings.deployment
        held = LaneQueue(self._sqs, prefix + lane_name(deployment, queue, lane)).lengths()
        dead = LaneQueue(self._sqs, prefix + dead_letter_name(deployment, queue, lane)).lengths()
        return LaneView(
            lane=lane,
            visible=held.visible,
            in_flight=held.in_flight,
            delayed=held.delayed,
            dead_letters=dead.visible,
        )


def _agent(row: AgentRow, now_ms: int) -> AgentView:
    return AgentView(
        name=row.name,
        alive=row.alive(now_ms),
        last_seen_at=rfc3339(row.beat_ms),
        threads=row.threads,
        running=row.running,
        queues=row.queues,
        isolation=row.isolation,
        version=row.version,
    )


def routes(app: Application, operator: Operator) -> None:
    """Bind the routes of DESIGN.md section 11 that this function answers."""
    resolver = app.resolver

    @resolver.get("/v1/health")
    def health() -> Response[str]:
        return success({"status": "ok", "version": __version__})

    @resolver.get("/v1/agents")
    def agents() -> Response[str]:
        app.tenant()
        query = app.query("limit", "next")
        limit = page_limit(query.get("limit"))
        after = decode_cursor(query.get("next"), lambda key: re.match(AGENT_NAME_PATTERN, key))
        found, following = operator.agents(limit, after)
        return listing(found, limit, encode_cursor(following) if following else None)

    @resolver.get("/v1/queues")
    def queues() -> Response[str]:
        app.query()
        found = operator.queues(app.tenant())
        return listing(found, len(found), None)


def build(settings: Settings, clients: Clients, clock: Callable[[], float]) -> Application:
    """Compose the function from its settings, its clients and a clock in Unix seconds."""
    app = Application(Caller(settings.tenants), Logger())
    routes(app, Operator(settings, clients, clock))
    return app


@cache
def _application() -> Application:
    return once(lambda: build(Settings.model_validate(dict(os.environ)), Clients(), time.time))


def main(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Answer an event of API Gateway's HTTP API (payload format 2.0)."""
    return _application().handle(event, context)
