"""Share out the `cluster_threads` of a queue among its agents.

Each agent gets floor(cluster_threads / agents). The remainder goes, one thread
each, to consecutive agents in the order of their names. The first of them depends on the queue's
name, so that several queues do not all favour the same agent. 10 over 3 agents is 4, 3, 3; 2 over
3 is 1, 1, 0.

The size of the result does not depend on the number of agents, because every agent reads it every
20 s: the share of each, and the first and the last name of those that get one more. An agent
computes its own share from it without knowing the others.
"""

import hashlib
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

SETTLE_S = 30
"""An agent is counted from this age on: its first heartbeat is written within 21 s
(`clients.QUICK`). Shares computed before that heartbeat must not leave out an agent that already
counts itself."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of one queue's threads."""

    each: int
    """Minimum share of an agent."""
    first: str | None
    last: str | None
    """Agents from `first` to `last` get one more, in the cyclic order of names. None: no agent
    does."""
    settled_ms: int
    """Agents that started after this were not counted, and get nothing."""
    members: str
    """Fingerprint of the agents that were counted."""

    def of(self, agent: str, since_ms: int) -> int:
        """Return the share of an agent that started at `since_ms` (Unix milliseconds)."""
        if since_ms > self.settled_ms:
            return 0
        return self.each + self._gets_one_more(agent)

    def _gets_one_more(self, agent: str) -> bool:
        if self.first is None or self.last is None:
            return False
        if self.first <= self.last:
            return self.first <= agent <= self.last
        return agent >= self.first or agent <= self.last


def share_out(
    queue: str, cluster_threads: int, agents: Iterable[tuple[str, int]], now_ms: int
) -> Shares:
    """Share out among `agents`, each a name and when it started (Unix milliseconds).

    Those that have not been there for `SETTLE_S` are left out.
    """
    settled_ms = now_ms - SETTLE_S * 1000
    counted = sorted((name, since) for name, since in agents if since <= settled_ms)
    text = "\n".join(f"{name} {since}" for name, since in counted)
    members = hashlib.sha256(text.encode()).hexdigest()[:16]
    each, more = divmod(cluster_threads, len(counted)) if counted else (0, 0)
    first = last = None
    if more:
        start = zlib.crc32(queue.encode()) % len(counted)
        first = counted[start][0]
        last = counted[(start + more - 1) % len(counted)][0]
    return Shares(each, first, last, settled_ms, members)
