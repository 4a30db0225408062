"""Share out the `jobs_running` of tenants among the agents, as `shares.py` does for a queue.

An agent has a share only of limits that the agents together could exceed. While a tenant may run
as many jobs as there are threads, nothing is stored for it, and its jobs are not held up.

An agent that is not counted yet runs a hundredth of a limit: 100 jobs of a tenant with the default
of 10,000. So agents of usual size start at full speed, a hundred of them at most double a limit
until they are counted, and a limit below 100 is kept by those that have a share.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from joblane.queue.access import open_queues
from joblane.queue.shares import Shares, share_out
from joblane.state.lease import Heartbeat

UNCOUNTED = 100
"""An agent that is not counted yet has one part in this many of each limit."""


def paused_tenant(tenant: str) -> str:
    """What is said of a job whose tenant may run none: its limit is 0, which pauses it."""
    return (
        f"tenant {tenant} is paused: joblane.toml has tenants.{tenant}.limits.jobs_running = 0, so "
        "none of its jobs starts"
    )


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many jobs of a tenant one agent may run at once."""

    limit: int
    """The `jobs_running` of the tenant, over all agents."""
    share: int
    """The agent's part of it."""


@dataclass(frozen=True, slots=True)
class TenantShare:
    """The limit of one tenant, shared out."""

    limit: int
    shares: Shares


@dataclass(frozen=True, slots=True)
class TenantShares:
    """The limits of all tenants, as every agent reads them."""

    settled_ms: int = 0
    """Agents that started after this were not counted."""
    members: str = ""
    """Fingerprint of the agents that were counted."""
    tenants: Mapping[str, TenantShare] = field(default_factory=dict)
    """Tenants whose limit the counted agents could exceed."""

    def of(self, tenant: str, limit: int, agent: str, since_ms: int) -> Allowance:
        """Return what an agent that started at `since_ms` may run of a tenant's jobs.

        `limit` is the tenant's limit as the agent knows it; a newer one is in the shares.
        """
        known = self.tenants.get(tenant)
        limit = limit if known is None else known.limit
        if since_ms > self.settled_ms:
            return Allowance(limit, limit // UNCOUNTED)
        return Allowance(limit, limit if known is None else known.shares.of(agent, since_ms))

    def same(self, other: "TenantShares") -> bool:
        """Whether these are the same limits for the same agents."""
        return (self.members, _parts(self)) == (other.members, _parts(other))


def _parts(found: TenantShares) -> dict[str, tuple[int, str]]:
    return {name: (each.limit, each.shares.members) for name, each in found.tenants.items()}


def share_out_tenants(
    limits: Mapping[str, int],
    queues: Mapping[str, Iterable[str]],
    agents: Sequence[Heartbeat],
    now_ms: int,
) -> TenantShares:
    """Share out the limits of tenants among the live `agents`.

    `limits` has the `jobs_running` of every tenant, `queues` the tenants of every queue, none for
    all. A tenant's limit goes to the agents that serve a queue which it may use.
    """
    everybody = share_out("", 0, ((agent.name, agent.counted_since_ms) for agent in agents), now_ms)
    most = max((agent.threads for agent in agents), default=0)
    tenants = {}
    for tenant, limit in limits.items():
        usable = frozenset(open_queues(queues, tenant))
        serving = [(a.name, a.counted_since_ms) for a in agents if not usable.isdisjoint(a.queues)]
        counted = sum(since_ms <= everybody.settled_ms for _, since_ms in serving)
        if limit // max(1, counted) < most:
            tenants[tenant] = TenantShare(limit, share_out(tenant, limit, serving, now_ms))
    return TenantShares(everybody.settled_ms, everybody.members, tenants)
