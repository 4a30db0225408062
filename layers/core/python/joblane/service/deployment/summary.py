"""Summarize a deployment for a caller: agents, limits, links and prices."""

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass

from joblane.aws.fleet.agents import PER_SHARD, SHARDS, AgentStore
from joblane.aws.queue.usage import UploadStore, UsageStore
from joblane.contract.access import SCOPES
from joblane.contract.principal import Principal
from joblane.contract.status import (
    AgentCounts,
    Caller,
    JobCounts,
    LimitView,
    LinkView,
    PriceView,
    Summary,
)
from joblane.deployment.limits import LIMITS, Limit, Limits
from joblane.deployment.names import PLATFORM
from joblane.fleet.serving import Serving
from joblane.formats.times import rfc3339
from joblane.queue.access import open_queues
from joblane.queue.usage import DAY_MS, MEBIBYTE, Accounts
from joblane.state.lease import Heartbeat


@dataclass(frozen=True)
class Summaries:
    """Summarizes the deployment, in 16 reads of agents and two of the tenant's figures."""

    queues: Mapping[str, Iterable[str]]
    """Tenants that may use each queue; none listed means all."""
    limits: Limits
    agents: AgentStore
    usage: UsageStore
    uploads: UploadStore
    now_ms: Callable[[], int]
    """Returns Unix milliseconds."""
    _: KW_ONLY
    links: tuple[LinkView, ...]
    prices: Mapping[str, PriceView]
    """By queue."""
    version: str
    deployment: str
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    def summarize(self, who: Principal) -> Summary:
        """Summarize what the caller may see."""
        now_ms = self.now_ms()
        tenant = None if who.tenant == PLATFORM else who.tenant
        queues = frozenset(open_queues(self.queues, who.tenant))
        with self.pool(SHARDS) as pool:
            agents, more = self.agents.sample(PER_SHARD, pool)
        accounts = None if tenant is None else self.usage.accounts(tenant)[0]
        return Summary(
            caller=Caller(
                kind=who.kind,
                name=who.name,
                tenant=tenant,
                role=who.role,
                scopes=tuple(scope for scope in SCOPES if scope in who.scopes),
            ),
            now=rfc3339(now_ms),
            jobs=None if accounts is None else count_jobs(accounts),
            limits=() if tenant is None else tuple(self._limits(tenant, accounts, now_ms)),
            agents=count_agents(
                [row for row in agents if queues & {*row.queues}], queues, now_ms, more=more
            ),
            links=self.links,
            prices={queue: price for queue, price in self.prices.items() if queue in queues},
            version=self.version,
            deployment=self.deployment,
        )

    def _limits(self, tenant: str, accounts: Accounts | None, now_ms: int) -> Iterable[LimitView]:
        known: dict[Limit, int] = {}
        if accounts is not None:
            figures = accounts.figures.present
            known["jobs_waiting"] = figures.waiting
            known["output_mb_per_day"] = figures.output_mb(now_ms)
            known["output_files_mb_per_day"] = figures.file_mb(now_ms)
            if accounts.counted_ms is not None:
                known["jobs_running"] = accounts.jobs.present.counts.running
        uploaded = self.uploads.today(tenant, now_ms // DAY_MS)
        known["upload_mb_per_day"] = uploaded // MEBIBYTE
        limits = self.limits.of(tenant)
        for limit in LIMITS:
            allowed: int = getattr(limits, limit)
            yield LimitView(limit=limit, allowed=allowed, current=known.get(limit))


def count_agents(
    agents: Collection[Heartbeat], queues: Iterable[str], now_ms: int, *, more: bool
) -> AgentCounts:
    """Count agents and their slots, and say what those of each of `queues` lack.

    `more` says that there are agents which are not among them.
    """
    serving = Serving.of(agents, now_ms)
    lacks = {} if more else {queue: serving.lacked(queue) for queue in sorted(queues)}
    alive = [row for row in agents if row.alive(now_ms)]
    taking = [row for row in alive if row.mode is None and row.trouble is None]
    return AgentCounts(
        alive=len(alive),
        slots=sum(row.threads for row in alive),
        running=sum(row.running for row in alive),
        free=sum(max(0, row.threads - row.running) for row in taking),
        troubled=sum(row.trouble is not None for row in alive),
        cordoned=sum(row.mode is not None for row in alive),
        more=more,
        lacks={queue: names for queue, names in lacks.items() if names},
    )


def count_jobs(accounts: Accounts) -> JobCounts | None:
    """Return the jobs of a tenant by state; None if they were never counted."""
    if accounts.counted_ms is None:
        return None
    counted_at = rfc3339(accounts.counted_ms)
    return JobCounts(counted_at=counted_at, by_state=accounts.jobs.present.counts.by_state())
