"""Read the activity of a queue as points of a chart, and store the hours of a day on the way."""

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass

from joblane.aws.queue.counters import CounterStore
from joblane.contract.problems import NotFound
from joblane.contract.status import QueueActivity, queue_activity
from joblane.deployment.names import PLATFORM
from joblane.errors import Unavailable
from joblane.queue.access import open_queues
from joblane.queue.activity import Tally
from joblane.queue.rollup import HOUR, Chart, Span, closed_hours, roll_up, runs, spread
from joblane.service.log import Log

AT_ONCE = 8
"""Tenants that are read at once."""


@dataclass(frozen=True)
class ActivityReader:
    """Reads the points of a queue's activity."""

    queues: Mapping[str, Iterable[str]]
    """Tenants that may use each queue; none listed means all."""
    everyone: Collection[str]
    """All tenants."""
    counters: CounterStore
    now_ms: Callable[[], int]
    """Returns Unix milliseconds."""
    log: Log
    _: KW_ONLY
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    def read_activity(self, tenant: str, queue: str, span: Span) -> QueueActivity:
        """Read the points of a tenant's jobs, or of all for the role platform.

        Raises NotFound for a queue that the tenant may not use.
        """
        if queue not in open_queues(self.queues, tenant):
            raise NotFound("there is no such queue")
        now_ms = self.now_ms()
        chart = Chart.until(span, now_ms)
        tenants = self.everyone if tenant == PLATFORM else (tenant,)

        def read(tenant: str) -> dict[int, Tally]:
            if span == "1h":
                return self.counters.read(tenant, queue, chart.first)
            return self._day(tenant, queue, chart.first, now_ms // 60_000)

        total: dict[int, Tally] = {}
        with self.pool(AT_ONCE) as pool:
            for minutes in pool.map(read, tenants):
                for minute, tally in minutes.items():
                    total.setdefault(minute, Tally()).add(tally)
        return queue_activity(queue, span, chart, total, now_ms)

    def _day(self, tenant: str, queue: str, first: int, now_minute: int) -> dict[int, Tally]:
        """Read the stored hours of a day, and the minutes of all others.

        Those of them that can no longer change are stored.

            reader A                     counters                   reader B
            no hour 7  <------------
            its minutes  <----------
                                                           <------  no hour 7, its minutes
                                         hour 7            <------  stores it
            stores it  ------------->    hour 7, the same
        """
        closed = closed_hours(first, now_minute)
        stored = self.counters.hours(tenant, queue, closed.start)
        missing = [hour for hour in closed if hour not in stored]
        last = now_minute // HOUR
        minutes: dict[int, Tally] = {}
        for begin, end in runs([*missing, *range(closed.stop, last + 1)]):
            minutes |= self.counters.read(tenant, queue, begin * HOUR, end * HOUR + HOUR - 1)
        for hour in missing:
            self._store(tenant, queue, hour, roll_up(hour, minutes))
        for hour, tallies in stored.items():
            minutes |= spread(hour, tallies)
        return minutes

    def _store(self, tenant: str, queue: str, hour: int, tallies: tuple[Tally, ...]) -> None:
        try:
            self.counters.put_hour(tenant, queue, hour, tallies)
        except Unavailable:  # the next reader stores it
            self.log.exception("an hour of counters was not stored", tenant=tenant, queue=queue)
