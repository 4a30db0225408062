"""Adapter for the `jobs` table: groups, their rosters, and the rows of their members.

A group is read, a decision is made on it (`joblane.group.record`), and the next one is written only
if its version is still the same.
"""

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from joblane.aws.job.array_values import all_values_keys
from joblane.aws.job.group_items import group_value, noted_key, roster_key, roster_row
from joblane.aws.job.items import (
    change,
    change_whole,
    data_key,
    data_sk,
    edit_of,
    from_row,
    key,
    to_row,
)
from joblane.aws.job.jobs import JobStore
from joblane.aws.job.table import Refused, WriteCondition
from joblane.aws.table import ConditionFailed, Row, TransactionRefused
from joblane.errors import Changed
from joblane.group.record import PAGE, Group
from joblane.job.head import Head
from joblane.state.lifecycle import State
from joblane.state.result import says_changed
from joblane.state.timeline import Step


class MemberState(NamedTuple):
    """What a group's state depends on, of the row of a member."""

    state: State
    changed: bool
    """Whether its result says `"changed": true`; of one that is in S3 that is not known."""


class GroupStore(JobStore):
    """Reads and writes groups, beside jobs."""

    def put_roster(self, group: Group, agents: Sequence[str], expires_at: int) -> None:
        """Write down the agents of a group that is to be put.

        One item for each page, in four requests at most; a group in the table always has its
        roster.
        """
        pages = [agents[start : start + PAGE] for start in range(0, len(agents), PAGE)]
        self._table.put_many(
            [roster_row(group, page, names, expires_at) for page, names in enumerate(pages)]
        )

    def roster(self, group: Group, page: int) -> tuple[str, ...]:
        """Read the agents of a page, in order; empty if the group was deleted."""
        row = self._table.get(roster_key(group, page))
        return () if row is None else tuple(row["agents"].split(" "))

    def delete_beside(self, head: Head) -> None:
        """Delete what lies beside a group: its roster or its values, and noted ends."""
        if head.group is not None:
            self._table.delete_many([*_beside(head), noted_key(head.group)])

    def keep_data(self, head: Head, expires_at: int) -> None:
        """Let the submission of a job, and what lies beside it, live on until `expires_at`.

        In Unix seconds. What lives for longer, as that of a job that starts in years, is left as
        it is. What is not there, as a submission in the head, is no error: a write unit. Raises
        Unavailable.
        """
        keys = [key(head.job_id, data_sk(head.edit)), *_beside(head)]
        if head.group is not None:
            # Members that have ended may have the submission of before a restart.
            keys += [key(head.job_id, data_sk(edit)) for edit in range(head.edit)]
        for each in keys:
            with suppress(ConditionFailed):
                self._table.update(each, "SET expires_at = :at", "expires_at < :at", at=expires_at)

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

    def progress(self, group_id: str) -> Head | None:
        """Read a group without its submission, of which only what belongs to its target is there.

        One read, however long the submission is; None if it was deleted, or is no group.
        """
        row = self._table.get(key(group_id))
        if row is None or "group" not in row:
            return None
        spec = row.get("spec") or json.dumps(_SOME_SPEC | json.loads(row["targeting"]))
        return from_row(row, {"spec": spec})

    def states(self, group: Group, indices: Iterable[int]) -> dict[int, MemberState]:
        """Read the states of members, strongly consistent; those without a row are left out."""
        wanted = {group.id_of(index): index for index in indices}
        rows = self._table.get_many([key(job_id) for job_id in wanted], consistent=True)
        return {
            wanted[row["job_id"]]: MemberState(State(row["state"]), says_changed(row.get("result")))
            for row in rows
        }

    def noted(self, group: Group) -> frozenset[int]:
        """Read which members' ends are noted, strongly consistent."""
        row = self._table.get(noted_key(group))
        return frozenset() if row is None else _read_noted(row)

    def note_ends(self, group: Group, indices: Iterable[int], expires_at: int) -> frozenset[int]:
        """Note that members have ended; returns all that are noted then.

        Whatever others note at the same time is kept, and no such write refuses another one. A unit
        for up to 250 members. The item expires at `expires_at`, in Unix seconds.
        """
        ended = frozenset(map(str, indices))
        update = "SET #expires_at = :at ADD #ended :ended"
        return _read_noted(self._table.update(noted_key(group), update, at=expires_at, ended=ended))

    def renew_noted(
        self, group: Group, seen: frozenset[int], indices: Iterable[int], expires_at: int
    ) -> frozenset[int]:
        """Note these ends in place of those that were `seen`; returns what is noted then.

        Raises Changed if others have noted more since:

            sequel 1                     item                       sequel 2
            reads 3, 4: taken out        3, 4                       reads 3, 4
                                         3, 4, 9      <-----------  adds 9
            9 only if 3, 4  -------->    refused: reads again
        """
        row = noted_key(group) | {
            "ended": frozenset(map(str, indices)) or None,
            "expires_at": expires_at,
        }
        old = frozenset(map(str, seen))
        try:
            if old:
                self._table.put(row, "#ended = :old", old=old)
            else:
                self._table.put(row, "attribute_not_exists(#ended)")
        except ConditionFailed as failure:
            raise _changed() from failure
        return frozenset(indices)

    def write_group(self, seen: Head, after: Head) -> None:
        """Write the next version of a group, with its step if `after` has one more.

        Raises Changed if it has changed since `seen` was read, or was deleted.

            sequel                       table                      API
            reads version 4, members: all have ended
                                         version 5         <------  retry of a member
            write if version 4  ----->   refused: reads again, and finds an open member

        The SDK repeats a call whose answer was lost; a row that has this very group counts as
        written.
        """
        if after.group is None:
            raise ValueError(f"job {after.job_id} is no group")
        if self.as_submission(seen, after, after.timeline[-1].at_ms):
            self.write_group_with(seen, after, ())
            return
        value = group_value(after.group)
        sets, removes = _changes(seen, after)
        try:
            self._update(
                seen.job_id,
                _unchanged(seen),
                lambda row: row.get("group") == value,
                sets=sets,
                removes=removes,
            )
        except Refused as refused:
            raise _changed() from refused

    def write_group_with(self, seen: Head, after: Head, moves: Sequence[tuple[Head, Head]]) -> None:
        """Write the next version of a group together with transitions of its members.

            sequel                       table                      API
            reads version 4
            reads the members: ended
                                         version 5, member 7
                                         pending           <------  retry of member 7
            page done if 4  -------->    refused

        So is its submission, if that has changed. In one transaction, so a group never counts a
        member as ended that runs again. Raises Changed if the group or one of the members has
        changed since they were read.
        """
        sets, removes = _changes(seen, after)
        group = self._as_update(seen.job_id, _unchanged(seen), sets=sets, removes=removes)
        try:
            data = self.as_submission(seen, after, after.timeline[-1].at_ms)
            self._table.transact([group, *data, *(self.as_change(*move) for move in moves)])
        except TransactionRefused as refusal:
            if after.group is not None and refusal.row(0).get("group") == group_value(after.group):
                return  # written before, and the answer was lost
            raise _changed() from refusal

    def delete_group(self, seen: Head) -> None:
        """Delete a group's own items if it has not changed since `seen` was read.

        Its members and its roster are deleted before. Raises Changed.
        """
        condition = _unchanged(seen)
        try:
            gone = self._table.delete(key(seen.job_id), condition.text, **condition.values)
        except ConditionFailed as failure:
            if not failure.row:
                return
            raise _changed() from failure
        data = [key(seen.job_id, data_sk(edit)) for edit in range(edit_of(gone))]
        if "spec" not in gone:
            data.append(data_key(gone))
        for item in data:
            self._table.delete(item)


