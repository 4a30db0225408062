"""Share out the `cluster_threads` of queues among the live agents."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from joblane.aws.agents import AgentStore
from joblane.aws.settings import SettingsChanged, SettingsStore
from joblane.queue.shares import Shares, share_out


@dataclass(frozen=True)
class ThreadShares:
    """Shares out the `cluster_threads` of queues among the live agents."""

    settings: SettingsStore
    agents: AgentStore

    def among_all(self, queue: str, cluster_threads: int | None, now_ms: int) -> Shares | None:
        """Share out one queue's limit; reads every agent. None without a limit."""
        if cluster_threads is None:
            return None
        return self._shares({queue: cluster_threads}, now_ms)[queue]

    def refresh(self, queues: Iterable[str], now_ms: int) -> int:
        """Share out again where agents have come or gone; returns the number of such queues.

        Reads the settings of `queues`, and the agents only if one of them has a limit.
        """
        found = self.settings.get_all(queues)
        limits = {
            queue: settings.cluster_threads
            for queue, settings in found.items()
            if settings.cluster_threads is not None
        }
        changed = 0
        for queue, shares in self._shares(limits, now_ms).items():
            before = found[queue]
            if before.shares is not None and before.shares.members == shares.members:
                continue
            try:
                self.settings.put_shares(queue, shares, before.version)
            except SettingsChanged:
                continue  # by an operator's request, which shares them out as well
            changed += 1
        return changed

    def _shares(self, limits: Mapping[str, int], now_ms: int) -> dict[str, Shares]:
        if not limits:
            return {}
        alive = [row for row in self.agents.every() if row.alive(now_ms)]
        return {
            queue: share_out(
                queue,
                cluster_threads,
                ((row.name, row.since_ms) for row in alive if queue in row.queues),
                now_ms,
            )
            for queue, cluster_threads in limits.items()
        }
