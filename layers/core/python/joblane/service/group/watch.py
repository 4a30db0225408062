"""Watch groups: place what was not placed, end members whose agents are silent, settle pages.

Members of an array are for any agent, and end as any job of a lane; those that wait are sent again
from time to time, in case that their messages are lost (`joblane.group.again`).

Requeue looks at a group when replies are due, and then every `LEASE_S` while it is open. It reads
each member of the open pages once, and the agents of members that run or were not claimed in time.
What follows from an end is left to `joblane.service.group.settlement`, which `sequel` calls for the
same end; this finds the ends of which the stream brought no record.

A group has a part of a run (`joblane.service.job.requeue`), and goes on in the next one with
another page, so that it does not delay others:

    requeue                      group: pages 0 to 99
    minute 1: 0 to 40  ------>   due again at once
    minute 2: 31 to 99, 0  -->   all seen; due when the next reply is
"""

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import partial

from joblane.aws.fleet.agents import AgentStore
from joblane.aws.job.groups import GroupStore
from joblane.aws.job.jobs import Refused
from joblane.group.again import is_sent_again
from joblane.group.record import Group
from joblane.job.assigned import Fate
from joblane.job.head import Head
from joblane.job.moves import NotAllowed
from joblane.service.group.expansion import SOON_MS, Expansion, is_unfinished
from joblane.service.job.operations import Gone
from joblane.service.job.wake_up import send_wake_ups
from joblane.service.target.assigned import AssignedJobs
from joblane.state.lease import LEASE_S
from joblane.state.lifecycle import Event, State

PAGES_AT_ONCE = 8
"""Pages that are looked at side by side."""

STRIDE = 31
"""How many pages the first page of a run is after that of the run before."""

_OVER = frozenset({Fate.NO_REPLY, Fate.LOST, Fate.EXPIRE})

Settle = Callable[[str, Collection[int]], object]
"""Does what follows for a group, by its id, some of whose members have ended."""


@dataclass
class SeenMembers:
    """What a look at members of a group found."""

    ended: set[int] = field(default_factory=set)
    next_ms: list[int] = field(default_factory=list)
    """When members are to be looked at again."""


