"""Handle due jobs: wake scheduled jobs, expire jobs, send messages that may be missing.

Reads only due rows of the index `wake`, shard by shard and page by page, until all are handled or
the time is up; the next run, a minute later, handles the rest. Each decision is made on the job
as it is now, so running twice at once, or being killed at any point, does no harm:

    requeue                      table                      lane
    move: wake  ------------->   pending, due
    (killed here)
    next minute  <------------   pending, due
    send  -------------------------------------------->     message
    rearm  ------------------>   pending

First of all, messages are sent for schedules that are due within moments
(`joblane.service.schedule.due_sweep`). Then limits of queues and tenants are shared out again where
agents have come or gone, and keys are looked at that jobs have waited for long
(`joblane.service.key.watch`). After the jobs, if there is time, messages are renewed that SQS would
delete (`joblane.service.job.renewal`), and then jobs of retired queues are moved
(`joblane.service.queue.mover`): they run where they are, too.
"""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TYPE_CHECKING

from joblane.aws.job.items import WAKE_SHARDS
from joblane.aws.job.jobs import JobStore
from joblane.contract.problems import TryAgain
from joblane.errors import Changed, Unavailable
from joblane.job.head import Head, waits_in_lane
from joblane.job.moves import Due, NotAllowed, due
from joblane.service.job.operations import Gone, Operations
from joblane.service.job.renewal import RENEWED
from joblane.service.log import Log
from joblane.state.lifecycle import Event, State

if TYPE_CHECKING:
    from joblane.service.group.watch import GroupWatch
    from joblane.service.key.admission import KeyAdmission
    from joblane.service.target.assigned import AssignedJobs
    from joblane.service.target.due import DueTargets

PAGE = 100
"""Jobs per page: the maximum of one BatchGetItem."""

AT_ONCE = 8
"""Threads that work on a page; each waits for AWS most of the time."""

RESERVE_S = 5.0
"""No page is started with less time left than this; a page takes less."""

GROUP_S = 10.0
"""Seconds of one run that a group may take."""

SCHEDULES_S = 20.0
"""Seconds of one run that schedules may take; they come first, since they are due on a second."""

KEYS_S = 10.0
"""Seconds of one run that keys may take."""

RENEWAL_S = 20.0
"""Seconds of one run that renewal may take."""

MOVES_S = 10.0
"""Seconds of one run that moves of jobs from retired queues may take."""

COUNTED = (
    "Woken",
    "Queued",
    "Skipped",
    "Sent",
    "Expired",
    "StopRequested",
    "Rearmed",
    "Superseded",
    "Failed",
    "Unread",
    "Shared",
    "Lost",
    *RENEWED,
    "QueueGone",
    "Moved",
    "Kept",
    "Schedules",
)
"""Names of the counts that a run returns.

`Queued`: scheduled jobs that wait for a slot of their key now; `Skipped`: those whose key was full,
or whose target no agent matches.
`Expired`: jobs past their deadline, and jobs that only one agent may run, which was silent or lost.
`StopRequested`: agents asked to stop a job that is past its deadline. `Superseded`: jobs that an
agent or an operator had moved meanwhile. `Unread`: shards not read to their end for lack of time.
`Shared`: queues whose `cluster_threads` were shared out again, and one for the `jobs_running` of
tenants.
`Lost`: jobs that were over and had not left their keys.
`QueueGone`: jobs that may start and have no lane: joblane.toml has their queue no more.
`Moved`: jobs of retired queues that wait in another one now; `Kept`: those that it does not take.
`Schedules`: messages that were sent for schedules.
The others are those of renewal.
"""


