"""Routes of agents, for the role platform."""

from typing import Final

from joblane.contract.agent_queries import AgentsQuery
from joblane.contract.agents import AgentAsked, AgentDetail, AgentPage, LogLevelInput
from joblane.contract.route import Route
from joblane.contract.route_kinds import change

_AGENT = "/v1/agents/{agent}"

AGENT_ROUTES: Final = (
    Route(
        "listAgents",
        "GET",
        "/v1/agents",
        ("platform.read",),
        "List agents",
        AgentPage,
        query=AgentsQuery,
    ),
    Route(
        "getAgent",
        "GET",
        _AGENT,
        ("platform.read",),
        "Show an agent and its running jobs",
        AgentDetail,
    ),
    change(
        "drainAgent",
        _AGENT,
        "drain",
        "platform.mutate",
        "Drain an agent",
        AgentAsked,
        conditional=False,
    ),
    change(
        "cordonAgent",
        _AGENT,
        "cordon",
        "platform.mutate",
        "Cordon an agent: it takes no more jobs, and stays",
        AgentAsked,
        conditional=False,
    ),
    change(
        "uncordonAgent",
        _AGENT,
        "uncordon",
        "platform.mutate",
        "Undo a cordon: the agent takes jobs again",
        AgentAsked,
        conditional=False,
    ),
    change(
        "setAgentLogLevel",
        _AGENT,
        "log-level",
        "platform.mutate",
        "Set the level of an agent's log for a while",
        AgentAsked,
        conditional=False,
        body=LogLevelInput,
    ),
)
