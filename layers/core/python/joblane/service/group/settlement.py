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
How many begin, and when, is `joblane.service.group.rolling`.
"""

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from joblane.aws.job.groups import GroupStore
from joblane.group.record import PAGE, Group, page_done
from joblane.group.states import FAILURES, Tally
from joblane.job.head import Head
from joblane.service.decide_again import decide_again
from joblane.service.group.progress import advance
from joblane.service.group.rolling import Look, Rolling, Turn, looks_from
from joblane.service.log import Log
from joblane.state.lifecycle import ENDED, State
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
    go_on: Callable[[Head], object] = lambda _head: None
    """Goes on placing members of a group of which some are left, unless somebody does."""

    @property
    def _rolling(self) -> Rolling:
        return Rolling(self.groups)

    def settle(self, group_id: str, ended: Collection[int] = ()) -> State | None:
        """Do what follows for a group some of whose members may have ended.

        `ended` are the numbers of those members, or of all, to look at the whole group. Returns
        the group's state, None if it is deleted. Raises TryAgain if the group changed on every
        try, and Unavailable.
        """
        look: Look | None = Look(frozenset(ended))
        after: Head | None = None
        while look is not None:
            after, look = decide_again(partial(self._once, group_id, looks_from(look)))
        if after is not None and after.state is State.PROCESSING:
            self.go_on(after)
        return None if after is None else after.state

    def resume(self, group_id: str) -> None:
        """Go on with a group that was left with members to be placed. Raises Unavailable."""
        group = self.groups.progress(group_id)
        if group is not None:
            self.go_on(group)

    def _once(self, group_id: str, looks: Iterator[Look]) -> tuple[Head | None, Look | None]:
        """Read a group, and do one step; None if it is deleted."""
        seen = self.groups.progress(group_id)
        if seen is None or seen.group is None:
            return None, None
        return self._step(seen, seen.group, next(looks))

    def _step(self, seen: Head, before: Group, look: Look) -> tuple[Head, Look | None]:
        """One write of a group at most. Returns it, and at what to look after that."""
        now_ms = int(self.clock() * 1000)
        rolls = seen.spec.max_concurrency is not None and before.waiting > 0
        turn = self._rolling.turn(seen, before, look, now_ms) if rolls else Turn(before)
        group = turn.group
        if not rolls:
            pages = self._pages(seen, group, look)
        else:
            pages = [] if group is before else group.open_pages
        for page in pages:
            seen_page = self._tally(seen, group, page, look.ended, exact=rolls)
            if seen_page is not None:
                tally, failed, changed = seen_page
                group = page_done(group, page, tally, failed=failed, changed=changed)
        after = advance(seen, group, now_ms, self.retention)
        if turn.moves:
            self.groups.write_group_with(seen, after, turn.moves)
        elif group != before:
            self.groups.write_group(seen, after)
        if after.state is not seen.state:
            self._note(after)
        for _, member in turn.moves:
            self.send(member, now_ms)
        begin = [*turn.begin, *self._find_left_behind(before, look.ended, now_ms)]
        whole = self.groups.get(seen.job_id) if begin else None  # with its submission
        if whole is not None:
            self.place(whole, begin, now_ms)
        return after, turn.following

    def _pages(self, seen: Head, group: Group, look: Look) -> list[int]:
        """The open pages of which some members may have ended, where none is begun any more.

        With `max_concurrency`, also those of members whose ends are noted: of before the last
        ones were begun, so they are read unless an end is handled that came after that.
        """
        ended, clear = look.ended, set[int]()
        if seen.spec.max_concurrency is not None:
            if look.noted is not None or not ended or not ended <= group.open:
                ended |= self._rolling.noted(seen, group, look) & group.open
            clear = {page for page in group.open_pages if group.open.isdisjoint(group.page(page))}
        return sorted(({index // PAGE for index in ended} | clear) & set(group.open_pages))

    def _tally(
        self, seen: Head, group: Group, page: int, ended: Collection[int], *, exact: bool
    ) -> tuple[Tally, set[int], bool] | None:
        """How the members of a page have ended, which failed, and whether one says `changed`.

        None if not all have ended. With `exact`, all that have not are in `open`, and only those.

        Nearly always some of them are still open, and then a few reads are enough to find one:
        those that have just ended are read last.
        """
        if not group.may_be_done(page):
            return None
        numbers = [index for index in group.page(page) if index < group.begun]
        if exact and not group.open.isdisjoint(numbers):
            return None
        self.rng.shuffle(numbers)
        numbers.sort(key=lambda index: index in ended)
        found: Counter[State] = Counter()
        failed, changed = set[int](), False
        size = PAGE if exact else FIRST_LOOK
        while numbers:
            look, numbers = numbers[:size], numbers[size:]
            states = self.groups.states(group, look)
            for index in look:
                member = states.get(index)
                state = member.state if member else self._without_row(seen, group, index)
                if state not in ENDED:
                    return None
                found[state] += 1
                failed |= {index} if state in FAILURES else set()
                changed |= member is not None and member.changed
            size *= 2
        return found, failed, changed

    @staticmethod
    def _without_row(seen: Head, group: Group, index: int) -> State:
        """What a member counts as that has no row.

        It is about to be put; or it had a row, which has expired since it ended: members are kept
        as long as a group that ends now, but one that takes longer than that may outlive some. Of
        those only some failures are known.
        """
        taken_out = seen.spec.max_concurrency is not None and index not in group.open
        if index >= group.placed and not taken_out:
            return State.PENDING
        return _ENDS_OF_ROLLING[index in group.failed]

    def _find_left_behind(
        self, group: Group | None, ended: Collection[int], now_ms: int
    ) -> list[int]:
        """Members that were begun or retried before and may not have been put or sent.

        Only if one of `ended` was taken out of the group before: then this event came again, maybe
        after a crash. One that was placed and has no row has ended, and never runs again. What an
        array has put, and that waits, may be a thousand messages: the watch sends them again
        (`joblane.group.again`).
        """
        if group is None or not group.open or group.open.issuperset(ended):
            return []
        states = self.groups.states(group, group.open)
        return [
            index
            for index in sorted(group.open)
            if (
                index >= group.placed and group.may_put(now_ms)
                if (member := states.get(index)) is None
                else member.state is State.PENDING and group.array is None
            )
        ]

    def _note(self, group: Head) -> None:
        self.log.info(
            "group settled",
            job_id=group.job_id,
            trace_id=group.trace_id,
            state=group.state,
            reason=group.reason,
        )
