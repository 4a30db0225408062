"""Adapter for the `jobs` table: groups, their rosters, and the rows of their members.

A group is read, a decision is made on it (`joblane.target.group`), and the next one is written only
if its version is still the same.
"""

from collections.abc import Sequence
from dataclasses import replace

from joblane.aws.group_items import group_value, roster_key, roster_row
from joblane.aws.job_items import change, to_row
from joblane.aws.job_table import Condition, Refused
from joblane.aws.jobs import JobStore
from joblane.aws.table import ConditionFailed, Item
from joblane.job.head import Head
from joblane.job.timeline import Step
from joblane.target.group import PAGE, Group


class GroupChanged(Exception):
    """The group has changed since it was read: read it again and decide anew."""


class GroupStore(JobStore):
    """Reads and writes groups, beside jobs."""

    def put_roster(self, group: Group, agents: Sequence[str], expires_at: int) -> None:
        """Write down the agents of a group that is to be put.

        One item for each page; a group in the table always has its roster.
        """
        for page, start in enumerate(range(0, len(agents), PAGE)):
            names = agents[start : start + PAGE]
            self._table.put(roster_row(group, page, names, expires_at))

    def roster(self, group: Group, page: int) -> tuple[str, ...]:
        """Read the agents of a page, in order; empty if the group was deleted."""
        row = self._table.get(roster_key(group, page))
        return () if row is None else tuple(row["agents"].split(" "))

    def delete_roster(self, group: Group) -> None:
        """Delete the roster of a group."""
        self._table.delete_many([roster_key(group, page) for page in range(group.pages)])

    def put_member(self, head: Head) -> bool:
        """Store the job of a member; False if it is there already. One write unit.

        Its submission is that of `head`, inline, or the one of the job that `spec_of` names.
        """
        row = self._new_row(head) if head.spec_of is None else to_row(head)
        try:
            self._table.put(row, "attribute_not_exists(job_id)")
        except ConditionFailed:
            return False
        return True

    def write_group(self, seen: Head, after: Head) -> None:
        """Write the next version of a group, with its step if `after` has one more.

        Raises GroupChanged if it has changed since `seen` was read, or was deleted.

            sequel                       table                      API
            reads version 4, members: all have ended
                                         version 5         <------  retry of a member
            write if version 4  ----->   refused: reads again, and finds an open member

        The SDK repeats a call whose answer was lost; a row that has this very group counts as
        written.
        """
        if after.group is None:
            raise ValueError(f"job {after.job_id} is no group")
        value = group_value(after.group)
        sets, removes = change(seen, after)
        new = after.timeline[len(seen.timeline) :]
        try:
            self._update(
                seen.job_id,
                _unchanged(seen),
                lambda row: row.get("group") == value,
                sets=sets,
                removes=removes,
                lines=[step.encode() for step in new],
            )
        except Refused as refused:
            raise GroupChanged from refused

    def as_write_group(self, seen: Head, after: Head) -> Item:
        """`write_group` as a part of a transaction, which is refused if the group has changed."""
        sets, removes = change(seen, after)
        new = after.timeline[len(seen.timeline) :]
        return self._as_update(
            seen.job_id,
            _unchanged(seen),
            sets=sets,
            removes=removes,
            lines=[step.encode() for step in new],
        )


def with_group(head: Head, group: Group, step: Step | None = None) -> Head:
    """A group's job with its next value, and the step that follows from it."""
    after = replace(head, group=group)
    if step is None:
        return after
    return replace(after, state=step.state, timeline=(*head.timeline, step))


def _unchanged(seen: Head) -> Condition:
    """A group still has the version of `seen`."""
    if seen.group is None:
        raise ValueError(f"job {seen.job_id} is no group")
    return Condition("#group.#v = :seen", {"seen": seen.group.version})
