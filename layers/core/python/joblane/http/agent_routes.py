"""The routes of agents."""

import re
from http import HTTPStatus

from aws_lambda_powertools.event_handler.api_gateway import Response

from joblane.contract.agent_queries import AgentsQuery
from joblane.contract.agents import AgentAsked, AgentView, LogLevelInput
from joblane.contract.route_tables.agents import AGENT_ROUTES
from joblane.deployment.log_level import DEFAULT_LEVEL
from joblane.deployment.names import AGENT_NAME_PATTERN
from joblane.formats.times import rfc3339
from joblane.http.answers import listing, page_start, success
from joblane.http.application import Application
from joblane.service.fleet.agents import Agents


def agent_routes(app: Application, agents: Agents) -> None:
    """Bind the routes that list and show agents, and send them commands, for the role platform."""
    app.add(AGENT_ROUTES)

    @app.route("GET /v1/agents")
    def page() -> Response[str]:
        query = app.parameters(AgentsQuery)
        after = page_start(query, lambda key: re.match(AGENT_NAME_PATTERN, key))
        found, following = agents.page(query.limit, after, query.fact)
        return listing(found, query, following)

    @app.route("GET /v1/agents/{agent}")
    def one(agent: str) -> Response[str]:
        return success(agents.one(agent))

    @app.route("POST /v1/agents/{agent}/drain")
    def drain(agent: str) -> Response[str]:
        note = f"{agent} takes no new jobs, hands back those that do not end in time, and stops"
        return accept(agents.ask(agent, "drain"), note)

    @app.route("POST /v1/agents/{agent}/cordon")
    def cordon(agent: str) -> Response[str]:
        note = f"{agent} takes no new jobs and stays; those that run continue"
        return accept(agents.ask(agent, "cordon"), note)

    @app.route("POST /v1/agents/{agent}/uncordon")
    def uncordon(agent: str) -> Response[str]:
        return accept(agents.ask(agent, "uncordon"), f"{agent} takes jobs again")

    @app.route("POST /v1/agents/{agent}/log-level")
    def set_log_level(agent: str) -> Response[str]:
        wanted = app.read(LogLevelInput)
        until_ms = app.now_ms() + wanted.for_s * 1000
        view = agents.set_log_level(agent, wanted.level, until_ms)
        note = (
            f"{agent} writes its log from level {wanted.level} on until {rfc3339(until_ms)}, "
            f"and then from {DEFAULT_LEVEL} on"
        )
        return accept(view, note)

    def accept(view: AgentView, note: str) -> Response[str]:
        return success(AgentAsked(**view.model_dump(), note=note), HTTPStatus.ACCEPTED)
