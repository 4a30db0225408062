"""Find members of a group whose reasons are asked for: those that are open, and one by its number.

Two requests at most: a hundred rows of members, and the submission that they share.
"""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from joblane.aws.job.jobs import JobStore
from joblane.job.head import Head
from joblane.state.lifecycle import State
from joblane.why.situation import Members

LOOKED_AT = 100
"""Members of a group that are read: one request."""


class OpenMembers(NamedTuple):
    """What was read of the open members of a group."""

    members: Members
    waiting: Head | None
    """The first of them that does not run."""


@dataclass(frozen=True)
class MemberReader:
    """Reads members of groups."""

    jobs: JobStore

    def read_open(self, head: Head) -> OpenMembers | None:
        """Members of the first page with open ones, or those that are known to be open."""
        group = head.group
        if group is None or not (group.open or group.open_pages):
            return None
        if group.open:
            numbers = sorted(group.open)[:LOOKED_AT]
        else:
            numbers = [n for n in group.page(group.open_pages[0]) if n < group.begun]
        rows = self.jobs.heads([group.id_of(number) for number in numbers])
        left = [row for row in rows if not row.ended]
        states = Counter(row.state for row in left)
        waiting = next((row for row in left if row.state is not State.ACTIVE), None)
        return OpenMembers(Members(len(rows), dict(states), left[0] if left else None), waiting)

    def read(self, head: Head, number: int, now_ms: int) -> Head | None:
        """The job of a member, by its number; None if it has no row."""
        group = head.group
        if group is None or number >= group.begun:
            return None
        rows = self.jobs.heads([group.id_of(number)], consistent=True)
        return next((row for row in rows if not row.has_expired_row(now_ms / 1000)), None)

    def read_group(self, member: Head) -> Head | None:
        """The group of a member; None if it was deleted."""
        if member.member_of is None:
            return None
        return next(iter(self.jobs.heads([member.member_of.group_id])), None)
