"""Turn a broadcast or an array into a group: write down its members, then place them by pages.

A request places one page, however many members there are, and answers. `sequel` places the others:
the change stream brings it the group's own row, whenever that says `goes_on`.

    request                      table                      inboxes           sequel
    roster  ---------------->    AGENTS#0000 ...
    put the group  --------->    processing, page 0 begun, due in 10 s
    put 100 members  ------->    100 x pending
    send  -------------------------------------------->     100 messages
    write the group  ------->    page 0 placed, goes on  ------------------>  reads the group
    answer                       page 1 begun            <------------------  claims it
                                 100 x pending           <------------------  puts members
                                                            100 messages  <-  sends
                                 page 1 placed, goes on  <------------------  its time is over
                                 ...
                                 all placed; due when replies are

A crash at any point leaves a group that is due within seconds: requeue goes on from it
(`joblane.service.group.watch`), and so does `sequel` with the next end of a member, if nobody does.
Whoever writes the group compares its version, so that `sequel` and requeue may work on the same
group; both then place the same members.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from joblane.aws.job.groups import GroupStore, with_group
from joblane.errors import Changed
from joblane.group.array import tolerated
from joblane.group.record import PAGE, Group, begin_page, note_placed, roll
from joblane.job.head import DATA_DAYS, Head
from joblane.service.group.members import Members
from joblane.service.group.progress import with_time
from joblane.state.lease import LEASE_S
from joblane.state.lifecycle import State
from joblane.state.retention import Retention

GO_ON_S = 0.5
"""Seconds for which `sequel` goes on with each batch: the ends of others wait for that."""

SOON_MS = 10_000
"""When requeue looks at a group that somebody is placing, in case that nobody does any more."""


@dataclass(frozen=True)
class Expansion:
    """Places the members of groups."""

    groups: GroupStore
    members: Members
    retention: Retention
    now_ms: Callable[[], int]
    """Returns Unix milliseconds."""

    def write_down(self, head: Head, agents: tuple[str, ...], first: str, now_ms: int) -> Head:
        """Write the roster of a new group; returns its job, with the first members begun.

        `first` is the id of the first member. The roster expires after everything of the group.
        """
        group = first_begun(new_group(head, len(agents), first), head, now_ms)
        days = max(DATA_DAYS, self.retention.payload_days)
        self.groups.put_roster(group, agents, now_ms // 1000 + days * 86_400)
        return replace(head, group=group, wake_at_ms=now_ms + SOON_MS)

    def begin_array(self, head: Head, first: str, now_ms: int) -> Head:
        """Make the group of an array; returns its job, with the first members begun.

        `first` is as in `write_down`. Nobody else needs to know who its members are.
        """
        if head.spec.array is None:
            raise ValueError(f"job {head.job_id} is no array")
        group = new_group(head, head.spec.array.jobs, first)
        group = first_begun(replace(group, array=head.spec.array.indices), head, now_ms)
        return replace(head, group=group, wake_at_ms=now_ms + SOON_MS)

    def expand(self, head: Head, left_s: Callable[[], float], *, fresh: bool = False) -> Head:
        """Place the members that are begun and, without `max_concurrency`, begin all others.

        Ends early if no time is left, after a page at least, and `sequel` goes on; or if the group
        was stopped. `fresh` says that nothing of what is begun has been placed. Returns the group
        as it was written last; its `wake_at` says when requeue is to look at it.

        Raises Unavailable.
        """
        while (group := head.group) is not None and head.state is State.PROCESSING:
            now_ms = self.now_ms()
            upto = min(group.begun, (group.placed // PAGE + 1) * PAGE)
            if group.placed < upto:
                place = self.members.place if fresh else self.members.complete
                place(head, range(group.placed, upto), now_ms)
            after, is_over = note_placed(group, upto), left_s() <= 0
            if after.placed == after.begun and not is_over and head.spec.max_concurrency is None:
                after = begin_page(after)
            if after is group:
                return head
            after = replace(after, goes_on=is_over and is_unfinished(head, after))
            after = with_time(group, after, now_ms)
            wake_at_ms = _wake_ms(head, after, now_ms)
            written = replace(with_group(head, after), wake_at_ms=wake_at_ms)
            try:
                self.groups.write_group(head, written)
            except Changed:
                found = self.groups.get(head.job_id)
                if found is None:
                    return head
                head, fresh = found, False
                continue
            # Only members that were begun by this write are left then.
            head, fresh = written, fresh or upto == group.begun
            if is_over:
                return head
        return head

    def go_on(self, head: Head, left_s: Callable[[], float]) -> None:
        """Go on with a group of which members are left to be placed, unless somebody does.

            request                      table                      sequel 1, sequel 2
            its page is placed  ----->   goes on
                                                            <-----  its row; and a member ends
                                         does not go on     <-----  1 claims it
                                         refused            <-----  2

        If 1 is killed, the group is due within seconds. Who sees that when the next member ends
        claims it in the same way; with `max_concurrency` only requeue does: there are always
        members that others are placing. Raises Unavailable.
        """
        group, now_ms = head.group, self.now_ms()
        if group is None or head.state is not State.PROCESSING or not is_unfinished(head, group):
            return
        rolls, fresh = head.spec.max_concurrency is not None, group.goes_on
        if not fresh and (rolls or not _is_due(head, now_ms)):
            return
        next_page = begin_page(group) if group.placed == group.begun else group.next()
        claimed = with_time(group, replace(next_page, goes_on=False), now_ms)
        wake_at_ms = _wake_ms(head, claimed, now_ms)
        try:
            self.groups.write_group(head, replace(with_group(head, claimed), wake_at_ms=wake_at_ms))
        except Changed:
            return
        whole = self.groups.get(head.job_id)  # with its submission
        if whole is not None:
            self.expand(whole, left_s, fresh=fresh and group.may_put(now_ms))


def _is_due(head: Head, now_ms: int) -> bool:
    return head.wake_at_ms is not None and head.wake_at_ms <= now_ms


def _wake_ms(head: Head, group: Group, now_ms: int) -> int:
    """When requeue is to look at a group that is being placed, or cancelled."""
    if not is_unfinished(head, group) and not group.cancels:
        return next_reply_ms(head, now_ms)
    if head.wake_at_ms is None or head.wake_at_ms <= now_ms:
        return now_ms + SOON_MS
    return head.wake_at_ms  # a change of it costs two write units more


def is_unfinished(head: Head, group: Group) -> bool:
    """Whether members are left that can be placed now."""
    begins = head.spec.max_concurrency is None and group.stop is None
    return group.placed < (group.members if begins else group.begun)


def new_group(head: Head, members: int, first: str) -> Group:
    """The group of a job, of which nothing has begun."""
    return Group(members, first, tolerate=tolerated(head.spec.tolerate, members))


def first_begun(group: Group, head: Head, now_ms: int) -> Group:
    """Begin the first members of a group: a page, or as many as may run at once."""
    spec = head.spec
    if spec.max_concurrency is None:
        return with_time(group, begin_page(group), now_ms)
    begun = roll(group, {}, spec.max_concurrency, spec.max_failures).group
    return with_time(group, begun, now_ms)


def next_reply_ms(head: Head, now_ms: int) -> int:
    """When a group is looked at after all its members are placed.

    When they must have been claimed, of an array after the time of a lease; or at an earlier
    deadline.
    """
    is_array = head.group is not None and head.group.array is not None
    times = [now_ms + (LEASE_S * 1000 if is_array else head.reply_timeout_ms)]
    if head.deadline_ms is not None and head.deadline_ms > now_ms:
        times.append(head.deadline_ms)
    return min(times)
