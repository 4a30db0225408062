"""Share out the `cluster_threads` of queues among the live agents that are not cordoned."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from joblane.aws.fleet.agents import AgentStore
from joblane.aws.queue.settings import SettingsStore
from joblane.errors import Changed
from joblane.queue.shares import Shares, share_out
from joblane.state.lease import Heartbeat


@dataclass(frozen=True)
class ThreadShares:
    """Shares out the `cluster_threads` of queues among the live agents."""

    settings: SettingsStore
    agents: AgentStore

    def among_all(self, queue: str, cluster_threads: int | None, now_ms: int) -> Shares | None:
        """Share out one queue's limit; reads every agent. None without a limit."""
        if cluster_threads is None:
            return None
        sharing = [row for row in self.agents.read_all() if row.shares_limits(now_ms)]
        return _share_out(queue, cluster_threads, sharing, now_ms)

    def refresh(self, queues: Iterable[str], sharing: Sequence[Heartbeat], now_ms: int) -> int:
        """Share out again where agents have come or gone; returns the number of such queues.

        `sharing` are the agents that get a share. Reads the settings of `queues`.
        """
        found = self.settings.get_all(queues)
        changed = 0
        for queue, before in found.items():
            if before.cluster_threads is None:
                continue
            shares = _share_out(queue, before.cluster_threads, sharing, now_ms)
            if before.shares is not None and before.shares.members == shares.members:
                continue
            try:
                self.settings.put_shares(queue, shares, before.version)
            except Changed:
                continue  # by an operator's request, which shares them out as well
            changed += 1
        return changed


def _share_out(
    queue: str, cluster_threads: int, sharing: Iterable[Heartbeat], now_ms: int
) -> Shares:
    agents = ((row.name, row.counted_since_ms) for row in sharing if queue in row.queues)
    return share_out(queue, cluster_threads, agents, now_ms)
