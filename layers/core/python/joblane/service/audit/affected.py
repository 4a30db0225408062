"""The tenants that an action of the role platform affects."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from joblane.aws.fleet.agents import AgentStore
from joblane.aws.job.jobs import JobStore
from joblane.deployment.names import AGENT_NAME_PATTERN


@dataclass(frozen=True)
class AffectedTenants:
    """Finds the tenants whose audit trail shows an action of the role platform."""

    tenants: Collection[str]
    """All tenants."""
    queues: Mapping[str, tuple[str, ...]]
    """Tenants that may use each queue; none listed means all."""
    agents: AgentStore
    jobs: JobStore

    def __call__(self, action: str, target: Mapping[str, str]) -> Collection[str]:
        """Return the tenants of a queue or an agent; all for any other action."""
        match action:
            case "settings":
                return self._of_queue(target["queue"])
            case "cordon" | "drain" | "log-level" | "uncordon":
                return self._of_agent(target["agent"])
            case _:
                return self.tenants

    def _of_queue(self, queue: str) -> Collection[str]:
        return (self.queues[queue] or self.tenants) if queue in self.queues else ()

    def _of_agent(self, name: str) -> Collection[str]:
        """Tenants that may use a queue that it serves, or that have a job on it."""
        row = self.agents.get(name) if re.match(AGENT_NAME_PATTERN, name) else None
        if row is None:
            return ()
        served = {tenant for queue in row.queues for tenant in self._of_queue(queue)}
        return served | {head.tenant for head in self.jobs.heads(row.jobs)}
