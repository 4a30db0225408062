"""A group: the jobs that one broadcast or one array became, and how far they have come.

A group is a value. Every change of it is written by comparing its version
(`joblane.aws.job.group_items`); what it holds is what nobody can compute from the members at the
price of a few reads. Members are numbered from 0: of a broadcast in the order of their agents'
names, of an array in the order of their indices.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Self

from joblane.formats.ids import nth_id, number_of
from joblane.group.array import Indices
from joblane.group.states import FAILURES, Tally, add_up, sentence, state_of
from joblane.state.lifecycle import State

PAGE = 100
"""Members that are put, read and settled together: as many as a BatchGetItem reads."""

PUT_MS = 20 * 3_600_000
"""For so long after they were begun members are put, in milliseconds: rows of ended jobs live for a
day at least (`joblane.state.retention`)."""

MOST_RESTARTS = 25
"""Members that are retried together: their rows and the group's row are one transaction."""


@dataclass(frozen=True, slots=True)
class MemberOf:
    """Which member of which group a job is."""

    group_id: str
    index: int

    def encode(self) -> str:
        """The attribute `g` of a member's `follows`: `01J...#12`."""
        return f"{self.group_id}#{self.index}"

    @classmethod
    def decode(cls, text: str) -> Self:
        """Inverse of `encode`. Raises ValueError."""
        group_id, _, index = text.partition("#")
        return cls(group_id, int(index))

    @property
    def page(self) -> int:
        """The page that it belongs to."""
        return self.index // PAGE


@dataclass(frozen=True, slots=True)
class Stop:
    """Why the members that have not begun are not begun any more."""

    state: Literal[State.SKIPPED, State.CANCELLED]
    """As what they count."""
    why: str
    retried: bool = False
    """Of a cancel: whether members were retried after it. They run; what has not begun does not."""