def _beside(head: Head) -> list[Row]:
    """Primary keys of the items with the roster of a broadcast, or the values of an array.

    A scheduled array has its values; the roster of a broadcast is chosen when it is due.
    """
    group = head.group
    if head.spec.array is not None:
        return all_values_keys(head)
    if group is None:
        return []
    return [roster_key(group, page) for page in range(group.pages)]


def _read_noted(row: Row) -> frozenset[int]:
    return frozenset(map(int, row.get("ended", ())))


def _changed() -> Changed:
    return Changed("the group is being changed by other requests; try again")


_SOME_SPEC = {"command": ["-"]}
"""Stands for a submission that is not read."""


def _changes(seen: Head, after: Head) -> tuple[Row, list[str]]:
    """What to SET and what to REMOVE, the timeline included.

    Whoever adds a line to the timeline of a group changes its version, too.
    """
    edited = after.edit != seen.edit
    sets, removes = change_whole(seen, after) if edited else change(seen, after)
    if after.timeline != seen.timeline:
        sets["timeline"] = [step.encode() for step in after.timeline]
    return sets, removes


def with_group(head: Head, group: Group, step: Step | None = None) -> Head:
    """A group's job with its next value, and the step that follows from it."""
    after = replace(head, group=group)
    if step is None:
        return after
    return replace(after, state=step.state, timeline=(*head.timeline, step))


def _unchanged(seen: Head) -> WriteCondition:
    """A group still has the version of `seen`."""
    if seen.group is None:
        raise ValueError(f"job {seen.job_id} is no group")
    return WriteCondition("#group.#v = :seen", {"seen": seen.group.version})
