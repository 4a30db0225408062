"""Read the statistics of queues, read their settings and change them.

Lengths of lanes and settings belong to the queue: every tenant that may use a shared queue sees
them. Settings are changed by the role platform, and by the operators of a tenant whose queue it is
alone. Activity is counted by tenant: a tenant sees its own, the role platform the sum.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from functools import partial, reduce

from joblane.aws.queue.counters import CounterStore
from joblane.aws.queue.lanes import Lanes
from joblane.aws.queue.message_ages import Age, MessageAges
from joblane.aws.queue.moves import QueueMoveStore
from joblane.aws.queue.settings import SettingsStore
from joblane.aws.queue.usage import UsageStore
from joblane.contract.problems import Forbidden, NotFound, VersionChanged
from joblane.contract.queues import (
    LaneView,
    OpenJobs,
    QueueView,
    RetiredView,
    SettingsInput,
    SettingsView,
    activity,
    oldest_job,
    open_jobs,
    retired_view,
    settings_view,
)
from joblane.deployment.names import LANES, PLATFORM, Lane
from joblane.errors import Changed, Unavailable
from joblane.formats.times import rfc3339
from joblane.queue.access import may_change, open_queues
from joblane.queue.activity import Tally, oldest_minute
from joblane.queue.backlog import Backlog
from joblane.queue.retired import Retired
from joblane.queue.settings import QueueSettings
from joblane.service.log import Log
from joblane.service.queue.oldest import OldestJobs
from joblane.service.queue.thread_shares import ThreadShares

AT_ONCE = 8
"""Threads that read statistics: each waits for AWS most of the time."""


@dataclass(frozen=True)
class QueueStatistics:
    """Reads statistics of queues: six requests to SQS a queue, one to CloudWatch for all."""

    lanes: Lanes
    counters: CounterStore
    usage: UsageStore
    ages: MessageAges
    oldest: OldestJobs
    log: Log
    _: KW_ONLY
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    def views(
        self,
        tenant: str,
        tenants: Collection[str],
        settings: Mapping[str, SettingsView],
        deadlines: Mapping[str, float],
        retired: Mapping[str, RetiredView | None],
        now_ms: int,
    ) -> tuple[QueueView, ...]:
        """Show a tenant the queues of `settings`, with the figures of `tenants` together."""
        ages = self._ages()
        with self.pool(AT_ONCE) as pool:
            backlog = read_backlog(self.usage, tenants, pool)
            counters = pool.map(
                lambda queue: self._activity(tenants, queue, oldest_minute(now_ms)), settings
            )
            places = [(queue, lane) for queue in settings for lane in LANES]
            found = pool.map(partial(self._lane, ages), *zip(*places, strict=True))
            jobs = {} if backlog is None else self._jobs(tenant, backlog, settings, now_ms)
            lanes = dict(zip(places, found, strict=True))
            return tuple(
                QueueView(
                    name=queue,
                    lanes=tuple(lanes[queue, lane] for lane in LANES),
                    settings=settings[queue],
                    deadline_s=deadlines.get(queue),
                    retired=retired[queue],
                    jobs=jobs.get(queue),
                    activity=tuple(activity(minutes, now_ms)),
                )
                for queue, minutes in zip(settings, counters, strict=True)
            )

    def _jobs(
        self, tenant: str, backlog: Backlog, queues: Iterable[str], now_ms: int
    ) -> Mapping[str, OpenJobs]:
        oldest = self.oldest.find(tenant, backlog, [("queue", queue) for queue in queues])
        return {
            queue: open_jobs(backlog.queue(queue), oldest_job(oldest.get(("queue", queue)), now_ms))
            for queue in queues
        }

    def _activity(self, tenants: Collection[str], queue: str, since: int) -> Mapping[int, Tally]:
        total: dict[int, Tally] = {}
        for tenant in tenants:
            for minute, tally in self.counters.read(tenant, queue, since).items():
                total.setdefault(minute, Tally()).add(tally)
        return total

    def _ages(self) -> Mapping[str, Age]:
        try:
            return self.ages.ages()
        except Unavailable:
            self.log.exception("ages of messages are unknown")
            return {}

    def _lane(self, ages: Mapping[str, Age], queue: str, lane: Lane) -> LaneView:
        lengths = self.lanes.lane(queue, lane).lengths()
        age = ages.get(self.lanes.name(queue, lane))
        return LaneView(
            lane=lane,
            visible=lengths.visible,
            in_flight=lengths.in_flight,
            delayed=lengths.delayed,
            oldest_message_s=None if age is None else age.seconds,
            oldest_message_at=None if age is None else rfc3339(age.at_ms),
        )


def read_backlog(usage: UsageStore, tenants: Collection[str], pool: Executor) -> Backlog | None:
    """Read what waits and runs of these tenants together; None if it was never counted."""
    found = [accounts for accounts, _ in pool.map(usage.accounts, tenants) if accounts is not None]
    return reduce(Backlog.plus, (each.jobs.present.backlog for each in found)) if found else None


@dataclass(frozen=True)
class Queues:
    """Shows queues to a tenant or the role platform, and changes their settings."""

    tenants: Mapping[str, tuple[str, ...]]
    """Tenants that may use each queue; none listed means all."""
    everyone: Collection[str]
    """All tenants."""
    threads: Mapping[str, int]
    """What joblane.toml declares for each queue."""
    deadlines: Mapping[str, float]
    """Default deadlines of queues that have one, in seconds."""
    retired: Retired
    store: SettingsStore
    moves: QueueMoveStore
    shares: ThreadShares
    statistics: QueueStatistics
    now_ms: Callable[[], int]

    def show_all(self, tenant: str) -> tuple[QueueView, ...]:
        """Show the queues that a tenant may use."""
        return self._views(tenant, open_queues(self.tenants, tenant))

    def one(self, tenant: str, queue: str) -> QueueView:
        """Show one queue. Raises NotFound."""
        self.require(tenant, queue)
        (view,) = self._views(tenant, [queue])
        return view

    def settings(self, tenant: str, queue: str) -> SettingsView:
        """Show a queue's settings. Raises NotFound."""
        self.require(tenant, queue)
        return self._view(self.store.get(queue), tenant, queue)

    def change_settings(
        self, tenant: str, who: str, queue: str, wanted: SettingsInput, version: int | None
    ) -> SettingsView:
        """Replace a queue's settings of `version`, or of any version if that is None.

        `cluster_threads` is shared out at once, so that agents apply the new limit with their
        next read. Raises Forbidden, NotFound and VersionChanged.
        """
        self.require_change(tenant, queue)
        over = self.store.get(queue).version if version is None else version
        now_ms = self.now_ms()
        after = QueueSettings(
            run_jobs=wanted.run_jobs,
            threads=wanted.threads,
            cluster_threads=wanted.cluster_threads,
            version=over + 1,
            changed_ms=now_ms,
            changed_by=who,
            tenant=tenant,
            shares=self.shares.among_all(queue, wanted.cluster_threads, now_ms),
        )
        try:
            self.store.put(queue, after, over=over)
        except Changed:
            raise VersionChanged(
                "the settings have changed since you read them; read them again and decide again",
            ) from None
        return self._view(after, tenant, queue)

    def require(self, tenant: str, queue: str) -> None:
        """Raise NotFound for a queue that the tenant may not use."""
        if queue not in open_queues(self.tenants, tenant):
            raise NotFound("there is no such queue")

    def require_change(self, tenant: str, queue: str) -> None:
        """Raise NotFound as `require`, and Forbidden for a queue that is not the tenant's alone."""
        self.require(tenant, queue)
        if not may_change(self.tenants[queue], tenant):
            raise Forbidden(
                f"this needs the role {PLATFORM}: other tenants may use the queue {queue}, too",
            )

    def _view(self, settings: QueueSettings, tenant: str, queue: str) -> SettingsView:
        return settings_view(settings, self.threads[queue], tenant, self.tenants[queue])

    def _views(self, tenant: str, queues: Sequence[str]) -> tuple[QueueView, ...]:
        if not queues:
            return ()
        found = self.store.get_all(queues)
        settings = {queue: self._view(found[queue], tenant, queue) for queue in queues}
        moving = [queue for queue in queues if self.retired.get(queue) is not None]
        moves = self.moves.read(moving) if moving else {}
        retired = {queue: retired_view(queue, self.retired, moves.get(queue)) for queue in queues}
        counted = self.everyone if tenant == PLATFORM else (tenant,)
        return self.statistics.views(
            tenant, counted, settings, self.deadlines, retired, self.now_ms()
        )
