"""Which agents a fleet can spare although they have jobs; pure.

Messages spread over all agents that poll, so under a steady load no agent is ever without a job for
`idle_s`, and a fleet that once was large stays large. The scaler therefore names surplus agents:
they take no new jobs, and end their instances when their jobs have ended.
"""

from collections.abc import Sequence

from joblane.fleet.capacity import ServingAgent

ONE_IN = 10
"""The part of the serving agents that one call names, at least one."""

BUSY_PERCENT = 70
"""The most of the other agents' slots that may be busy afterwards, with all jobs of now."""


def roomy(serving: Sequence[ServingAgent]) -> bool:
    """Whether at least half of the slots are free. Not without agents."""
    running = sum(agent.running for agent in serving)
    return bool(serving) and running <= sum(agent.free for agent in serving)


def surplus(
    serving: Sequence[ServingAgent],
    *,
    least: int,
    roomy_since_ms: int | None,
    idle_s: int | None,
    now_ms: int,
) -> list[ServingAgent]:
    """Choose the agents that a fleet can spare, those with the fewest jobs first.

    None unless the fleet has been `roomy` with nothing waiting since `roomy_since_ms` for `idle_s`
    seconds, and never so many that fewer than `least`, the group's smallest size, or fewer than one
    would be left.
    """
    if idle_s is None or roomy_since_ms is None or now_ms - roomy_since_ms < idle_s * 1000:
        return []
    running = sum(agent.running for agent in serving)
    slots = running + sum(agent.free for agent in serving)
    most = min(max(1, len(serving) // ONE_IN), len(serving) - max(least, 1))
    chosen: list[ServingAgent] = []
    for agent in sorted(serving, key=lambda agent: (agent.running, agent.name)):
        slots -= agent.running + agent.free
        if len(chosen) >= most or running * 100 > slots * BUSY_PERCENT:
            break
        chosen.append(agent)
    return chosen
