"""What follows the end of members of a group: further ones begin, and the last one settles it.

The group is read first and its members after it, and what follows from them is written if the
group has not changed since. So an end that comes twice, late or in another order changes nothing:

    sequel 1                     table                      sequel 2
                                 members 7 and 8 end
    reads version 4              version 4
    reads 7, 8: ended            version 4                  reads version 4; 7, 8: ended
    page done if 4  --------->   version 5
                                 refused  <---------------  page done if 4
                                 version 5                  reads version 5: the page is done

What was begun is put after the write. A crash in between leaves members without rows:

    sequel                       table                      lane of an agent
    members 9 begun  -------->   version 6
    (killed here)
    again: 7 is not open
    9 has no row  ----------->   9 pending  ------------->  message

and if the event does not come again, the requeue function looks at the group within minutes.
"""

import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from joblane.aws.job.groups import GroupStore
from joblane.aws.job.items import is_inline
from joblane.group.record import MOST_RESTARTS, PAGE, Group, page_done, roll
from joblane.group.states import Tally
from joblane.job.head import Head
from joblane.job.member import as_group, is_as_group
from joblane.job.moves import NotAllowed, apply, plan_restart
from joblane.service.decide_again import decide_again
from joblane.service.group.progress import advance
from joblane.service.log import Log
from joblane.state.lifecycle import ENDED, Event, State
from joblane.state.retention import Retention

FIRST_LOOK = 4
"""Members of a page that are read first. While any of them has not ended, neither has the page; if
all have ended, twice as many others are read, and so on."""

Place = Callable[[Head, Sequence[int], int], object]
"""Puts the rows of members that were begun, unless they are there, and sends their messages; takes
the time in Unix milliseconds."""

Send = Callable[[Head, int], object]
"""Sends the message of a job that was retried, and notes on its row that it is sent."""

_ENDS_OF_ROLLING: Mapping[bool, State] = {True: State.FAILED, False: State.COMPLETED}