@dataclass(frozen=True, slots=True)
class Group:
    """The progress of a group; immutable."""

    members: int
    first: str
    """Id of the first member; those of the others follow it."""
    version: int = 1
    begun: int = 0
    """Members below this number were begun: their rows and messages exist, or are being written."""
    placed: int = 0
    """Members below this number have their rows, and their messages were sent."""
    begun_ms: int = 0
    """When the first of the members was begun that are not noted as placed, in Unix milliseconds:
    they may have had rows that have expired since, if that is long ago."""
    done: Mapping[int, Tally] = field(default_factory=dict)
    """Pages whose members have all ended, and how."""
    open: frozenset[int] = frozenset()
    """Members that were begun and may not have ended: each that has not is among them; kept only
    with `max_concurrency`. Those that have ended are taken out when further ones begin."""
    failed: frozenset[int] = frozenset()
    """Members that count for `max_failures`, as far as they were taken out of `open`; without that,
    those of pages that are not done. Kept only with `max_concurrency`."""
    again: tuple[int, ...] = ()
    """Members that are to be retried once there is room, in order; kept only with
    `max_concurrency`."""
    stop: Stop | None = None
    array: Indices | None = None
    """Of an array: the indices of its members, which run on any agents; None for a broadcast."""
    tolerate: int = 0
    """So many members may fail, and the group is completed all the same."""
    lost: frozenset[int] = frozenset()
    """Members of pages that are done that failed."""
    goes_on: bool = False
    """Whether members are left to be placed of which nobody takes care: `sequel` goes on."""
    changed: bool = False
    """Whether the result of a completed member of a page that is done says `"changed": true`. Such
    a member is not retried, so this is never taken back."""

    def id_of(self, index: int) -> str:
        """Id of a member's job."""
        return nth_id(self.first, index)

    def number_of(self, job_id: str) -> int:
        """Inverse of `id_of`."""
        return number_of(job_id) - number_of(self.first)

    def index_of(self, number: int) -> int:
        """The index of a member, by its number."""
        return number if self.array is None else self.array.of(number)

    def page(self, number: int) -> range:
        """The members of a page."""
        return range(number * PAGE, min((number + 1) * PAGE, self.members))

    def may_put(self, now_ms: int) -> bool:
        """Whether a member that was begun before, and has no row, is put to run.

        After `PUT_MS` it may have run, and its row may have expired.
        """
        return now_ms - self.begun_ms < PUT_MS

    @property
    def pages(self) -> int:
        """How many pages it has."""
        return -(-self.members // PAGE)

    @property
    def open_pages(self) -> list[int]:
        """Pages with members that were begun, of which some may not have ended."""
        return [page for page in range(-(-self.begun // PAGE)) if page not in self.done]

    @property
    def waiting(self) -> int:
        """Members that are still to be begun, or to be retried once there is room."""
        left = self.members - self.begun if self.stop is None else 0
        return left + len(self.again)

    @property
    def cancels(self) -> bool:
        """Whether members that have not ended are to be cancelled."""
        stop = self.stop
        return stop is not None and stop.state is State.CANCELLED and not stop.retried

    @property
    def settled(self) -> bool:
        """Whether every member has ended, or is not to be begun any more."""
        return not self.waiting and not self.open_pages

    def may_be_done(self, page: int) -> bool:
        """Whether a page is done if all its members that were begun have ended."""
        numbers = self.page(page)
        whole = numbers.stop <= self.begun or self.stop is not None
        return whole and not any(index in numbers for index in self.again)

    @property
    def ended(self) -> Tally:
        """What is known of members that have ended, those that were never begun included."""
        parts = list(self.done.values())
        if self.stop is not None and self.begun < self.members:
            parts.append({self.stop.state: self.members - self.begun})
        return add_up(parts)

    @property
    def state(self) -> State:
        """The group's state."""
        if not self.settled:
            return State.PROCESSING
        return state_of(self.ended, self.members, self.tolerate)

    @property
    def reason(self) -> str:
        """The group's reason: a sentence."""
        if not self.members:
            return "no agent matches"
        if not self.settled:
            return f"waits for its {self.members} members"
        said = sentence(self.ended, self.members, self.tolerate)
        return said if self.stop is None else f"{said}: {self.stop.why}"

    def next(self, **changes: Any) -> "Group":
        """The group with changes and the next version."""
        return replace(self, version=self.version + 1, **changes)


def begin_page(group: Group) -> Group:
    """Begin the next members, up to the end of a page; the group itself if none is left."""
    if group.stop is not None or group.begun == group.members:
        return group
    return group.next(begun=group.page(group.begun // PAGE).stop)


def note_placed(group: Group, upto: int) -> Group:
    """Note that the members below `upto` have their rows and messages."""
    return group if upto <= group.placed else group.next(placed=min(upto, group.begun))


def page_done(
    group: Group,
    page: int,
    tally: Tally,
    *,
    failed: Collection[int] = (),
    changed: bool = False,
) -> Group:
    """Note that all members of a page that were begun have ended.

    `tally`, which of them `failed`, and whether a result says `changed`, are computed from their
    rows, read after this version of the group.
    """
    if page in group.done or not group.may_be_done(page):
        return group
    return group.next(
        done={**group.done, page: dict(tally)},
        open=group.open.difference(group.page(page)),
        lost=group.lost.union(failed),
        changed=group.changed or changed,
    )


def chunk_of(max_concurrency: int) -> int:
    """How many places must be free before further members begin.

    A sixteenth of them, at least one: so many are idle at most, and the group's row is written once
    for so many ends.
    """
    return max(1, max_concurrency // 16)


def has_room(group: Group, open_members: int, max_concurrency: int, chunk: int) -> bool:
    """Whether further members begin, while so many have not ended.

    If `chunk` places are free, or enough for all that wait.
    """
    wanted = min(chunk, group.waiting)
    return wanted > 0 and max_concurrency - open_members >= wanted


class Rolled(NamedTuple):
    """The next step of a group with `max_concurrency`."""

    group: Group
    begin: tuple[int, ...]
    """Members to put, and to send messages for."""
    restart: tuple[int, ...]
    """Members to retry."""


def roll(
    group: Group,
    ended: Mapping[int, State],
    max_concurrency: int,
    max_failures: int | None,
    chunk: int = 1,
) -> Rolled:
    """Take ended members out, and begin as many as there is room for, if `chunk` places are free.

    `ended` has the states of members whose rows, read after this version of the group, show that
    they have ended. A member that is not open any more changes nothing.
    """
    new = {index: state for index, state in ended.items() if index in group.open}
    still = group.open - new.keys()
    failed = group.failed | {index for index, state in new.items() if state in FAILURES}
    if max_failures is None:
        failed = frozenset(index for index in failed if index // PAGE not in group.done)
    stop, again = group.stop, group.again
    if stop is None and max_failures is not None and len(failed) > max_failures:
        some = "1 member has" if len(failed) == 1 else f"{len(failed)} members have"
        stop = Stop(State.SKIPPED, f"{some} failed, and max_failures is {max_failures}")
    if stop is not None and not stop.retried:
        again = ()
    group_then = replace(group, stop=stop, again=again)
    room = 0
    if has_room(group_then, len(still), max_concurrency, chunk):
        room = max_concurrency - len(still)
    at_once = min(room, MOST_RESTARTS)
    restart, again = again[:at_once], again[at_once:]
    room = 0 if again else room - len(restart)
    upto = group.begun if stop is not None else min(group.begun + room, group.members)
    begin = tuple(range(group.begun, upto))
    values: dict[str, Any] = {
        "open": still | {*begin, *restart},
        "failed": failed,
        "again": again,
        "stop": stop,
        "begun": upto,
        **_open_again(group, restart),
    }
    changed = replace(group, **values) != group
    return Rolled(group if not changed else group.next(**values), begin, restart)


def cancel_group(group: Group, why: str) -> Group:
    """Begin no further members, and cancel those that have not ended; as it is if it has ended.

    Also after `max_failures` has stopped it: what has not begun is cancelled then, not skipped.
    """
    if group.cancels or group.settled:
        return group
    return group.next(stop=Stop(State.CANCELLED, why), again=())


def retry_members(group: Group, indices: Iterable[int], *, rolling: bool) -> Group:
    """Let members that have ended run again, at once or, with `rolling`, when there is room.

    With `rolling`, members that were not begun because others failed are begun as well. Those that
    a cancel kept from beginning stay cancelled.
    """
    chosen = tuple(sorted(indices))
    pages = _open_again(group, chosen)
    stop = group.stop
    if stop is not None:
        stop = None if stop.state is State.SKIPPED else replace(stop, retried=True)
    if not rolling:
        return group.next(**pages, stop=stop)
    again = tuple(sorted({*group.again, *chosen}))
    still = group.open.difference(chosen)
    return group.next(**pages, open=still, again=again, failed=frozenset(), stop=stop)


def _open_again(group: Group, indices: Iterable[int]) -> dict[str, Any]:
    """What a group has of its pages that are done once some members run again."""
    pages = {index // PAGE for index in indices}
    return {
        "done": {page: tally for page, tally in group.done.items() if page not in pages},
        "lost": frozenset(index for index in group.lost if index // PAGE not in pages),
    }
