"""Put the jobs of a group's members, and send their messages.

A member's row is put before its message is sent, and both may be repeated: a row that is there
stays as it is, and an agent deletes a message whose job it has claimed or that has ended. So what a
crash leaves undone is placed again as a whole:

    function                     table                      inbox of web-7
    group: begun up to 100 --->  group
    put member 7  ----------->   pending
    (killed here)
    requeue
    put member 7  ----------->   refused: it is there
    send  -------------------------------------------->     message
    group: placed up to 100 -->  group

An agent that gets no message in time fails its member by `reply_by`.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, replace

from joblane.aws.job.groups import GroupStore
from joblane.aws.job.items import is_inline
from joblane.aws.queue.lanes import Lanes
from joblane.group.record import PAGE
from joblane.job.head import Head
from joblane.job.member import member_job
from joblane.service.job.wake_up import send_wake_up
from joblane.state.lifecycle import State
from joblane.state.retention import Retention
from joblane.state.timeline import Step

AT_ONCE = 10
"""Threads that put rows and send messages: each waits some milliseconds for AWS, twice a member."""


@dataclass(frozen=True)
class Members:
    """Places members. Every method may be called again after a crash at any point."""

    groups: GroupStore
    lanes: Lanes
    retention: Retention
    _: KW_ONLY
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    def place(self, head: Head, indices: Iterable[int], now_ms: int) -> None:
        """Put the rows of members that were begun, and send their messages.

        Reads the roster, an item for each page. Of a group that was cancelled the members are put
        as cancelled. Raises Unavailable; those members are then not placed.
        """
        if head.group is None:
            raise ValueError(f"job {head.job_id} is no group")
        wanted = sorted(set(indices))
        agents = {
            page: self.groups.roster(head.group, page)
            for page in sorted({index // PAGE for index in wanted})
        }
        inline = is_inline(head)

        def one(index: int) -> None:
            names = agents[index // PAGE]
            if not names:  # the group is being deleted
                return
            self._one(member_job(head, index, names[index % PAGE], now_ms, inline=inline), head)

        with self.pool(AT_ONCE) as pool:
            for _ in pool.map(one, wanted):
                pass

    def complete(self, head: Head, indices: Iterable[int], now_ms: int) -> None:
        """Place members of which some may have been placed before; as `place`.

        Reads their rows, and places those that have none, or may have no message.
        """
        if head.group is None:
            raise ValueError(f"job {head.job_id} is no group")
        wanted = list(indices)
        rows = self.groups.heads([head.group.id_of(index) for index in wanted], consistent=True)
        done = {
            row.member_of.index
            for row in rows
            if row.member_of is not None and not _may_lack_message(row, now_ms)
        }
        self.place(head, (index for index in wanted if index not in done), now_ms)

    def _one(self, job: Head, head: Head) -> None:
        stop = None if head.group is None else head.group.stop
        if stop is not None and stop.state is State.CANCELLED:
            now_ms = job.timeline[0].at_ms
            self.groups.put_member(
                replace(
                    job,
                    state=State.CANCELLED,
                    timeline=(Step(State.CANCELLED, now_ms, 0, stop.why),),
                    reply_by_ms=None,
                    expires_at=self.retention.expires_at(State.CANCELLED, now_ms, member=True),
                )
            )
            return
        self.groups.put_member(job)
        send_wake_up(self.lanes, job)


def _may_lack_message(job: Head, now_ms: int) -> bool:
    waits = job.state is State.PENDING and job.epoch == 0
    return waits and job.reply_by_ms is not None and job.reply_by_ms > now_ms
