"""Claims the job that a message names, or disposes of the message."""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from ec2_agent.aws_calls.jobs import ClaimCalls
from ec2_agent.calls import AWS_ERRORS, in_thread
from ec2_agent.lanes.overtaking import is_overtaken, overtaken
from ec2_agent.logging import events
from ec2_agent.messages.delivery import Delivery, read_message
from ec2_agent.messages.flight import Flight
from ec2_agent.presence.roster import Roster
from ec2_agent.settings import AgentSettings
from joblane.aws.fleet.agents import AgentStore
from joblane.aws.job.jobs import Refused
from joblane.aws.key.keys import KeyStore
from joblane.job.head import Head
from joblane.job.judge import AttemptResult, judge_cancelled
from joblane.job.message import Message, NotOurs
from joblane.job.outcome import transition_of
from joblane.service.condition.supervisor import ConditionSupervisor
from joblane.service.job.disposal import (
    Action,
    Disposal,
    dispose_missing,
    dispose_outdated,
    dispose_refused,
)
from joblane.state.lease import Heartbeat
from joblane.state.lifecycle import Outcome, State

MISSING_TRIES_S = (0.01, 0.03, 0.06)
"""Pauses before a claim is retried: a new job's message may arrive before its row is written."""


@dataclass(eq=False)
class Claimer:
    """Claims jobs for one agent."""

    settings: AgentSettings
    jobs: ClaimCalls
    agents: AgentStore
    keys: KeyStore
    conditions: ConditionSupervisor
    flight: Flight
    clock: Callable[[], float]
    """Unix seconds."""
    rng: random.Random
    """For the jitter of retries."""
    roster: Roster
    """This agent's jobs."""

    def __post_init__(self) -> None:
        self._last_ms = 0

    async def claim(self, delivery: Delivery) -> Head | None:
        """Claim the job that a message names.

        Returns None when there is nothing to run; then the message has been disposed of.
        """
        try:
            message = read_message(delivery)
        except NotOurs as error:
            events.message_not_ours(error)
            await self.flight.move_to_dead_letters(delivery, str(error))
            return None
        with self.roster.claims(message.job_id):
            return await self._claim(delivery, message)

    async def is_over(self, message: Message) -> bool:
        """Whether a message starts nothing any more: its job has ended, or has a newer one.

        Not of a blocked job, which may have no other message (`dispose_outdated`). False also if
        AWS does not answer: it is asked again.
        """
        head = None
        with suppress(*AWS_ERRORS):
            head = await in_thread(lambda: self.jobs.store.get(message.job_id), "read job")
        if head is None or head.state is State.BLOCKED:
            return False
        return head.ended or message.is_outdated(head)

    async def _claim(self, delivery: Delivery, message: Message) -> Head | None:
        refusal = Refused(None)
        name = self.settings.name
        for wait in (*MISSING_TRIES_S, None):
            now_ms = self._own_ms()
            try:
                return await self.jobs.claim(message, name, now_ms)
            except Refused as error:
                refusal = error
            if refusal.head is not None or wait is None:
                break
            await asyncio.sleep(wait)
        return await self._refused(delivery, message, refusal.head)

    async def _refused(
        self, delivery: Delivery, message: Message, head: Head | None
    ) -> Head | None:
        now_ms = self._now_ms()
        if head is None:
            disposal = dispose_missing(delivery.received.sent_ms, now_ms)
        elif message.is_outdated(head):
            disposal = dispose_outdated(head)
        else:
            holder = await self._holder(head, now_ms)
            disposal = dispose_refused(head, holder, now_ms, self.settings.name)
        match disposal.action:
            case Action.DELETE:
                await self.flight.delete(delivery)
            case Action.GIVE_BACK:
                await self.flight.give_back(delivery, disposal.hide_s)
            case Action.TAKE_OVER if head is not None:
                return await self._take_over(delivery, head, disposal)
            case Action.JOIN if head is not None:
                await self._join(delivery, head)
        return None

    async def _holder(self, head: Head, now_ms: int) -> Heartbeat | None:
        """Read the agent that a job is active on. If it is this one, say what it has by now.

        The row may be ten seconds old, and lists the job if it was written during this very claim.
        """
        name = head.agent
        if head.state is not State.ACTIVE or name is None:
            return None
        row = await in_thread(lambda: self.agents.get(name), "read holder")
        if row is None or name != self.settings.name:
            return row
        jobs = self.roster.job_ids()
        with suppress(ValueError):
            jobs.remove(head.job_id)  # this claim, which lists it as well
        return replace(row, beat_ms=max(row.beat_ms, now_ms), jobs=tuple(jobs))

    async def _take_over(self, delivery: Delivery, head: Head, disposal: Disposal) -> Head | None:
        """Settle the attempt of an agent that lost it, or claim the job for another attempt."""
        now_ms = self._own_ms()
        outcome, reason = Outcome.LOST, disposal.why
        if head.cancel_requested is not None:
            outcome, reason = judge_cancelled(head, now_ms, reason)
        result = AttemptResult(outcome, reason, now_ms)
        retention = self.settings.descriptor.retention
        transition = transition_of(head, result, retention, self.rng)
        try:
            if transition.step.state is State.RETRY:
                if not disposal.lost or not await self._is_overtaken(head, now_ms):
                    events.taken_over(head, reason)
                    return await in_thread(
                        lambda: self.jobs.store.take_over(head, self.settings.name, now_ms),
                        "take over",
                    )
                transition = overtaken(head, reason, now_ms, retention)
                events.overtaken(head, transition.step.reason)
            await self.jobs.settle(head, transition.step, transition.facts)
        except Refused as error:
            # Its agent or another one was faster.
            events.not_taken_over(head, error)
            await self.flight.give_back(delivery, 1)
            return None
        await self.flight.delete(delivery)
        return None

    async def _is_overtaken(self, head: Head, now_ms: int) -> bool:
        """Whether a lost job gives its slot to another one of its key; see `overtaking`."""
        key = head.key
        if key is None:
            return False
        stored = await in_thread(lambda: self.keys.get(head.tenant, key, now_ms), "read key")
        return is_overtaken(head, stored.state)

    async def _join(self, delivery: Delivery, head: Head) -> None:
        """Put a blocked job into its condition's list; its agent may have died before it did."""
        condition = head.condition
        if condition is None:
            raise ValueError(f"job {head.job_id} is blocked, and its row names no condition")
        now_ms = self._now_ms()
        why = await in_thread(lambda: self.conditions.join(condition, head, now_ms), "join")
        if why is not None:
            await in_thread(lambda: self.jobs.store.note_untested(head, why), "note")
        await self.flight.delete(delivery)

    def _own_ms(self) -> int:
        """Unix milliseconds, different for each claim of this agent.

        If a write is refused and the row's last transition is the very one to be written, the
        store takes it for written: the SDK retried after a lost answer. So two messages of one job,
        received together, must not write the same transition:

            agent                        table
            claim, at 17  ---------->    active, "17 claimed by A"
            claim, at 17  ---------->    refused, last is "17 claimed by A": the job runs twice
        """
        self._last_ms = max(self._now_ms(), self._last_ms + 1)
        return self._last_ms

    def _now_ms(self) -> int:
        return int(self.clock() * 1000)
