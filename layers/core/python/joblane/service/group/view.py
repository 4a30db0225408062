"""Show a group: how many of its members are in each state, and a page of them.

Of pages of members that are done the group's row says how they ended; the others are read. So a
filter by state reads no page that has no such member.
"""

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

from joblane.aws.job.groups import GroupStore
from joblane.contract.groups import GroupKind, Member
from joblane.contract.problems import NotFound
from joblane.formats.times import rfc3339
from joblane.group.not_begun import without_row
from joblane.group.record import PAGE, Group
from joblane.group.states import FAILURES, Tally, add_up
from joblane.job.assigned import overdue
from joblane.job.head import Head
from joblane.state.lifecycle import State
from joblane.state.result import says_changed
from joblane.state.timeline import first_start

MOST_EXAMINED = 1000
"""Members whose rows a request with a filter by state reads at most."""

AT_ONCE = 8
"""Pages whose rows are read at the same time."""


class ShownMembers(NamedTuple):
    """Members of a group, as its tenant sees them."""

    members: list[Member]
    last: int | None
    """The number after which others follow; None if none do."""
    changed: bool
    """Whether a result says `"changed": true`: of one of these, or of a page that is done."""


class CountedMembers(NamedTuple):
    """What has become of the members of a group."""

    counts: Tally
    numbers: Mapping[State, Sequence[int]]
    """The numbers of the members in each state, in order; those whose rows have expired are left
    out where only their rows would say it."""

    @property
    def failed(self) -> list[int]:
        """The numbers of those that failed, in order."""
        return sorted(n for state in FAILURES for n in self.numbers.get(state, ()))


def kind_of(head: Head) -> GroupKind:
    """Which kind of group a job is, or becomes."""
    return "broadcast" if head.spec.array is None else "array"


