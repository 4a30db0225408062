"""Whether an agent could start one more job of a queue and a tenant, and what keeps it from it."""

from dataclasses import dataclass, replace
from enum import Enum, auto

from joblane.job.head import Head
from joblane.state.lease import DiskAsk, Heartbeat
from joblane.why.situation import Agents, Counted, Queue, TenantLimit

_NONE = Counted(0, 0)


class Obstacle(Enum):
    """What keeps an agent from starting another job."""

    SLOTS = auto()
    THREADS = auto()
    SHARE = auto()
    """Of the queue's `cluster_threads`."""
    TENANT = auto()
    """Its share of the tenant's `jobs_running`."""
    DISK = auto()
    """What its disk has free for more jobs."""


@dataclass(frozen=True, slots=True)
class QueueCapacity:
    """The limits that agents apply to a job: those of its queue and tenant, and of their disks."""

    head: Head
    queue: Queue
    agents: Agents
    limits: TenantLimit | None

    @property
    def threads(self) -> int:
        """Most jobs of the queue that an agent runs at once."""
        own = self.queue.settings.threads
        return self.queue.threads if own is None else own

    def get_count(self, row: Heartbeat) -> Counted:
        """The jobs of an agent; none if they were not counted, since no limit asks for it."""
        return (self.agents.counted or {}).get(row.name, _NONE)

    def obstacle(self, row: Heartbeat) -> Obstacle | None:
        """What keeps an agent that takes jobs from starting another one; None: nothing."""
        if row.running >= row.threads:
            return Obstacle.SLOTS
        cap = self._cap(row)
        if self.get_count(row).of_queue >= cap:
            return Obstacle.THREADS if cap == self.threads else Obstacle.SHARE
        if self.get_count(row).of_tenant >= self._share(row):
            return Obstacle.TENANT
        return None if self.short_disk(row) is None else Obstacle.DISK

    def short_disk(self, row: Heartbeat) -> DiskAsk | None:
        """What the job asks of a disk of an agent that has too little free; None: nothing."""
        work_mb = 0 if "disk_mb" in row.lacks else self.head.work_mb
        asks = row.disk_asks(self.head.own_disk_mb, work_mb)
        return next((ask for ask in asks if ask.asked_mb > ask.has.free_mb), None)

    def room(self, row: Heartbeat) -> int:
        """How many more jobs an agent may start."""
        if self.short_disk(row) is not None:
            return 0
        return max(
            0,
            min(
                row.threads - row.running,
                self._cap(row) - self.get_count(row).of_queue,
                self._share(row) - self.get_count(row).of_tenant,
            ),
        )

    def counts_jobs(self, row: Heartbeat) -> bool:
        """Whether a limit below its free slots applies, so that its jobs must be counted."""
        return row.running < row.threads and row.threads > min(self._cap(row), self._share(row))

    def is_new(self, row: Heartbeat, kind: Obstacle) -> bool:
        """Whether an agent came after a limit was shared out, so that it has no share of it yet."""
        if kind is Obstacle.SHARE:
            shares = self.queue.settings.shares
            return shares is not None and row.counted_since_ms > shares.settled_ms
        return (
            kind is Obstacle.TENANT
            and self.limits is not None
            and row.counted_since_ms > self.limits.shares.settled_ms
        )

    def _cap(self, row: Heartbeat) -> int:
        """As the agent applies it while the queue is not paused: a pause is a reason of its own."""
        settings = replace(self.queue.settings, run_jobs=True)
        return settings.cap(self.queue.threads, row.name, row.counted_since_ms)

    def _share(self, row: Heartbeat) -> int:
        if self.limits is None:
            return row.threads
        most = self.limits.jobs_running
        return self.limits.shares.of(self.head.tenant, most, row.name, row.counted_since_ms).share
