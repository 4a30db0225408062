"""Send messages for schedules that are due within moments, each minute; requeue calls it.

Schedules have partitions of the index `wake` of their own, and seconds of their own: ten thousand
that are due at midnight leave the jobs that are due the rest of the minute, and what is not reached
is sent by the next run. A message that is sent twice, or for a schedule that has moved on, is
discarded by its reader (`joblane.service.schedule.firing`).
"""

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from typing import Final

from joblane.aws.schedule.due_queue import DueMessage, DueQueue
from joblane.aws.schedule.schedules import SHARDS, ScheduleStore
from joblane.schedule.record import Schedule

PAGE: Final = 100
"""Schedules per page: the maximum of one BatchGetItem."""


@dataclass(frozen=True)
class DueSweep:
    """Sends messages for schedules."""

    schedules: ScheduleStore
    queue: DueQueue
    now_ms: Callable[[], int]
    _: KW_ONLY
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    def run(self, left_s: Callable[[], float]) -> int:
        """Send for all that are due, shards side by side; `left_s` returns the seconds left.

        Returns how many were sent. Raises Unavailable.
        """
        with self.pool(SHARDS) as pool:
            return sum(pool.map(lambda number: self._shard(number, left_s), range(SHARDS)))

    def _shard(self, number: int, left_s: Callable[[], float]) -> int:
        sent, after, until_ms = 0, None, self.now_ms()
        while left_s() > 0:
            found, after = self.schedules.due_page(number, until_ms, limit=PAGE, after=after)
            now_ms = self.now_ms()  # delays count from here: ten thousand take many seconds
            sent += len(found) - self.queue.send(message_of(each, now_ms) for each in found)
            if after is None:
                break
        return sent


def message_of(schedule: Schedule, now_ms: int) -> tuple[DueMessage, int]:
    """The message of a schedule, and its delay in seconds."""
    starts_ms = schedule.starts_ms
    if starts_ms is None or schedule.due_ms is None:
        return DueMessage(schedule.tenant, schedule.name, 0), 0
    delay_s = max(0, round((starts_ms - now_ms) / 1000))
    if schedule.queued_ms is not None and delay_s > 0:
        return DueMessage(schedule.tenant, schedule.name, 0), 0
    return DueMessage(schedule.tenant, schedule.name, schedule.due_ms), delay_s