@dataclass(frozen=True)
class Requeue:
    """Handles due jobs."""

    jobs: JobStore
    operations: Operations
    assigned: "Callable[[], AssignedJobs]"
    """Makes what ends jobs of silent agents, when one is due; so also the next three."""
    keyed: "Callable[[], KeyAdmission]"
    targets: "Callable[[], DueTargets]"
    groups: "Callable[[], GroupWatch]"
    start_schedules: Callable[[int, Callable[[], float]], int]
    """Sends messages for schedules that are due, as `look_at_keys`; returns how many."""
    look_at_keys: Callable[[int, Callable[[], float]], int]
    """Looks at keys at a Unix time in ms for as many seconds as the second one returns; returns how
    many jobs were over and had not left them."""
    move_jobs: Callable[[int, Callable[[], float]], Counter[str]]
    """Moves jobs of retired queues, as `look_at_keys`; returns the counts."""
    share: Callable[[int], int]
    """Shares out limits at a Unix time in ms; returns how many changed."""
    renew: Callable[[Callable[[], float]], Counter[str]]
    """Renews messages for as many seconds as its argument returns; returns counts."""
    clock: Callable[[], float]
    log: Log
    _: KW_ONLY
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    def run(self, left_s: Callable[[], float]) -> Counter[str]:
        """Handle all due jobs; `left_s` returns how many seconds are left.

        Returns the counts of `COUNTED`. Starts with a different shard every minute, so that
        the last one varies. Raises Unavailable when the index
        cannot be read.
        """
        done: Counter[str] = Counter()
        self._start_schedules(left_s, done)
        try:
            if shared := self.share(int(self.clock() * 1000)):
                done["Shared"] = shared
        except Unavailable:
            self.log.exception("limits could not be shared out; next try in a minute")
            done["Failed"] += 1
        self._look_at_keys(left_s, done)
        first = int(self.clock()) // 60
        for shard in ((first + n) % WAKE_SHARDS for n in range(WAKE_SHARDS)):
            if not self._shard(str(shard), left_s, done):
                done["Unread"] += 1
        self._renew(left_s, done)
        self._move_jobs(left_s, done)
        return done

    def _renew(self, left_s: Callable[[], float], done: Counter[str]) -> None:
        end_s = self.clock() + RENEWAL_S
        try:
            done += self.renew(lambda: min(left_s() - RESERVE_S, end_s - self.clock()))
        except Unavailable:
            self.log.exception("messages could not be renewed; next try in a minute")
            done["Failed"] += 1

    def _start_schedules(self, left_s: Callable[[], float], done: Counter[str]) -> None:
        now_s = self.clock()
        try:
            sent = self.start_schedules(
                int(now_s * 1000),
                lambda: min(left_s() - RESERVE_S, now_s + SCHEDULES_S - self.clock()),
            )
            done.update({"Schedules": sent} if sent else {})
        except Unavailable:
            self.log.exception("schedules could not be read; next try in a minute")
            done["Failed"] += 1

    def _look_at_keys(self, left_s: Callable[[], float], done: Counter[str]) -> None:
        end_s = self.clock() + KEYS_S
        try:
            lost = self.look_at_keys(
                int(self.clock() * 1000), lambda: min(left_s() - RESERVE_S, end_s - self.clock())
            )
            done.update({"Lost": lost} if lost else {})
        except Unavailable:
            self.log.exception("keys could not be looked at; next try in a minute")
            done["Failed"] += 1

    def _move_jobs(self, left_s: Callable[[], float], done: Counter[str]) -> None:
        end_s = self.clock() + MOVES_S
        try:
            done += self.move_jobs(
                int(self.clock() * 1000), lambda: min(left_s() - RESERVE_S, end_s - self.clock())
            )
        except Unavailable:
            self.log.exception("jobs of retired queues could not be moved; next try in a minute")
            done["Failed"] += 1

    def _shard(self, shard: str, left_s: Callable[[], float], done: Counter[str]) -> bool:
        now_ms = int(self.clock() * 1000)
        after = None
        with self.pool(AT_ONCE) as pool:
            while left_s() > RESERVE_S:
                heads, after = self.jobs.due_page(shard, now_ms, limit=PAGE, after=after)
                done.update(pool.map(partial(self._one, now_ms, left_s), heads))
                if after is None:
                    return True
        return False

    def _one(self, now_ms: int, left_s: Callable[[], float], head: Head) -> str:
        """Handle one job. Returns the name of its count."""
        try:
            what = due(head, now_ms)
            if what in (Due.CHOOSE, Due.WATCH):
                return self._handle_targeted(head, what, now_ms, left_s)
            return self._do(head, what, now_ms)
        except (Gone, Changed, NotAllowed):
            return "Superseded"
        except (Unavailable, TryAgain):
            self.log.exception(
                "a due job could not be handled", job_id=head.job_id, trace_id=head.trace_id
            )
            return "Failed"

    def _wake(self, head: Head, now_ms: int) -> str:
        """Let a scheduled job go whose `run_at` has come, if its key allows it."""
        if head.key is None:
            why = f"its run_at has come; {waits_in_lane(head.spec)}"
            head = self.operations.move(head, Event.WAKE, why, now_ms)
        else:
            head = self.keyed().wake(head, now_ms)
        if head.state is not State.PENDING:
            return "Queued" if head.state is State.WAITING else "Skipped"
        return "Woken" if self.operations.send(head, now_ms) else "QueueGone"

    def _do(self, head: Head, what: Due, now_ms: int) -> str:
        match what:
            case Due.EXPIRE:
                wait = "before it started" if head.attempt == 0 else "between two attempts"
                why = f"its deadline {head.spec.deadline} passed {wait}"
                self.operations.move(head, Event.EXPIRE, why, now_ms)
                return "Expired"
            case Due.TELL:
                with suppress(NotAllowed):  # requested before; its agent is asked again
                    self.operations.request_stop(head, f"its deadline {head.spec.deadline} passed")
                self.jobs.rearm(head, now_ms)
                return "StopRequested"
            case Due.WAKE:
                return self._wake(head, now_ms)
            case Due.SEND:
                return "Sent" if self.operations.send(head, now_ms) else "QueueGone"
            case Due.JUDGE | Due.REARM:
                return self._rearm(head, what, now_ms)
        return "Superseded"

    def _handle_targeted(
        self, head: Head, what: Due, now_ms: int, left_s: Callable[[], float]
    ) -> str:
        """Choose the agents of a job, or watch a group, for `GROUP_S` at most."""
        end_s = self.clock() + GROUP_S

        def left() -> float:
            return min(left_s() - RESERVE_S, end_s - self.clock())

        if what is Due.CHOOSE:
            return "Woken" if self.targets().wake(head, now_ms, left) else "Skipped"
        self.groups().look(head, now_ms, left)
        return "Rearmed"

    def _rearm(self, head: Head, what: Due, now_ms: int) -> str:
        """Set when a job is looked at next; first end one whose only agent is silent or lost."""
        if what is Due.JUDGE and self.assigned().settle_with_agent(head, now_ms):
            return "Expired"
        self.jobs.rearm(head, now_ms)
        return "Rearmed"