@dataclass(frozen=True)
class GroupReader:
    """Reads groups as their tenant sees them."""

    groups: GroupStore
    find: Callable[[str, str], Head | None]
    """Reads a job by its tenant and id; None if the tenant has no such job."""
    now_ms: Callable[[], int]
    _: KW_ONLY
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    def require(self, tenant: str, group_id: str) -> Head:
        """Return the job of a group.

        Raises NotFound if the tenant has no such job, or if it is no group.
        """
        head = self.find(tenant, group_id)
        if head is None:
            raise NotFound("there is no such group")
        if head.group is None and not head.spec.makes_group:
            raise NotFound(f"job {group_id} is no group; see /v1/jobs")
        return head

    def count(self, head: Head) -> CountedMembers:
        """Count the members of a group by state, those that have not begun included.

        Reads the rows of pages that are not done, and of those whose members ended in more ways
        than the group's row tells apart.
        """
        group = head.group
        if group is None:
            return CountedMembers({}, {})
        found: Counter[State] = Counter(group.ended)
        if group.stop is None and group.begun < group.members:
            found[State.WAITING] += group.members - group.begun
        left = State.WAITING if group.stop is None else group.stop.state
        states: dict[int, State] = {n: left for n in range(group.begun, group.members)}  # noqa: C420
        told = {page: _told(group, page) for page in group.done}
        states |= {index: state for page in told.values() if page for index, state in page.items()}

        def read(page: int) -> dict[int, State]:
            numbers = [index for index in group.page(page) if index < group.begun]
            rows = self.groups.states(group, numbers)
            absent = {index: State.WAITING for index in numbers if index >= group.placed}
            return absent | {index: row.state for index, row in rows.items()}

        pages = [*group.open_pages, *(page for page, known in told.items() if known is None)]
        with self.pool(AT_ONCE) as pool:
            for page, read_states in zip(pages, pool.map(read, pages), strict=True):
                states |= read_states
                if page not in told:
                    found.update(read_states.values())
        numbers: dict[State, list[int]] = {}
        for index in sorted(states):
            numbers.setdefault(states[index], []).append(index)
        return CountedMembers(add_up([found]), numbers)

    def members(
        self,
        head: Head,
        *,
        limit: int,
        after: int | None,
        states: Collection[State] = (),
        chosen: Sequence[int] | None = None,
    ) -> ShownMembers:
        """Show the members after a number; with `states` those in one of them.

        With `chosen`, of these alone, which are in order. One read of the roster for each hundred
        members that it crosses, and one of all rows. A group whose `run_at` has not come has none.
        """
        group, start = head.group, 0 if after is None else after + 1
        if group is None:
            return ShownMembers([], None, changed=False)
        every = range(group.members) if chosen is None else chosen
        left: Sequence[int] = every[bisect_left(every, start) :]
        found, changed, examined = list[Member](), group.changed, 0
        while left and len(found) < limit and examined < MOST_EXAMINED:
            # Without a filter what is looked at is shown.
            end = min(limit - len(found) if not states else PAGE, len(left))
            numbers = [n for n in left[:end] if not states or n // PAGE == left[0] // PAGE]
            left = left[len(numbers) :]
            if not _may_have(group, numbers, states):
                continue
            examined += sum(number < group.begun for number in numbers)
            members, new = self._read(head, group, numbers)
            changed |= new
            for number, member in members.items():
                if states and member.state not in states:
                    continue
                if len(found) == limit:
                    left = every[bisect_left(every, number) :]
                    break
                found.append(member)
        last = left[0] - 1 if left else None
        return ShownMembers(found, last, changed)

    def _read(
        self, head: Head, group: Group, numbers: Sequence[int]
    ) -> tuple[dict[int, Member], bool]:
        """Members as they stand, and whether a result of theirs says `changed`."""
        begun = [group.id_of(index) for index in numbers if index < group.begun]
        rows = {row.job_id: row for row in self.groups.heads(begun, consistent=True)}
        agents = self._agents(group, numbers)
        now_ms = self.now_ms()
        found = {
            number: _without_row(number, agents[number], group, head.spec.max_concurrency)
            if row is None or row.has_expired_row(now_ms / 1000)
            else _member(number, agents[number], row, group, now_ms)
            for number in numbers
            if number in agents  # else the group is being deleted
            for row in [rows.get(group.id_of(number))]
        }
        return found, any(says_changed(row.result) for row in rows.values())

    def _agents(self, group: Group, numbers: Sequence[int]) -> dict[int, str | None]:
        """The agents that members were made for."""
        if group.array is not None:
            return dict.fromkeys(numbers)
        rosters = {
            page: self.groups.roster(group, page)
            for page in sorted({number // PAGE for number in numbers})
        }
        return {
            number: names[number % PAGE] for number in numbers if (names := rosters[number // PAGE])
        }


def _told(group: Group, page: int) -> dict[int, State] | None:
    """How the members of a page that is done ended, as the group's row has it.

    It counts them by state, and says which failed; None if that does not tell who is in which.
    """
    numbers = [index for index in group.page(page) if index < group.begun]
    ends = [state for state, count in group.done[page].items() if count]
    lost, rest = ([state for state in ends if (state in FAILURES) is bad] for bad in (True, False))
    if len(lost) > 1 or len(rest) > 1:
        return None
    return {index: (lost if index in group.lost else rest)[0] for index in numbers}


def _may_have(group: Group, numbers: Sequence[int], states: Collection[State]) -> bool:
    """Whether some of these members of one page may be in one of the states, if any are named."""
    if not states:
        return True
    page = numbers[0] // PAGE
    begun = sum(index < group.begun for index in numbers)
    if begun < len(numbers):
        left = State.WAITING if group.stop is None else group.stop.state
        if left in states:
            return True
    if not begun:
        return False
    tally = group.done.get(page)
    return tally is None or any(state in states for state in tally)


def _member(number: int, agent: str | None, row: Head, group: Group, now_ms: int) -> Member:
    late = overdue(row, now_ms)
    start = first_start(row.timeline)
    return Member(
        agent=agent or row.agent,
        index=group.index_of(number),
        id=row.job_id,
        state=row.state if late is None else State.FAILED,
        reason=row.reason if late is None else late.partition(";")[0],
        attempt=row.attempt,
        exit_code=row.exit_code,
        outcome=row.outcome,
        result=None if row.result is None else json.loads(row.result),
        result_size=None if row.result_object is None else row.result_object.size,
        output_files=row.output_files,
        started_at=None if start is None else rfc3339(start.at_ms),
        ended_at=rfc3339(row.timeline[-1].at_ms) if row.ended else None,
    )


def _without_row(number: int, agent: str | None, group: Group, most: int | None) -> Member:
    state, reason = without_row(group, number, most)
    job_id = group.id_of(number) if state is None else None
    return Member(
        agent=agent,
        index=group.index_of(number),
        id=job_id,
        state=state,
        reason=reason,
        attempt=0,
        exit_code=None,
        outcome=None,
        result=None,
        result_size=None,
        output_files=None,
        started_at=None,
        ended_at=None,
    )