@dataclass(frozen=True)
class GroupSettlement:
    """Settles groups. Every method may be called again after a crash at any point."""

    groups: GroupStore
    place: Place
    send: Send
    retention: Retention
    rng: random.Random
    log: Log
    clock: Callable[[], float]
    """Returns Unix seconds."""

    def settle(self, group_id: str, ended: Collection[int] = ()) -> State | None:
        """Do what follows for a group some of whose members may have ended.

        `ended` are the numbers of those members, or of all, to look at the whole group. Returns
        the group's state, None if it is deleted. Raises TryAgain if the group changed on every
        try, and Unavailable.
        """
        after, more = decide_again(lambda: self._once(group_id, ended))
        while more:  # `ended` are taken out
            after, more = decide_again(lambda: self._once(group_id, ()))
        return None if after is None else after.state

    def _once(self, group_id: str, ended: Collection[int]) -> tuple[Head | None, bool]:
        """Read a group, and do one step; None if it is deleted."""
        seen = self.groups.progress(group_id)
        if seen is None or seen.group is None:
            return None, False
        return self._step(seen, seen.group, ended)

    def _step(self, seen: Head, group: Group, ended: Collection[int]) -> tuple[Head, bool]:
        """One write of a group at most. Returns it, and whether another one may follow."""
        now_ms = int(self.clock() * 1000)
        moves: list[tuple[Head, Head]] = []
        begin: Sequence[int] = ()
        rolling = seen.spec.max_concurrency is not None
        if rolling:
            group, begin, moves = self._roll(seen, group, ended, now_ms)
            pages = group.open_pages
        else:
            pages = sorted({index // PAGE for index in ended} & set(group.open_pages))
        for page in pages:
            seen_page = self._tally(group, page, set(ended), rolling=rolling)
            if seen_page is not None:
                tally, changed = seen_page
                group = page_done(group, page, tally, changed=changed)
        after = advance(seen, group, now_ms, self.retention)
        if moves:
            self.groups.write_group_with(seen, after, moves)
        elif group != seen.group:
            self.groups.write_group(seen, after)
        if after.state is not seen.state:
            self._note(after)
        for _, member in moves:
            self.send(member, now_ms)
        begin = [*begin, *self._find_left_behind(seen.group, ended)]
        whole = self.groups.get(seen.job_id) if begin else None  # with its submission
        if whole is not None:
            self.place(whole, begin, now_ms)
        return after, len(moves) == MOST_RESTARTS

    def _roll(
        self, seen: Head, group: Group, ended: Collection[int], now_ms: int
    ) -> tuple[Group, Sequence[int], list[tuple[Head, Head]]]:
        """Take ended members out of a group with `max_concurrency`, and begin the next ones."""
        most = seen.spec.max_concurrency or 1
        known = self.groups.states(group, group.open.intersection(ended))
        ends = {index: each.state for index, each in known.items() if each.state in ENDED}
        moves = self._restarts(seen, group, now_ms)
        first = group.again[:MOST_RESTARTS]
        lost = [index for index in first if index not in moves]
        if lost:
            group = group.next(again=tuple(index for index in group.again if index not in lost))
        rolled = roll(group, ends, most, seen.spec.max_failures)
        return rolled.group, rolled.begin, [moves[index] for index in rolled.restart]

    def _restarts(self, seen: Head, group: Group, now_ms: int) -> dict[int, tuple[Head, Head]]:
        """The transitions of the members that are to be retried next, by number.

        Those that cannot be retried any more are left out: they are deleted, or their deadline has
        passed.
        """
        first = group.again[:MOST_RESTARTS]
        found: dict[int, tuple[Head, Head]] = {}
        if not first:
            return found
        heads = self.groups.heads([group.id_of(index) for index in first], consistent=True)
        to = seen
        if not all(is_as_group(head, seen) for head in heads):
            to = self.groups.get(seen.job_id) or seen  # with its submission
        why = "retried, as there is room in its group"
        for head in heads:
            becomes = as_group(head, to, inline=is_inline(to))
            try:
                step = plan_restart(head, becomes, Event.RETRY, now_ms, why)
            except NotAllowed:
                continue
            if head.member_of is not None:
                found[head.member_of.index] = (head, apply(becomes, Event.RETRY, step))
        return found

    def _tally(
        self, group: Group, page: int, ended: Collection[int], *, rolling: bool
    ) -> tuple[Tally, bool] | None:
        """How the members of a page have ended, and whether one says `changed`.

        None if not all have ended.

        Nearly always some of them are still open, and then a few reads are enough to find one:
        those that have just ended are read last.
        """
        if not group.may_be_done(page):
            return None
        numbers = [index for index in group.page(page) if index < group.begun]
        if rolling and not group.open.isdisjoint(numbers):
            return None
        self.rng.shuffle(numbers)
        numbers.sort(key=lambda index: index in ended)
        found: Counter[State] = Counter()
        changed = False
        size = PAGE if rolling else FIRST_LOOK
        while numbers:
            look, numbers = numbers[:size], numbers[size:]
            states = self.groups.states(group, look)
            for index in look:
                member = states.get(index)
                state = member.state if member else self._without_row(group, index, rolling=rolling)
                if state not in ENDED:
                    return None
                found[state] += 1
                changed |= member is not None and member.changed
            size *= 2
        return found, changed

    @staticmethod
    def _without_row(group: Group, index: int, *, rolling: bool) -> State:
        """What a member counts as that has no row.

        It is about to be put; or it had a row, which has expired since it ended: members are kept
        as long as a group that ends now, but one that takes longer than that may outlive some. Of
        those only failures are known.
        """
        if rolling or index < group.placed:
            return _ENDS_OF_ROLLING[index in group.failed]
        return State.PENDING

    def _find_left_behind(self, group: Group | None, ended: Collection[int]) -> list[int]:
        """Members that were begun or retried before and may not have been put or sent.

        Only if one of `ended` was taken out of the group before: then this event came again, maybe
        after a crash.
        """
        if group is None or not group.open or group.open.issuperset(ended):
            return []
        states = self.groups.states(group, group.open)
        return [
            index
            for index in sorted(group.open)
            if (member := states.get(index)) is None or member.state is State.PENDING
        ]

    def _note(self, group: Head) -> None:
        self.log.info(
            "group settled",
            job_id=group.job_id,
            trace_id=group.trace_id,
            state=group.state,
            reason=group.reason,
        )
