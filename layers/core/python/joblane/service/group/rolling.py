"""What the ends of members of a group with `max_concurrency` lead to: others begin, in chunks.

Further members begin when `chunk_of` places are free, so the group's row is written once for so
many ends, and not at each. In between, ends are noted in an item of their own. Whoever notes adds
to a set, which refuses nobody and takes an end that comes twice once. The notes are not a count:
they say which rows to read, and only a row that shows an end, read after the group, frees a place.

Two that handle ends at the same time must not both leave the chunk to the other one. So whoever has
noted an end reads the group again, and whoever has written the group reads the notes again:

    sequel 1                     table                      sequel 2
    reads version 4, notes       version 4, noted: 3        reads version 4, notes
                                 version 5        <-------  3 and 8 taken out, others begun
    notes 7  ---------------->   noted: 3, 7
    reads version 5: decides     noted: 3, 7      ------->  reads version 5, notes: decides
    again, with 7                                           again, with 7

Whichever of the two writes comes second, whoever makes it sees the other one.

    sequel                       table
    notes 7  ---------------->   noted: 3, 7
    (killed here)
    again: 7 is noted, decides with 3 and 7 as if nothing had been

What is noted of members that were taken out since is dropped by the next one that notes.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from joblane.aws.job.groups import GroupStore
from joblane.aws.job.items import is_inline
from joblane.group.record import MOST_RESTARTS, Group, chunk_of, has_room, roll
from joblane.job.head import DATA_DAYS, Head
from joblane.job.member import as_group, is_as_group
from joblane.job.moves import NotAllowed, apply, plan_restart
from joblane.state.lifecycle import ENDED, Event, State


@dataclass(frozen=True, slots=True)
class Look:
    """At what of a group to look."""

    ended: frozenset[int] = frozenset()
    """Members that may have ended."""
    noted: frozenset[int] | None = None
    """Whose ends are noted, if that was read just now."""
    continues: bool = False
    """Whether members of a chunk are left that did not fit into one write."""


def looks_from(look: Look) -> Iterator[Look]:
    """A look, and then the same one, for which the notes are read again."""
    yield look
    while True:
        yield replace(look, noted=None)


class Turn(NamedTuple):
    """What follows for a group."""

    group: Group
    """Its next version; the same one if it is not written."""
    begin: Sequence[int] = ()
    """Members to put, and to send messages for."""
    moves: Sequence[tuple[Head, Head]] = ()
    """Members to retry: their transitions."""
    following: Look | None = None
    """At what to look after this."""


@dataclass(frozen=True)
class Rolling:
    """Begins members of groups with `max_concurrency`, as others end."""

    groups: GroupStore

    def turn(self, seen: Head, group: Group, look: Look, now_ms: int) -> Turn:
        """Take ended members out and begin others if a chunk of places is free; else note ends.

        Reads the rows of `look.ended` that are open. Raises Changed if others have noted ends.
        """
        most = seen.spec.max_concurrency or 1
        chunk = 1 if look.continues else chunk_of(most)
        own = self._ended(group, look.ended)
        noted = self.noted(seen, group, look)
        open_members = group.open - own.keys() - noted
        if not has_room(group, len(open_members), most, chunk):
            if own.keys() <= noted:
                return Turn(group)
            return self._note(group, noted, (noted & group.open) | own.keys(), now_ms)
        ended = {**self._ended(group, noted - own.keys()), **own}
        moves = self._restarts(seen, group, now_ms)
        lost = set(group.again[:MOST_RESTARTS]) - moves.keys()
        left = group
        if lost:
            left = group.next(again=tuple(index for index in group.again if index not in lost))
        rolled = roll(left, ended, most, seen.spec.max_failures, chunk)
        after = rolled.group
        if not rolled.begin and (after.again, after.stop) == (group.again, group.stop):
            # Some of the noted members run again, or their events came late.
            return self._note(group, noted, frozenset(ended), now_ms)
        continues = len(rolled.restart) == MOST_RESTARTS
        following = Look(continues=continues) if continues or chunk_of(most) > 1 else None
        restarts = [moves[index] for index in rolled.restart]
        return Turn(after, rolled.begin, restarts, following)

    def noted(self, seen: Head, group: Group, look: Look) -> frozenset[int]:
        """Members whose ends are noted; where each end begins another member, none is."""
        if look.noted is not None:
            return look.noted
        if chunk_of(seen.spec.max_concurrency or 1) == 1:
            return frozenset()
        return self.groups.noted(group)

    def _ended(self, group: Group, indices: Collection[int]) -> Mapping[int, State]:
        """Those of some members that are open by the group's row, and have ended by their own.

        A member that was placed and has no row has ended; its row has expired.
        """
        asked = sorted(group.open.intersection(indices))
        if not asked:
            return {}
        known = self.groups.states(group, asked)
        ends = {index: each.state for index, each in known.items() if each.state in ENDED}
        expired = [index for index in asked if index not in known and index < group.placed]
        return {**ends, **dict.fromkeys(expired, State.COMPLETED)}

    def _note(self, group: Group, seen: frozenset[int], ended: frozenset[int], now_ms: int) -> Turn:
        """Note that these members have ended, and nothing else; look again with what is noted."""
        expires_at = now_ms // 1000 + DATA_DAYS * 86_400
        if seen == ended:
            return Turn(group)
        if seen <= ended:
            noted = self.groups.note_ends(group, ended - seen, expires_at)
        else:
            noted = self.groups.renew_noted(group, seen, ended, expires_at)
        return Turn(group, following=Look(noted=noted))

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
