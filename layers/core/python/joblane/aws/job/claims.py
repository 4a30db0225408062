"""Adapter for the `jobs` table: an agent's writes, from the claim to the end of an attempt.

"Never two at once" rests on the conditions of the claim, the takeover and the settlement; the
time-line of the race that each condition settles stands beside it.
"""

from contextlib import suppress

from joblane.aws.job.items import change
from joblane.aws.job.table import JobTable, Refused, RowWrite, WriteCondition, at_edit
from joblane.aws.table import Item, Row
from joblane.job.head import Head
from joblane.job.message import Message
from joblane.job.moves import AttemptFacts, attempt_ended, rearm
from joblane.state.lifecycle import CLAIMABLE, ENDED, TRANSITIONS, State
from joblane.state.timeline import SAME_ATTEMPT, Step

EARLY_MS = 5000
"""How much before its time a retry may start: SQS delays messages by its own clock, and the clock
of this host may be slow."""

_IN_TIME = "(attribute_not_exists(#deadline) OR #deadline > :now)"


class JobClaims(JobTable):
    """Claims jobs, and ends their attempts."""

    def claim(self, message: Message, agent: str, now_ms: int) -> Head:
        """Take the job of a message for `agent`: one write. Raises Refused with the job as it is.

        SQS sometimes delivers a message twice; both receivers try:

            agent A                      table                      agent B
            claim if pending|retry  -->  active, epoch 1
                                         active, epoch 1   <------  claim if pending|retry
            runs                         refused, job returned -->  gives its message back

        The condition is the state itself, so the second claim is refused. A job whose deadline has
        passed is refused as well (the requeue function expires it), and so is a job in backoff,
        because it may have a second message without a delay. A job that was edited is refused to
        all but its newest message, which alone is in the lane that the job is in now:

            agent of fleet A             table                      API
            receives from lane A         lane A
                                         lane B, edit 1    <------  edit: queue B; sends to lane B
            claim if lane A, edit 0 -->  refused: deletes its message

        A scheduled job that is due is
        claimed with a second write: its message was delayed until now.

        A job that is assigned to another agent is refused: another message of it may have come by
        a lane. So is one that its agent was to claim earlier, as it counts as failed by then:

            agent                        table                      requeue, or a reader
                                         pending, reply_by 60
            claim at 61  ----------->    refused: 60 has passed
                                         pending, reply_by 60 <---- at 62: "did not respond"
        """
        write = self._claim(message, agent, now_ms)
        try:
            return self._complete(self._make(write))
        except Refused as refusal:
            head = refusal.head
            is_due = head is not None and head.next_at_ms is not None and head.next_at_ms <= now_ms
            if head is None or head.state is not State.SCHEDULED or not is_due:
                raise
            if message.is_outdated(head):
                raise
        woken = Step(State.PENDING, now_ms, SAME_ATTEMPT, "its run_at has come")
        named = _named(message)
        condition = WriteCondition(
            f"#state = :scheduled AND #next_at <= :now AND {_IN_TIME} AND {named.text}",
            {"scheduled": State.SCHEDULED, "now": now_ms, **named.values},
        )
        step = Step(State.ACTIVE, now_ms, 0, "claimed", agent)
        return self._start(message.job_id, [woken, step], condition, rearm(head, now_ms))

    def claim_request(self, message: Message, agent: str, now_ms: int) -> Item:
        """The first UpdateItem of `claim`, which may be sent by other means; see `decode_claim`."""
        return self._claim(message, agent, now_ms).request

    def decode_claim(self, row: Row) -> Head:
        """The job of the row that a `claim_request` returned. Raises Refused as `claim`.

        Reads the submission if the row does not have it.
        """
        return self._complete(row)

    def _claim(self, message: Message, agent: str, now_ms: int) -> RowWrite:
        step = Step(State.ACTIVE, now_ms, 0, "claimed", agent)
        states = {f"from{n}": state for n, state in enumerate(sorted(CLAIMABLE))}
        times = {"now": now_ms, "soon": now_ms + EARLY_MS}
        places = ", ".join(f":{name}" for name in states)
        rested = "(attribute_not_exists(#next_at) OR #next_at <= :soon)"
        own = "(attribute_not_exists(#assigned) OR #assigned = :agent)"
        prompt = "(attribute_not_exists(#reply_by) OR #reply_by > :now)"
        named = _named(message)
        condition = WriteCondition(
            f"#state IN ({places}) AND {_IN_TIME} AND {rested} AND {own} AND {prompt}"
            f" AND {named.text}",
            {**states, **times, "agent": agent, **named.values},
        )
        return self._starting(message.job_id, [step], condition)

    def note_wait(self, message: Message, text: str) -> None:
        """Write what the job of a message waits for at its agent: one write.

        No transition: a claim that comes first is not undone, and one that comes later removes it.
        Raises Refused if it does not wait, or was edited since.
        """
        states = {f"from{n}": state for n, state in enumerate(sorted(CLAIMABLE))}
        named = _named(message)
        condition = WriteCondition(
            f"#state IN ({', '.join(f':{name}' for name in states)}) AND {named.text}",
            {**states, **named.values},
        )
        self._update(message.job_id, condition, lambda _: False, sets={"waits_for": text})

    def note_untested(self, head: Head, why: str) -> None:
        """Write why the condition of a blocked job is not tested yet: one write.

        Does nothing if the job has moved on: its condition was tested meanwhile, or it ended.
        """
        values = {"blocked": State.BLOCKED, "epoch": head.epoch}
        condition = WriteCondition("#state = :blocked AND #epoch = :epoch", values)
        with suppress(Refused):
            self._update(head.job_id, condition, lambda _: False, sets={"waits_for": why})

    def take_over(self, head: Head, agent: str, now_ms: int) -> Head:
        """Take a job whose agent's lease has ended. Raises Refused if the job has changed.

            agent A (dead or cut off)    table                      agent B
            holds epoch 3                active, epoch 3
                                         active, epoch 4   <------  take over if active, epoch 3
            settle if epoch 3  ------->  refused                    runs

        Of B's takeover and A's last write the first wins; the other is refused. A job whose
        cancellation was requested is not started again: settle it as lost.
        """
        step = Step(
            State.ACTIVE, now_ms, 0, f"taken over from {head.agent}, whose lease ended", agent
        )
        return self._start(head.job_id, [step], _undisturbed(head))

    def settle(self, head: Head, step: Step, facts: AttemptFacts) -> Head:
        """End the attempt of `head` (as returned by the claim): one write.

        Conditional on the epoch: an agent that lost its lease is refused. A step that lets the job
        start again is also refused once its cancellation was requested; the head in the refusal
        shows that, and is to be settled as cancelled:

            agent                        table                      API
                                         active            <------  request_cancel
            settle: retry  --------->    refused, cancel_requested
            settle: cancelled  ----->    cancelled

        Raises Refused with the job as it is.
        """
        write, after = self._settlement(head, step, facts)
        self._make(write)
        return after

    def settle_request(self, head: Head, step: Step, facts: AttemptFacts) -> Item:
        """The UpdateItem of `settle`, which may be sent by other means; it returns nothing."""
        return self._settlement(head, step, facts)[0].request

    def _settlement(self, head: Head, step: Step, facts: AttemptFacts) -> tuple[RowWrite, Head]:
        if step.state not in TRANSITIONS[State.ACTIVE] - {State.BLOCKED}:
            raise ValueError(f"an active job cannot be settled as {step.state}")
        return self._ending(head, step, facts, None)

    def block(self, head: Head, step: Step, condition: str, facts: AttemptFacts) -> Head:
        """Make a running job wait for `condition`: one write, as `settle`.

        The caller then adds the job to its condition's list, and deletes the message last: after a
        crash in between, the message finds the job blocked.
        """
        if step.state is not State.BLOCKED:
            raise ValueError(f"a job that waits for a condition must be blocked, not {step.state}")
        write, after = self._ending(head, step, facts, condition)
        self._make(write)
        return after

    def _start(
        self, job_id: str, steps: list[Step], condition: WriteCondition, woken: Head | None = None
    ) -> Head:
        return self._complete(self._make(self._starting(job_id, steps, condition, woken)))

    def _starting(
        self, job_id: str, steps: list[Step], condition: WriteCondition, woken: Head | None = None
    ) -> RowWrite:
        # Only the table knows the attempt's number, so the step is written with 0 and read
        # back as what the head counts (`joblane.aws.job.items`).
        sets, removes = ({}, []) if woken is None else _wake_of(woken)
        return self._transition(
            job_id,
            steps,
            condition,
            sets={"held_by": steps[-1].agent or "", **sets},
            removes=("next_at", "waits_for", "reply_by", *removes),
            adds=("epoch", "attempt"),
        )

    def _ending(
        self, head: Head, step: Step, facts: AttemptFacts, condition: str | None
    ) -> tuple[RowWrite, Head]:
        """What ends the attempt of `head`, and the job after that."""
        after = attempt_ended(head, step, facts, condition)
        sets, removes = change(head, after)
        if step.state in ENDED:
            # Attributes that may have been written since the claim.
            removes = sorted({*removes, "cancel_requested", "wake", "wake_at"})
        holds = _holds(head) if step.state in ENDED else _undisturbed(head)
        # Only the holder of a job writes its timeline now, so it may rewrite it as well.
        shorter = len(after.timeline) <= len(head.timeline)
        steps = after.timeline if shorter else after.timeline[-1:]
        write = self._transition(
            head.job_id,
            steps,
            holds,
            sets=sets,
            removes=removes,
            instead=shorter,
            wants_row=False,
        )
        return write, after


def _named(message: Message) -> WriteCondition:
    """A job is in the lane of a message, and was not edited since that was sent."""
    edit = at_edit(message.edit)
    return WriteCondition(f"#lane = :lane AND {edit.text}", {"lane": message.lane, **edit.values})


def _holds(head: Head) -> WriteCondition:
    """A job is still held under the epoch of `head`."""
    return WriteCondition(
        "#state = :active AND #epoch = :epoch",
        {"active": State.ACTIVE, "epoch": head.epoch},
    )


def _undisturbed(head: Head) -> WriteCondition:
    """A job is still held, and its cancellation was not requested."""
    holds = _holds(head)
    return WriteCondition(f"{holds.text} AND attribute_not_exists(#cancel_requested)", holds.values)


def _wake_of(head: Head) -> tuple[Row, list[str]]:
    """The next `wake_at` of a job that starts from `scheduled`: its deadline, or none."""
    if head.wake_at_ms is None:
        return {}, ["wake", "wake_at"]
    return {"wake_at": head.wake_at_ms}, []
