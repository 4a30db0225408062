"""Cancels a group: first what has not begun, then its members, a page a request.

What was begun before that may not be placed yet, and whoever places it may have read the group
before it was stopped. So a member without a row is put as cancelled, and whoever comes second
finds the row:

    cancel                       table                      request that places members
                                                            group: page 0 begun
    stop the group  -------->    begins no more
    member 7 has no row
    put 7 as cancelled  ---->    7 cancelled
                                 it is there  <----------   put 7 as pending
                                                            message: its agent finds it cancelled

or the other way round: then the member is found pending, and cancelled as any job.

A client may end between two pages. Requeue cancels what it has left: the write that stops the
group makes it due soon (`joblane.service.group.watch`).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field, replace

from joblane.aws.job.groups import GroupStore
from joblane.contract.problems import TryAgain
from joblane.group.record import Group, cancel_group
from joblane.job.head import Head
from joblane.job.moves import NotAllowed
from joblane.service.decide_again import decide_again
from joblane.service.group.expansion import SOON_MS
from joblane.service.group.progress import advance
from joblane.service.group.settlement import GroupSettlement, Place
from joblane.service.job.operations import Gone, Operations
from joblane.state.lifecycle import State

AT_ONCE = 8
"""Members that are cancelled at the same time; each waits for AWS most of the time."""


@dataclass
class Swept:
    """What one request has done with members of a group."""

    examined: int = 0
    done: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    """Members that were left out, each with the reason."""
    following: int | None = None
    """The page to continue with; None at the end."""


@dataclass(frozen=True)
class GroupCancel:
    """Cancels groups. Every method may be called again after a crash at any point."""

    groups: GroupStore
    operations: Operations
    place: Place
    settlement: GroupSettlement
    _: KW_ONLY
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    def cancel(self, head: Head, why: str, now_ms: int, *, page: int | None) -> Swept:
        """Begin no further members, and cancel those of one page; running ones are stopped.

        `page` is the `following` of an earlier request. Raises NotAllowed if the group has ended
        before the first request, Gone if it is deleted, and TryAgain if it changed on every try.
        """
        if head.group is None:
            self.operations.cancel(head, why, now_ms)  # before its `run_at`
            return Swept()
        group = self._stop(head, why, now_ms, again=page is not None)
        pages = [number for number in group.open_pages if number >= (page or 0)]
        if not pages:
            return Swept()
        numbers = [index for index in group.page(pages[0]) if index < group.begun]
        swept = self._members(head, group, numbers, why, now_ms)
        # Those that were put as cancelled end without an event of the stream.
        self.settlement.settle(head.job_id, numbers)
        swept.following = pages[1] if pages[1:] else None
        return swept

    def _stop(self, head: Head, why: str, now_ms: int, *, again: bool) -> Group:
        def once() -> Group:
            seen = self.groups.progress(head.job_id)
            if seen is None or seen.group is None:
                raise Gone
            if seen.ended:
                if again:
                    return seen.group
                raise NotAllowed(
                    f"a group that is {seen.state} cannot be cancelled, only one that is "
                    f"{State.PROCESSING}; it has ended"
                )
            group = cancel_group(seen.group, why)
            if group is seen.group:
                return group
            after = advance(seen, group, now_ms, self.settlement.retention)
            if not after.ended:
                after = replace(after, wake_at_ms=now_ms + SOON_MS)
            self.groups.write_group(seen, after)
            return group

        return decide_again(once)

    def _members(
        self, head: Head, group: Group, numbers: Sequence[int], why: str, now_ms: int
    ) -> Swept:
        ids = [group.id_of(index) for index in numbers]
        swept = Swept(examined=len(ids))
        there = self.groups.states(group, numbers)
        missing = [index for index in numbers if index not in there and index >= group.placed]
        if missing:
            whole = self.groups.get(head.job_id)  # stopped: they are put as cancelled
            if whole is None:
                raise Gone
            self.place(whole, missing, now_ms)
        heads = self.groups.heads(ids, consistent=True)
        put = {group.id_of(index) for index in missing}
        swept.done = sum(member.job_id in put and member.ended for member in heads)
        with self.pool(AT_ONCE) as pool:
            results = pool.map(
                lambda member: self._one(member, why, now_ms),
                [member for member in heads if not member.ended],
            )
        for job_id, refusal in results:
            if refusal is None:
                swept.done += 1
            elif refusal:
                swept.refused[job_id] = refusal
        return swept

    def _one(self, member: Head, why: str, now_ms: int) -> tuple[str, str | None]:
        """Cancel a member. Returns its id and why it was not; empty if it has ended meanwhile."""
        try:
            self.operations.cancel(member, why, now_ms)
        except NotAllowed as refusal:
            return member.job_id, str(refusal) if member.state is State.ACTIVE else ""
        except Gone:
            return member.job_id, ""
        except TryAgain as busy:
            return member.job_id, str(busy)
        return member.job_id, None
