"""Share out what runs at once, the limits of queues and of tenants, among the live agents.

What these agents can give is written down with it, since all of them are read for the shares.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from joblane.aws.fleet.agents import AgentStore
from joblane.aws.queue.settings import SettingsStore
from joblane.fleet.serving import Serving
from joblane.queue.tenant_shares import share_out_tenants
from joblane.service.queue.thread_shares import ThreadShares


@dataclass(frozen=True)
class RunningShares:
    """Shares out limits again where agents have come or gone, and says what agents can give."""

    settings: SettingsStore
    agents: AgentStore
    queues: Mapping[str, Iterable[str]]
    """The tenants of each queue; none means all."""
    limits: Mapping[str, int]
    """The `jobs_running` of each tenant."""

    def refresh(self, now_ms: int) -> int:
        """Share out again; returns how many queues changed, one more if a tenant's share did.

        Reads the settings, and every agent.
        """
        agents = list(self.agents.read_all())
        self._note_serving(Serving.of(agents, now_ms).coarse(), now_ms)
        sharing = [row for row in agents if row.shares_limits(now_ms)]
        threads = ThreadShares(self.settings, self.agents)
        changed = threads.refresh(self.queues, sharing, now_ms)
        if not sharing:
            return changed  # nobody reads them, and an agent that comes is not counted yet
        before = self.settings.tenant_shares()
        shares = share_out_tenants(self.limits, self.queues, sharing, now_ms)
        if before is not None and before.same(shares):
            return changed
        return changed + self.settings.put_tenant_shares(shares)

    def _note_serving(self, serving: Serving, now_ms: int) -> None:
        """Write what the agents of each queue can give, if it has changed."""
        if self.settings.serving() != serving:
            self.settings.put_serving(serving, now_ms)
