"""Send the daily digest to the deployment's topic: what failed in a day, and what waits for long.

The figures are those that exist: counters of queues, lists of failed and dead jobs by tenant, and
the backlog. No table is scanned.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass

from joblane.aws.job.jobs import JobStore
from joblane.aws.notify.digests import DigestStore
from joblane.aws.queue.counters import CounterStore
from joblane.aws.queue.usage import UsageStore
from joblane.job.head import Head
from joblane.notify.digest import (
    EXAMINED,
    Day,
    Digest,
    EndedJob,
    Place,
    TimeOfDay,
    Waiting,
    latest_day,
)
from joblane.queue.access import open_queues
from joblane.queue.oldest import about
from joblane.service.log import Log
from joblane.service.queue.queues import read_backlog
from joblane.state.lifecycle import State

CLAIM_MS = 30_000
"""How long a call may take to send what it has claimed: longer than Lambda lets the function run,
20 s, and shorter than the minute after which Lambda calls a function again that failed."""

AT_ONCE = 8
"""Threads that read: each waits for AWS most of the time."""

_PAGE = 100  # heads of one BatchGetItem


@dataclass(frozen=True)
class DailyDigest:
    """Sends the digest of each day once, however often it is called."""

    deployment: str
    at: TimeOfDay
    tenants: Collection[str]
    """All tenants."""
    queues: Mapping[str, Iterable[str]]
    """Tenants that may use each queue; none listed means all."""
    jobs: JobStore
    counters: CounterStore
    usage: UsageStore
    sent: DigestStore
    publish: Callable[[str, str], None]
    """Publishes a subject and a text to the deployment's topic."""
    clock: Callable[[], float]
    """Returns Unix seconds."""
    log: Log
    _: KW_ONLY
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    def send(self) -> bool:
        """Send the digest that was due last, unless it was sent or has nothing to say.

        Returns whether it was sent by this call. Raises Changed while another call sends it, and
        Unavailable: Lambda calls again, a minute later.

            digest                       settings                   SNS
            reads all figures
            claim  ------------------>   due, claimed
            publish  ------------------------------------------->   message
            done  ------------------->   due, sent

        Killed before `publish`, the next call sends it. Killed between `publish` and `done`, the
        next call sends it once more: SNS's standard topics do not tell what they have taken, and a
        digest that comes twice is better than none.
        """
        day = latest_day(self.at, int(self.clock() * 1000))
        digest = self.read(day)
        if digest.is_empty:
            self.log.info("digest", sent=False)
            return False
        if not self.sent.claim(day.due, int(self.clock() * 1000), CLAIM_MS):
            self.log.info("digest", sent=False)
            return False
        self.publish(digest.subject, digest.text())
        self.sent.done(day.due)
        self.log.info("digest", sent=True)
        return True

    def read(self, day: Day) -> Digest:
        """Read what the digest of a day says."""
        places = [
            Place(tenant, queue)
            for tenant in self.tenants
            for queue in open_queues(self.queues, tenant)
        ]
        with self.pool(AT_ONCE) as pool:
            counts = pool.map(lambda place: self._failed(place, day), places)
            failed = {
                place: count for place, count in zip(places, counts, strict=True) if count > 0
            }
            lists = [
                (tenant, state)
                for tenant in sorted({place.tenant for place in failed})
                for state in (State.FAILED, State.DEAD)
            ]
            ended = pool.map(lambda each: list(self._ended(each[0], each[1], day)), lists)
            jobs = [job for each in ended for job in each]
            waiting = self._waiting(day, pool)
        return Digest(self.deployment, day, failed, jobs, waiting)

    def _failed(self, place: Place, day: Day) -> int:
        minutes = self.counters.read(place.tenant, place.queue, day.first, day.end - 1)
        return sum(tally.failed for tally in minutes.values())

    def _ended(self, tenant: str, state: State, day: Day) -> Iterator[EndedJob]:
        """Yield jobs of the list that ended in the day; the list is by id, and so by submission."""
        before, now_s = None, self.clock()
        for _ in range(EXAMINED // _PAGE):
            heads, before = self.jobs.attention_page(tenant, state, limit=_PAGE, before=before)
            for head in heads:
                if head.visible_to(tenant, now_s) and _ended_in(head, day):
                    place = Place(tenant, head.queue)
                    yield EndedJob(head.job_id, place, state, head.reason)
            if before is None:
                return

    def _waiting(self, day: Day, pool: Executor) -> dict[str, Waiting]:
        """What waits in each queue, of all tenants, and how long the oldest did when it was due."""
        backlog = read_backlog(self.usage, self.tenants, pool)
        if backlog is None:
            return {}
        due_ms, found = day.due * 60_000, dict[str, Waiting]()
        for queue in self.queues:
            count, oldest = backlog.queue(queue).waiting, about(backlog.due_in_queue(queue))
            if count > 0 and oldest is not None:
                found[queue] = Waiting(count, max(0, due_ms - oldest.latest_ms) // 1000)
        return found


def _ended_in(head: Head, day: Day) -> bool:
    return day.first <= head.timeline[-1].at_ms // 60_000 < day.end
