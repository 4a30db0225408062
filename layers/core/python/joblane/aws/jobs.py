"""The `jobs` table: every transition is one conditional UpdateItem that also writes the timeline.

The claim, the takeover and the finish are the writes on which "never two at once" rests; the
time-line of the race that each condition settles stands beside it.
"""

from dataclasses import dataclass, replace
from typing import cast

from botocore.exceptions import ClientError

from joblane.aws.job_items import DATA, RAW, Item, change, key, number, text, to_data, to_item
from joblane.aws.job_table import Condition, JobTable, Refused, refusal_of
from joblane.head import DATA_DAYS, INLINE_SPEC_BYTES, SAME_ATTEMPT, Head, Step, with_step
from joblane.lifecycle import CLAIMABLE, ENDED, TRANSITIONS, Event, Outcome, State
from joblane.moves import apply, rearmed

__all__ = ["Facts", "JobStore", "Letter", "Refused"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What an attempt's end adds to its job, beside the transition."""

    outcome: Outcome
    exit_code: int | None = None
    signal: int | None = None
    usage_json: str | None = None
    next_at_ms: int | None = None
    """When a job in `retry` is tried again."""
    expires_at: int | None = None
    """Unix seconds; set when the job ended."""


EARLY_MS = 5000
"""A retry may start so much before its time: SQS hid its message on its own clock, and this
host's may be behind."""

LETTER_PART = 90_000
"""Characters of a dead letter in one item: at most 360 KB of UTF-8."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A message that nobody could deal with."""

    body: str
    source: str
    """Name of the queue that it was in."""
    reason: str


class JobStore(JobTable):
    """Reads and writes jobs."""

    def put_new(self, head: Head) -> Head:
        """Store a job that was just submitted, and return it as it is in the table.

        A long submission goes aside into the DATA item, which is written first: a head in the
        table always finds its data. What is too long for that too is in S3 by now (`payloads`).

            function                     table                      agent
            put (answer lost)  ------->  pending
                                         active, epoch 1   <------  claim
            put again (SDK's retry)  ->  refused by the condition

        Ids are random, so whatever is there already was written by the first try, or for the
        same Idempotency-Key (`joblane.aws.repeats`).
        """
        try:
            self._client.put_item(
                TableName=self._table,
                Item=self._new_item(head),
                ConditionExpression="attribute_not_exists(job_id)",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            old = refusal_of(error)
            return self._complete(old) if old else head
        return head

    def put_resubmitted(self, head: Head) -> Head:
        """Store a job that does another one again, and name it there: both or neither.

        A transaction costs twice the write units of its parts, for what is done by hand and
        now and then. Returns the job as it is in the table; raises Refused if the other one is
        gone.
        """
        if head.resubmit_of is None:
            raise ValueError(f"job {head.job_id} does no other one again")
        try:
            self._client.transact_write_items(
                TransactItems=[
                    {
                        "Put": {
                            "TableName": self._table,
                            "Item": self._new_item(head),
                            "ConditionExpression": "attribute_not_exists(job_id)",
                            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
                        }
                    },
                    {
                        "Update": {
                            "TableName": self._table,
                            "Key": key(head.resubmit_of),
                            "UpdateExpression": "SET resubmitted_as = :new",
                            "ConditionExpression": "attribute_exists(job_id)",
                            "ExpressionAttributeValues": {":new": text(head.job_id)},
                        }
                    },
                ]
            )
        except self._client.exceptions.TransactionCanceledException as error:
            ours, other = error.response["CancellationReasons"]
            if "Item" in ours:
                return self._complete(cast("Item", ours["Item"]))
            if other.get("Code") == "ConditionalCheckFailed":
                raise Refused(None) from error
            raise
        return head

    def _new_item(self, head: Head) -> Item:
        """The head's item; its submission has gone into DATA if it is long."""
        spec = head.spec.model_dump_json(exclude_defaults=True)
        inline = head.aside is None and len(spec.encode()) <= INLINE_SPEC_BYTES
        if not inline:
            starts_ms = head.next_at_ms or head.timeline[0].at_ms
            data = to_data(head, spec, starts_ms // 1000 + DATA_DAYS * 86_400)
            self._client.put_item(TableName=self._table, Item=data)
        return to_item(head, spec if inline else None)

    def claim(self, job_id: str, agent: str, now_ms: int) -> Head:
        """Take a waiting job for `agent`: one write. Raises Refused with the job as it stands.

        SQS delivers a message more than once now and then; both receivers try:

            agent A                      table                      agent B
            claim if pending|retry  -->  active, epoch 1
                                         active, epoch 1   <------  claim if pending|retry
            runs                         refused, job returned -->  gives its message back

        The condition is the state itself, so whoever comes second is refused. A job whose
        deadline has passed is refused as well; the requeue function expires it. So is one whose
        backoff is not over: it may have a second message, which nothing hides. One that is
        scheduled and due starts with a second write: its message was delayed until now, and
        waking it first would only be a detour.
        """
        step = Step(State.ACTIVE, now_ms, 0, "claimed", agent)
        in_time = "(attribute_not_exists(#deadline) OR #deadline > :now)"
        states = {f":from{n}": text(state) for n, state in enumerate(sorted(CLAIMABLE))}
        times = {":now": number(now_ms), ":soon": number(now_ms + EARLY_MS)}
        rested = "(attribute_not_exists(#next_at) OR #next_at <= :soon)"
        try:
            return self._start(
                job_id,
                [step],
                Condition(
                    f"#state IN ({', '.join(states)}) AND {in_time} AND {rested}",
                    {**states, **times},
                ),
            )
        except Refused as refusal:
            head = refusal.head
            is_due = head is not None and head.next_at_ms is not None and head.next_at_ms <= now_ms
            if head is None or head.state is not State.SCHEDULED or not is_due:
                raise
        woken = Step(State.PENDING, now_ms, SAME_ATTEMPT, "its run_at has come")
        condition = Condition(
            f"#state = :scheduled AND #next_at <= :now AND {in_time}",
            {":scheduled": text(State.SCHEDULED), ":now": number(now_ms)},
        )
        return self._start(job_id, [woken, step], condition, rearmed(head, now_ms))

    def take_over(self, head: Head, agent: str, now_ms: int) -> Head:
        """Take a job whose agent's lease has ended. Raises Refused if it moved meanwhile.

            agent A (dead or cut off)    table                      agent B
            holds epoch 3                active, epoch 3
                                         active, epoch 4   <------  take over if active, epoch 3
            settle if epoch 3  ------->  refused                    runs

        Whichever of B's takeover and A's last write comes first wins; the other is refused.

        A job that was asked to end is not started again: take it for lost and settle it.
        """
        step = Step(
            State.ACTIVE, now_ms, 0, f"taken over from {head.agent}, whose lease ended", agent
        )
        return self._start(head.job_id, [step], _undisturbed(head))

    def settle(self, head: Head, step: Step, facts: Facts) -> Head:
        """End the attempt that `head` (as returned by the claim) stands for: one write.

        Conditional on the epoch: an agent that lost its lease is refused, whatever it brings.
        A step that would let the job start again is refused too once somebody asked for the
        job's end; the refusal's head says so, and is to be settled as cancelled:

            agent                        table                      API
                                         active            <------  request_cancel
            settle: retry  --------->    refused, cancel_requested
            settle: cancelled  ----->    cancelled

        Raises Refused with the job as it stands.
        """
        if step.state not in TRANSITIONS[State.ACTIVE] - {State.BLOCKED}:
            raise ValueError(f"an active job cannot become {step.state} without more ado")
        return self._end(head, step, facts, None)

    def block(self, head: Head, step: Step, condition: str, facts: Facts) -> Head:
        """Let a job that is held wait for `condition`: one write, as `settle`.

        The caller adds the job to its condition's list after this, and lets go of the message
        last: who dies in between leaves a message that finds the job blocked.
        """
        if step.state is not State.BLOCKED:
            raise ValueError(f"a job that waits for a condition is not {step.state}")
        return self._end(head, step, facts, condition)

    def unblock(self, job_id: str, condition: str, step: Step) -> Head:
        """Let a job that waits for `condition` go on: one write, no read.

        Its message is sent after this: an agent deletes the message of a blocked job. Whoever
        unblocks must hence be called again if it dies in between; it is then refused with a
        pending head, and sends the message all the same.

            recovery                     table                      API
                                         blocked, C
                                         cancelled         <------  move: cancel
            unblock if blocked, C  --->  refused

        Raises Refused with the job as it stands: it was cancelled, expired or deleted, waits
        for something else by now, or is pending already.
        """
        item = self._transition(
            job_id,
            [replace(step, state=State.PENDING, attempt=SAME_ATTEMPT)],
            Condition(
                "#state = :blocked AND #condition = :condition",
                {":blocked": text(State.BLOCKED), ":condition": text(condition)},
            ),
            removes=("attention", "condition"),
        )
        return self._complete(item)

    def move(self, head: Head, event: Event, step: Step, *, expires_at: int | None = None) -> Head:
        """Make a transition that `joblane.moves.plan` decided on `head`: one write.

        Conditional on that head's state and epoch, so a decision never meets another job than
        it was made on:

            API                          table                      agent
            reads pending, epoch 0
                                         active, epoch 1   <------  claim
            move: cancel if pending, 0   refused: decide again on the refusal's head

        Raises Refused with the job as it stands.
        """
        after = apply(head, event, step, expires_at)
        sets, removes = change(head, after)
        condition = Condition(
            "#state = :before AND #epoch = :epoch",
            {":before": text(head.state), ":epoch": number(head.epoch)},
        )
        self._transition(head.job_id, [step], condition, sets=sets, removes=removes)
        return after

    def request_cancel(self, job_id: str, reason: str, epoch: int | None = None) -> Head:
        """Note on an active job that its attempt is to end, before its agent is told.

        `reason` should name the moment: equal reasons are taken for one request. `epoch` asks
        for the end of that attempt only. Raises Refused with the job as it stands: it is not
        active, or was asked to end before.
        """
        holds = "#state = :active AND attribute_not_exists(#cancel_requested)"
        values = {":active": text(State.ACTIVE)}
        if epoch is not None:
            holds += " AND #epoch = :epoch"
            values[":epoch"] = number(epoch)
        return self._complete(
            self._update(
                job_id,
                Condition(holds, values),
                lambda old: old.get("cancel_requested") == text(reason),
                sets={"cancel_requested": text(reason)},
            )
        )

    def set_hidden(self, head: Head, *, hidden: bool) -> Head:
        """Leave a job that has ended out of lists, or show it again: one write.

        Conditional on that head's state and epoch, so that no job hides that was started again
        meanwhile:

            API                          table                      API
            reads failed, epoch 1
                                         pending           <------  move: retry, shown
            set_hidden if failed, 1      refused

        Raises Refused with the job as it stands.
        """
        condition = Condition(
            "#state = :before AND #epoch = :epoch",
            {":before": text(head.state), ":epoch": number(head.epoch)},
        )
        after = replace(head, hidden=hidden)
        sets, removes = change(head, after)
        if sets or removes:
            self._update(head.job_id, condition, lambda _: False, sets=sets, removes=removes)
        return after

    def rearm(self, head: Head, now_ms: int) -> None:
        """Say when the requeue function looks at a job again, now that it has been dealt with.

        Conditional on the `wake_at` that was dealt with; refused is as good as done.
        """
        sets, removes = change(head, rearmed(head, now_ms))
        condition = Condition("#wake_at = :seen", {":seen": number(head.wake_at_ms or 0)})
        try:
            self._update(head.job_id, condition, lambda _: False, sets=sets, removes=removes)
        except Refused:
            return

    def delete(self, job_id: str, seen: Head | None = None) -> None:
        """Delete a job that is not running; an agent that gets its message discards it.

        The head goes first, so that no reader finds one without its submission. A crash in
        between leaves the DATA item to its own TTL. `seen` deletes the job only as it was seen.
        Raises Refused: active, or not there, or seen otherwise.
        """
        holds = "attribute_exists(job_id) AND #state <> :active"
        names = {"#state": "state"}
        values = {":active": text(State.ACTIVE)}
        if seen is not None:
            holds += " AND #state = :seen AND #epoch = :epoch"
            names["#epoch"] = "epoch"
            values |= {":seen": text(seen.state), ":epoch": number(seen.epoch)}
        try:
            gone = self._client.delete_item(
                TableName=self._table,
                Key=key(job_id),
                ConditionExpression=holds,
                ExpressionAttributeNames=names,
                ExpressionAttributeValues=values,
                ReturnValues="ALL_OLD",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )["Attributes"]
        except ClientError as error:
            old = refusal_of(error)
            raise Refused(self._complete(old) if old else None) from error
        aside = (DATA,) if "spec" not in gone else ()
        dead_letter = (RAW,) if gone["state"]["S"] in {State.DEAD, State.DISMISSED} else ()
        for sk in (*aside, *dead_letter):
            self._client.delete_item(TableName=self._table, Key=key(job_id, sk))

    def keep_letter(self, job_id: str, letter: Letter, expires_at: int) -> None:
        """Keep a dead letter as SQS delivered it, under its job or an id of its own.

        A part of at most `LETTER_PART` characters an item: SQS takes 1 MiB, DynamoDB 400 KB.
        """
        for n, start in enumerate(range(0, max(len(letter.body), 1), LETTER_PART)):
            self._client.put_item(
                TableName=self._table,
                Item={
                    **key(job_id, RAW if n == 0 else f"{RAW}#{n:02d}"),
                    "body": text(letter.body[start : start + LETTER_PART]),
                    "source": text(letter.source),
                    "reason": text(letter.reason),
                    "expires_at": number(expires_at),
                },
            )

    def _start(
        self, job_id: str, steps: list[Step], condition: Condition, woken: Head | None = None
    ) -> Head:
        # Only the table knows the attempt's number, so the step is written with 0 and read
        # back as what the head counts (`joblane.aws.job_items`).
        sets, removes = ({}, []) if woken is None else _wake_of(woken)
        item = self._transition(
            job_id,
            steps,
            condition,
            sets={"held_by": text(steps[-1].agent or ""), **sets},
            removes=("next_at", *removes),
            adds=("epoch", "attempt"),
        )
        return self._complete(item)

    def _end(self, head: Head, step: Step, facts: Facts, condition: str | None) -> Head:
        after = replace(
            with_step(head, step),
            outcome=facts.outcome,
            exit_code=facts.exit_code,
            signal=facts.signal,
            usage_json=facts.usage_json,
            next_at_ms=facts.next_at_ms,
            expires_at=facts.expires_at,
            condition=condition,
            wake_at_ms=None if step.state in ENDED else head.wake_at_ms,
            cancel_requested=None,
        )
        sets, removes = change(head, after)
        if step.state in ENDED:
            # The claim need not have seen what came later: a request to cancel, a new wake_at.
            removes = sorted({*removes, "cancel_requested", "wake", "wake_at"})
        holds = _holds(head) if step.state in ENDED else _undisturbed(head)
        # Only who holds a job adds to its timeline, so its holder may rewrite it as well.
        shorter = len(after.timeline) <= len(head.timeline)
        steps = after.timeline if shorter else after.timeline[-1:]
        self._transition(head.job_id, steps, holds, sets=sets, removes=removes, instead=shorter)
        return after


def _holds(head: Head) -> Condition:
    """A job is still held under the epoch of `head`."""
    return Condition(
        "#state = :active AND #epoch = :epoch",
        {":active": text(State.ACTIVE), ":epoch": number(head.epoch)},
    )


def _undisturbed(head: Head) -> Condition:
    """A job is still held, and nobody asked for its end."""
    holds = _holds(head)
    return Condition(f"{holds.text} AND attribute_not_exists(#cancel_requested)", holds.values)


def _wake_of(head: Head) -> tuple[Item, list[str]]:
    """How a job that starts from `scheduled` is next looked at: at its deadline, or never."""
    if head.wake_at_ms is None:
        return {}, ["wake", "wake_at"]
    return {"wake_at": number(head.wake_at_ms)}, []
