"""Show a page of a group's members: the roster says who they are, and their rows how they stand."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from joblane.aws.job.groups import GroupStore
from joblane.contract.groups import Member
from joblane.contract.problems import NotFound
from joblane.formats.times import rfc3339
from joblane.group.record import PAGE, Group
from joblane.job.assigned import overdue
from joblane.job.head import Head
from joblane.job.spec import is_broadcast
from joblane.state.lifecycle import State
from joblane.state.result import says_changed
from joblane.state.timeline import first_start


class ShownMembers(NamedTuple):
    """Members of a group, as its tenant sees them."""

    members: list[Member]
    more: bool
    """Whether others follow."""
    changed: bool
    """Whether a result says `"changed": true`: of one of these, or of a page that is done."""


@dataclass(frozen=True)
class GroupReader:
    """Reads groups as their tenant sees them."""

    groups: GroupStore
    find: Callable[[str, str], Head | None]
    """Reads a job by its tenant and id; None if the tenant has no such job."""
    now_ms: Callable[[], int]

    def require(self, tenant: str, group_id: str) -> Head:
        """Return the job of a group.

        Raises NotFound if the tenant has no such job, or if it is no group.
        """
        head = self.find(tenant, group_id)
        if head is None:
            raise NotFound("there is no such group")
        if head.group is None and not is_broadcast(head.spec.target):
            raise NotFound(f"job {group_id} is no group; see /v1/jobs")
        return head

    def members(self, head: Head, *, limit: int, after: int | None) -> ShownMembers:
        """Show the members after a number.

        One read of the roster for each hundred members that it crosses, and one of all rows. A
        group whose `run_at` has not come has none.
        """
        group, start = head.group, 0 if after is None else after + 1
        if group is None or start >= group.members:
            return ShownMembers([], more=False, changed=group is not None and group.changed)
        numbers = range(start, min(start + limit, group.members))
        begun = [group.id_of(index) for index in numbers if index < group.begun]
        rows = {row.job_id: row for row in self.groups.heads(begun, consistent=True)}
        rosters = {
            page: self.groups.roster(group, page)
            for page in range(numbers[0] // PAGE, numbers[-1] // PAGE + 1)
        }
        now_ms = self.now_ms()
        found = [
            _member(group, index, agents[index % PAGE], rows.get(group.id_of(index)), now_ms)
            for index in numbers
            if (agents := rosters[index // PAGE])  # else the group is being deleted
        ]
        changed = group.changed or any(says_changed(row.result) for row in rows.values())
        return ShownMembers(found, numbers.stop < group.members, changed)


def _member(group: Group, index: int, agent: str, row: Head | None, now_ms: int) -> Member:
    if row is None or row.has_expired_row(now_ms / 1000):
        return _without_row(group, index, agent)
    late = overdue(row, now_ms)
    start = first_start(row.timeline)
    return Member(
        agent=agent,
        index=index,
        id=row.job_id,
        state=row.state if late is None else State.FAILED,
        reason=row.reason if late is None else late.partition(";")[0],
        attempt=row.attempt,
        exit_code=row.exit_code,
        outcome=row.outcome,
        result=None if row.result is None else json.loads(row.result),
        started_at=None if start is None else rfc3339(start.at_ms),
        ended_at=rfc3339(row.timeline[-1].at_ms) if row.ended else None,
    )


def _without_row(group: Group, index: int, agent: str) -> Member:
    state: State | None
    job_id: str | None = None
    if index >= group.begun and group.stop is not None:
        state, reason = group.stop.state, f"not begun: {group.stop.why}"
    elif index >= group.begun:
        state, reason = State.WAITING, "waits for its turn in its group"
    elif index >= group.placed and index // PAGE not in group.done:
        state, reason = State.WAITING, "is being sent to its agent"
    else:
        job_id, state, reason = group.id_of(index), None, "it has ended, and its row has expired"
    return Member(
        agent=agent,
        index=index,
        id=job_id,
        state=state,
        reason=reason,
        attempt=0,
        exit_code=None,
        outcome=None,
        result=None,
        started_at=None,
        ended_at=None,
    )
