"""What the jobs of one agent take: slots, by queue, memory, disk, and their tenants' shares."""

import asyncio
from collections import Counter

from ec2_agent.messages.delivery import Delivery, message_of
from ec2_agent.serving.disk import Disk
from joblane.job.disk import OUTPUT_MB
from joblane.job.head import Head
from joblane.job.spec import DEFAULT_MEMORY_MB

UNLIMITED_MB = 1 << 40
"""More than any jobs ask for."""


class Memory:
    """The memory that jobs of one agent may have, in MiB."""

    def __init__(self, total_mb: int | None, most_mb: int | None = None) -> None:
        """`total_mb` is for all jobs, None if jobs have no limits; `most_mb` for one job."""
        self.total_mb = UNLIMITED_MB if total_mb is None else total_mb
        self.most_mb = self.total_mb if most_mb is None else min(most_mb, self.total_mb)
        """The most that one job may have."""
        self.free_mb = self.total_mb
        """Below zero while a job waits for what it has reserved."""

    @property
    def jobs(self) -> int:
        """How many more jobs of the default size fit, at least one if all memory is free."""
        if self.free_mb >= self.total_mb:
            return max(1, self.free_mb // DEFAULT_MEMORY_MB)
        return self.free_mb // DEFAULT_MEMORY_MB


class Slots:
    """Counts what is taken, from a message's turn to its job's end."""

    def __init__(self, memory: Memory, changed: asyncio.Event, disk: Disk | None = None) -> None:
        """`changed` is set when something becomes free; without a `disk` none is limited."""
        self.memory = memory
        self.disk = disk or Disk()
        self._changed = changed
        self._by_queue: Counter[str] = Counter()
        self._by_tenant: Counter[str] = Counter()
        self.begun = 0
        """Slots taken so far, those of jobs that have ended as well."""

    def take(self, delivery: Delivery) -> None:
        """Take a slot, and the memory and disk that the job asks for, even if not free yet."""
        self._by_queue[delivery.queue] += 1
        self._by_tenant[_tenant(delivery)] += 1
        self.begun += 1
        self.memory.free_mb -= delivery.received.memory_mb
        self.disk.take(delivery)

    def take_more(self, memory_mb: int) -> None:
        """Take memory that a job asks for beyond what its message says."""
        self.memory.free_mb -= memory_mb

    def release(self, delivery: Delivery, more_mb: int = 0) -> None:
        """Free what a job took, `more_mb` of it beyond its message."""
        self._by_queue[delivery.queue] -= 1
        tenant = _tenant(delivery)
        self._by_tenant[tenant] -= 1
        if not self._by_tenant[tenant]:  # tenants come and go
            del self._by_tenant[tenant]
        self.memory.free_mb += delivery.received.memory_mb + more_mb
        self.disk.release(delivery)
        self._changed.set()

    def note_started(self, head: Head, delivery: Delivery) -> None:
        """Free the disk that a job does not write to any more once it was started.

        Its standard input stays: a cache may give the file up, and it is there until the job ends.
        Of other input files the job has copies. Its bundle is there, and no cache gives it up.
        """
        reads = head.spec.stdin_file is not None
        kept_mb, cached_mb = (head.files_mb, 0) if reads else (0, head.files_mb)
        self.disk.note_started(delivery, kept_mb + OUTPUT_MB, cached_mb)
        self._changed.set()

    @property
    def taken(self) -> int:
        """Slots taken, of all queues."""
        return self._by_queue.total()

    def taken_of(self, queue: str) -> int:
        """Slots that jobs of a queue take."""
        return self._by_queue[queue]

    def taken_by_queue(self) -> dict[str, int]:
        """Slots in use, for the heartbeat (`Heartbeat.taken`): no queue that uses none."""
        return {queue: count for queue, count in self._by_queue.items() if count > 0}

    def taken_of_tenant(self, tenant: str) -> int:
        """Slots that jobs of a tenant take."""
        return self._by_tenant[tenant]


def _tenant(delivery: Delivery) -> str:
    message = message_of(delivery)
    return "" if message is None else message.tenant