@dataclass(frozen=True)
class GroupWatch:
    """Watches groups. Every method may be called again after a crash at any point."""

    groups: GroupStore
    agents: AgentStore
    assigned: AssignedJobs
    expansion: Expansion
    settle: Settle
    _: KW_ONLY
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    def look(self, head: Head, now_ms: int, left_s: Callable[[], float]) -> None:
        """Look at one group, as long as time is left, and set when to look again.

        Raises Unavailable and TryAgain; the group is then due again.
        """
        head = self.expansion.expand(head, left_s)
        group = head.group
        if group is None or head.state is not State.PROCESSING:
            return
        seen, pages = SeenMembers(), _from_another(group.open_pages, now_ms)
        look = self._page if group.array is None else partial(self._page_of_array, head)
        while pages and left_s() > 0:
            chunk, pages = pages[:PAGES_AT_ONCE], pages[PAGES_AT_ONCE:]
            with self.pool(PAGES_AT_ONCE) as pool:
                for found in pool.map(partial(look, group, now_ms), chunk):
                    seen.next_ms += found.next_ms
                    seen.ended |= found.ended
            self._settle(head, group, chunk, seen.ended)
        if not group.open_pages:  # it was not settled with its last page
            self.settle(head.job_id, ())
        later_ms = now_ms + LEASE_S * 1000
        at_ms = min([later_ms, *(at_ms for at_ms in seen.next_ms if at_ms > now_ms)])
        if head.spec.max_concurrency is not None and group.array is None:
            # Other members may have begun by then, and must have replied.
            at_ms = min(at_ms, now_ms + max(SOON_MS, head.reply_timeout_ms))
        if pages or is_unfinished(head, group):
            at_ms = now_ms + SOON_MS
        looked = group.array is not None and not pages
        self.groups.rearm(head, now_ms, at_ms=at_ms, looked=looked)

    def _settle(self, head: Head, group: Group, pages: Sequence[int], ended: set[int]) -> None:
        """Do what follows from ends in these pages, if something does."""
        if head.spec.max_concurrency is not None:
            ends = ended & group.open
        else:
            whole = [set(_list_begun(group, page)) for page in pages]
            ends = {index for numbers in whole if numbers <= ended for index in numbers}
        if ends or group.again:  # a retry may have died before it let members go
            self.settle(head.job_id, ends)

    def _page(self, group: Group, now_ms: int, page: int) -> SeenMembers:
        """Look at the members of one page: at most a read of each, and of its agent."""
        numbers = _list_begun(group, page)
        jobs = self.groups.heads([group.id_of(index) for index in numbers], consistent=True)
        names = sorted({job.assigned or "" for job in jobs if _needs_agent(job, now_ms)})
        agents = {row.name: row for row in self.agents.many(names)} if names else {}
        seen, there = SeenMembers(), set()
        for job in jobs:
            if job.member_of is None:
                continue
            there.add(job.member_of.index)
            if job.ended:
                seen.ended.add(job.member_of.index)
                continue
            with suppress(Refused, Gone):  # its agent, or an operator, was first
                if self._cancel(group, job, now_ms):
                    continue
                if self.assigned.settle(job, agents.get(job.assigned or ""), now_ms) in _OVER:
                    seen.ended.add(job.member_of.index)
                    continue
            seen.next_ms += [at for at in (job.reply_by_ms, job.deadline_ms) if at is not None]
        # A member that was placed and has no row has ended; its row has expired.
        seen.ended |= {index for index in numbers if index < group.placed} - there
        return seen

    def _page_of_array(self, head: Head, group: Group, now_ms: int, page: int) -> SeenMembers:
        """Look at the members of one page of an array: a read of each."""
        numbers = _list_begun(group, page)
        jobs = self.groups.heads([group.id_of(index) for index in numbers], consistent=True)
        seen, there, again = SeenMembers(), set(), list[tuple[Head, int]]()
        for job in jobs:
            if job.member_of is None:
                continue
            there.add(job.member_of.index)
            if job.ended or self._ends_late(group, job, now_ms):
                seen.ended.add(job.member_of.index)
                continue
            if job.deadline_ms is not None:
                seen.next_ms.append(job.deadline_ms)
            since_ms = job.timeline[-1].at_ms
            if job.state is State.PENDING and is_sent_again(since_ms, head.looked_ms, now_ms):
                again.append((job, 0))
        if again:
            send_wake_ups(self.expansion.members.lanes, again)  # what SQS refuses, next time
        seen.ended |= {index for index in numbers if index < group.placed} - there
        return seen

    def _ends_late(self, group: Group, job: Head, now_ms: int) -> bool:
        """End a member whose group was cancelled, or whose deadline has passed; whether it has."""
        operations = self.assigned.operations
        with suppress(Refused, Gone, NotAllowed):  # an agent, or an operator, was first
            if self._cancel(group, job, now_ms):
                return job.state is not State.ACTIVE
            if job.deadline_ms is None or job.deadline_ms > now_ms:
                return False
            why = f"its deadline {job.spec.deadline} passed"
            if job.state is State.ACTIVE:
                operations.request_stop(job, why)
                return False
            operations.move(job, Event.EXPIRE, f"{why} before it ended", now_ms)
            return True
        return False

    def _cancel(self, group: Group, job: Head, now_ms: int) -> bool:
        """Cancel a member that was placed while its group was being cancelled."""
        stop = group.stop
        if stop is None or not group.cancels or job.cancel_requested is not None:
            return False
        with suppress(NotAllowed):
            self.assigned.operations.cancel(job, stop.why, now_ms)
        return True


def _list_begun(group: Group, page: int) -> list[int]:
    return [index for index in group.page(page) if index < group.begun]


def _needs_agent(job: Head, now_ms: int) -> bool:
    """Whether what becomes of a member depends on its agent."""
    if job.ended or job.state is State.BLOCKED:
        return False
    return job.reply_by_ms is None or job.reply_by_ms <= now_ms


def _from_another(pages: list[int], now_ms: int) -> list[int]:
    """The pages in order, from another one every minute."""
    first = now_ms // 60_000 * STRIDE % len(pages) if pages else 0
    return pages[first:] + pages[:first]
