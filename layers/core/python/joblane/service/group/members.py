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

Members of an array go to the lanes of their queue, ten rows and then ten messages in one request.
Between them the group is read once more, so that after a cancel no message is sent:

    function                     table                      API
    group: begun up to 100 --->  group
    put members 0 to 9  ------>  10 x pending
                                 group: stopped    <------  cancel
    reads the group: stopped
                                 0 to 9: cancelled <------  cancel, its page

A cancel stops the group before it looks at members, so it finds what was put before the read, and
what it does not find is put as cancelled. A member that nobody has claimed is sent again by the
watch (`joblane.group.again`).

Members are put for a day at most after they were begun. One without a row may then have run, and
its row have expired; it is put as failed, for somebody to decide.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, replace

from joblane.aws.job.groups import GroupStore
from joblane.aws.job.items import is_inline
from joblane.aws.queue.batch import BATCH
from joblane.aws.queue.lanes import Lanes
from joblane.contract.problems import TryAgain
from joblane.group.record import PAGE
from joblane.job.head import Head
from joblane.job.member import member_job
from joblane.service.job.wake_up import send_wake_up, send_wake_ups
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

    def place(self, head: Head, indices: Iterable[int], now_ms: int, *, late: bool = False) -> None:
        """Put the rows of members that were begun, and send their messages.

        `late` if that was before now. Reads the roster, an item for each page. Of a group that was
        cancelled the members are put as cancelled. Raises Unavailable and TryAgain; those members
        are then not placed.
        """
        if head.group is None:
            raise ValueError(f"job {head.job_id} is no group")
        wanted = sorted(set(indices))
        if head.group.array is not None:
            self._place_in_lane(head, wanted, now_ms, late=late)
            return
        agents = {
            page: self.groups.roster(head.group, page)
            for page in sorted({index // PAGE for index in wanted})
        }
        inline = is_inline(head)

        def one(index: int) -> None:
            names = agents[index // PAGE]
            if not names:  # the group is being deleted
                return
            job = member_job(head, index, names[index % PAGE], now_ms, inline=inline)
            self._one(self._as_begun(job, head, late=late))

        with self.pool(AT_ONCE) as pool:
            for _ in pool.map(one, wanted):
                pass

    def _place_in_lane(self, head: Head, wanted: Sequence[int], now_ms: int, *, late: bool) -> None:
        """Place members of an array, ten at a time."""
        inline = is_inline(head)

        def some(indices: Sequence[int]) -> None:
            members = [member_job(head, index, None, now_ms, inline=inline) for index in indices]
            jobs = [self._as_begun(member, head, late=late) for member in members]
            for job in jobs:
                self.groups.put_member(job)
            sent = [(job, 0) for job in jobs if job.state is State.PENDING]
            if not sent or self._is_over(head):
                return
            lost = send_wake_ups(self.lanes, sent)
            if lost.refused:
                raise TryAgain("SQS did not accept all messages of an array")

        with self.pool(AT_ONCE) as pool:
            for _ in pool.map(some, [wanted[n : n + BATCH] for n in range(0, len(wanted), BATCH)]):
                pass

    def _is_over(self, head: Head) -> bool:
        """Whether a group was cancelled or deleted since it was read."""
        found = self.groups.progress(head.job_id)
        if found is None or found.group is None:
            return True
        return found.group.cancels

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
        self.place(head, (index for index in wanted if index not in done), now_ms, late=True)

    def _one(self, job: Head) -> None:
        self.groups.put_member(job)
        if job.state is State.PENDING:
            send_wake_up(self.lanes, job)

    def _as_begun(self, job: Head, head: Head, *, late: bool) -> Head:
        """The job of a member as it is put: it runs unless its group says otherwise."""
        group, now_ms = head.group, job.timeline[0].at_ms
        if group is None or not (group.cancels or (late and not group.may_put(now_ms))):
            return job
        state, why = State.FAILED, "it was not placed within a day after it was begun; retry it"
        if group.stop is not None and group.cancels:
            state, why = State.CANCELLED, group.stop.why
        return replace(
            job,
            state=state,
            timeline=(Step(state, now_ms, 0, why),),
            reply_by_ms=None,
            expires_at=self.retention.expires_at(state, now_ms, member=True),
        )


def _may_lack_message(job: Head, now_ms: int) -> bool:
    if job.state is not State.PENDING or job.epoch > 0:
        return False
    return job.assigned is None or (job.reply_by_ms is not None and job.reply_by_ms > now_ms)
