"""Adapter for the `jobs` table: transitions that operators, the clock and recovery make."""

from dataclasses import replace

from joblane.aws.job.edits import JobEdits
from joblane.aws.job.items import (
    RAW,
    change,
    change_whole,
    data_key,
    data_sk,
    edit_of,
    key,
)
from joblane.aws.job.table import Refused, WriteCondition, at_edit, unchanged
from joblane.aws.table import ConditionFailed, Item, Row
from joblane.job.head import Head
from joblane.job.moves import apply, rearm
from joblane.key.segments import KeyName
from joblane.state.lifecycle import Event, State
from joblane.state.timeline import SAME_ATTEMPT, Step


class JobMoves(JobEdits):
    """Makes transitions outside of an attempt, and deletes jobs."""

    def unblock(self, job_id: str, condition: str, step: Step) -> Head:
        """Return a job that waits for `condition` to pending: one write, no read.

        Its message is sent after this, because an agent deletes the message of a blocked job. So a
        caller that crashes in between must run again; it is then refused with a pending head,
        and sends the message all the same.

            recovery                     table                      API
                                         blocked, C
                                         cancelled         <------  move: cancel
            unblock if blocked, C  --->  refused

        Raises Refused with the current job: it was cancelled, expired or deleted, waits for
        another condition, or is already pending.
        """
        write = self._transition(
            job_id,
            [replace(step, state=State.PENDING, attempt=SAME_ATTEMPT)],
            WriteCondition(
                "#state = :blocked AND #condition = :condition",
                {"blocked": State.BLOCKED, "condition": condition},
            ),
            removes=("condition", "waits_for"),
        )
        return self._complete(self._make(write))

    def grant(self, job_id: str, key: KeyName, slot: int, step: Step) -> Head:
        """Let a job go that got a slot of its key: to pending, one write, no read.

        Its message is sent after this, as after `unblock`.

            sequel                       table                      API
            key: B has slot 8
                                         cancelled         <------  move: cancel
            grant B if waiting  ----->   refused

        B's own end then frees the slot. An execution of `sequel` may be slow, and another one that
        gets the same event again overtake it; B may run, fail and wait again meanwhile:

            sequel 1                     table                      sequel 2, then API
            key: B has slot 8
                                         pending, slot 8   <------  grant B; runs, fails
                                         waiting, after 9  <------  retry: queued, the key is at 9
            grant B, slot 8  -------->   refused: 8 is not above 9

        Raises Refused with the job as it is.
        """
        write = self._transition(
            job_id,
            [replace(step, state=State.PENDING, attempt=SAME_ATTEMPT)],
            WriteCondition(
                "#state = :waiting AND #follows.#k = :key"
                " AND (attribute_not_exists(#queued_after) OR #queued_after < :slot)",
                {"waiting": State.WAITING, "key": key.encode(), "slot": slot},
            ),
            sets={"slot": slot},
            removes=("queued_after",),
        )
        return self._complete(self._make(write))

    def move(
        self,
        head: Head,
        event: Event,
        step: Step,
        *,
        expires_at: int | None = None,
        to: Head | None = None,
    ) -> Head:
        """Make a transition that `joblane.job.moves.plan` decided on `head`: one write.

        `to` is `head` with what else changes, such as the agent that it is assigned to.

        Conditional on that head's state and epoch, so a decision is never applied to a job that
        has changed since:

            API                          table                      agent
            reads pending, epoch 0
                                         active, epoch 1   <------  claim
            move: cancel if pending, 0   refused: decide again on the refusal's head

        Raises Refused with the job as it is, and Changed if another request was writing it.
        """
        after = apply(to or head, event, step, expires_at)
        if beside := self.as_submission(head, after, step.at_ms):
            self._write_with_submission(after, self.as_change(head, after), beside)
            return after
        sets, removes = _changes(head, after)
        shorter = len(after.timeline) <= len(head.timeline)
        steps, condition = [step], _as_seen(head)
        if shorter:
            steps, condition = list(after.timeline), unchanged(head)
        write = self._transition(
            head.job_id, steps, condition, sets=sets, removes=removes, instead=shorter
        )
        self._make(write)
        return after

    def as_change(self, head: Head, after: Head) -> Item:
        """The write that makes `after` of `head`, as a part of a transaction.

        Conditional on the head's state, epoch and timeline, so a job that changes meanwhile is not
        moved.
        """
        sets, removes = _changes(head, after)
        lines = [step.encode() for step in after.timeline]
        sets |= {"state": after.state, "timeline": lines}
        return self._as_update(head.job_id, unchanged(head), sets=sets, removes=removes)

    def as_skip(self, job_id: str, step: Step, expires_at: int) -> Item:
        """The write that skips a job that has not started, as a part of a transaction.

        It needs no read: a job that waits for its key, or that no agent has ever claimed, is
        skipped as it is.

            submission                   table                      agent
            reads the key: A holds it
                                         active, epoch 1   <------  claim A
            A: skipped if epoch 0 ---->  refused as a whole: decides anew
        """
        condition = WriteCondition(
            "#state = :waiting OR (#state = :pending AND #epoch = :none)",
            {"waiting": State.WAITING, "pending": State.PENDING, "none": 0},
        )
        return self._as_update(
            job_id,
            condition,
            sets={"state": State.SKIPPED, "expires_at": expires_at},
            removes=("attention", "wake", "wake_at", "waits_for", "next_at"),
            lines=[replace(step, state=State.SKIPPED, attempt=SAME_ATTEMPT).encode()],
        )

    def request_cancel(self, job_id: str, reason: str, epoch: int | None = None) -> Head:
        """Request the end of an active job's attempt; its agent is notified afterwards.

        `reason` should contain the time: equal reasons count as one request. `epoch` requests the
        end of that attempt only. Raises Refused with the job as it is: not active, or requested
        before.
        """
        holds = "#state = :active AND attribute_not_exists(#cancel_requested)"
        values: Row = {"active": State.ACTIVE}
        if epoch is not None:
            holds += " AND #epoch = :epoch"
            values["epoch"] = epoch
        return self._complete(
            self._update(
                job_id,
                WriteCondition(holds, values),
                lambda old: old.get("cancel_requested") == reason,
                sets={"cancel_requested": reason},
            )
        )

    def set_hidden(self, head: Head, *, hidden: bool) -> Head:
        """Leave an ended job out of lists, or show it again: one write.

        Conditional on that head's state and epoch, so a job that was restarted meanwhile is not
        hidden:

            API                          table                      API
            reads failed, epoch 1
                                         pending           <------  move: retry, shown
            set_hidden if failed, 1      refused

        Raises Refused with the job as it is.
        """
        condition = _as_seen(head)
        after = replace(head, hidden=hidden)
        sets, removes = change(head, after)
        if sets or removes:
            self._update(head.job_id, condition, lambda _: False, sets=sets, removes=removes)
        return after

    def rearm(
        self, head: Head, now_ms: int, *, at_ms: int | None = None, looked: bool = False
    ) -> None:
        """Set when the requeue function handles a job next, after it has handled it.

        At `at_ms`, or when what is to come next is due (`rearm`). `looked` notes that all members
        of an array were looked at. Conditional on the `wake_at` that was handled; a refusal counts
        as success.
        """
        after = rearm(head, now_ms) if at_ms is None else replace(head, wake_at_ms=at_ms)
        after = replace(after, looked_ms=now_ms) if looked else after
        sets, removes = change(head, after)
        if not sets and not removes:  # DynamoDB refuses an update without a change
            return
        condition = WriteCondition("#wake_at = :seen", {"seen": head.wake_at_ms or 0})
        try:
            self._update(head.job_id, condition, lambda _: False, sets=sets, removes=removes)
        except Refused:
            return

    def delete(self, job_id: str, seen: Head | None = None) -> None:
        """Delete a job that is not running; agents discard its message.

        The head is deleted first, so that no reader finds one without its submission; after a
        crash in between, the DATA item expires by its own TTL. With `seen` the job is deleted
        only if it has not changed since. Raises Refused: active, absent, or changed.
        """
        holds = "attribute_exists(job_id) AND #state <> :active"
        values: Row = {"active": State.ACTIVE}
        if seen is not None:
            holds += " AND #state = :seen AND #epoch = :epoch"
            values |= {"seen": seen.state, "epoch": seen.epoch}
        try:
            gone = self._table.delete(key(job_id), holds, **values)
        except ConditionFailed as failure:
            raise self._refused(failure) from failure
        # A member of a group may have the submission of its group. Each edit may have left one.
        data = [key(job_id, data_sk(edit)) for edit in range(edit_of(gone))]
        if "spec" not in gone and "spec_of" not in gone:
            data.append(data_key(gone))
        has_letter = gone["state"] in {State.DEAD, State.DISMISSED}
        for item in (*data, *((key(job_id, RAW),) if has_letter else ())):
            self._table.delete(item)


def _changes(head: Head, after: Head) -> tuple[Row, list[str]]:
    """What to SET and what to REMOVE, with the submission if it is of another edit."""
    return change(head, after) if after.edit == head.edit else change_whole(head, after)


def _as_seen(head: Head) -> WriteCondition:
    """A job still has the state, the epoch and the edit of `head`."""
    edit = at_edit(head.edit)
    return WriteCondition(
        f"#state = :before AND #epoch = :epoch AND {edit.text}",
        {"before": head.state, "epoch": head.epoch, **edit.values},
    )
