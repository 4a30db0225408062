"""From a message to a claimed job, or to whatever else is right for the message."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ec2_agent.calls import in_thread
from ec2_agent.decisions import (
    Verdict,
    Verdicted,
    expires_at,
    of_missing,
    of_refused,
    of_told,
)
from ec2_agent.events import MessageNotOurs, NotTakenOver, TakenOver
from ec2_agent.flight import Flight, Held
from ec2_agent.log_event import tell
from ec2_agent.settings import Settings
from joblane.aws.agents import AgentStore
from joblane.aws.conditions import ConditionStore
from joblane.aws.jobs import Facts, JobStore, Refused
from joblane.head import Head, Step
from joblane.lifecycle import Outcome, State, settle
from joblane.message import NotOurs, decode

MISSING_TRIES_S = (0.01, 0.03, 0.06)
"""Waits before a claim is tried again: the message of a new job may be faster than its put."""


@dataclass(frozen=True, slots=True)
class Stores:
    """What a claim reads and writes."""

    jobs: JobStore
    agents: AgentStore
    conditions: ConditionStore | None
    """None in a deployment without recovery; no job is ever blocked there."""


class Claimer:
    """Claims jobs for one agent."""

    def __init__(
        self, settings: Settings, stores: Stores, flight: Flight, clock: Callable[[], float]
    ) -> None:
        self._settings = settings
        self._jobs = stores.jobs
        self._agents = stores.agents
        self._conditions = stores.conditions
        self._flight = flight
        self._clock = clock
        self.claiming: list[str] = []
        """Ids of the jobs that are being claimed at this moment."""
        self._dice = random.Random()  # noqa: S311 - jitter, not a secret
        self._last_ms = 0

    async def claim(self, held: Held) -> Head | None:
        """Claim the job that a message names.

        Returns None when there is nothing to run; the message has been dealt with then.
        """
        try:
            message = decode(held.received.body)
        except NotOurs as error:
            tell(MessageNotOurs(error))
            await self._flight.bury(held, str(error))
            return None
        self.claiming.append(message.job_id)
        try:
            return await self._claim(held, message.job_id)
        finally:
            self.claiming.remove(message.job_id)

    async def _claim(self, held: Held, job_id: str) -> Head | None:
        refusal = Refused(None)
        name = self._settings.name
        for wait in (*MISSING_TRIES_S, None):
            now_ms = self._own_ms()
            try:
                return await in_thread(partial(self._jobs.claim, job_id, name, now_ms), "claim")
            except Refused as error:
                refusal = error
            if refusal.head is not None or wait is None:
                break
            await asyncio.sleep(wait)
        return await self._refused(held, refusal.head)

    async def _refused(self, held: Held, head: Head | None) -> Head | None:
        now_ms = self._now_ms()
        if head is None:
            disposal = of_missing(held.received.sent_ms, now_ms)
        else:
            holder_name = head.agent
            holder = (
                await in_thread(lambda: self._agents.get(holder_name), "read holder")
                if head.state is State.ACTIVE and holder_name is not None
                else None
            )
            disposal = of_refused(head, holder, now_ms)
        match disposal.verdict:
            case Verdict.DELETE:
                await self._flight.delete(held)
            case Verdict.GIVE_BACK:
                await self._flight.give_back(held, disposal.hide_s)
            case Verdict.TAKE_OVER if head is not None:
                return await self._take_over(held, head, disposal.why)
            case Verdict.JOIN if head is not None:
                await self._join(held, head)
        return None

    async def _take_over(self, held: Held, head: Head, why: str) -> Head | None:
        """Settle the attempt that its agent can no longer settle, or run the job again."""
        now_ms = self._own_ms()
        verdict = Verdicted(Outcome.LOST, why)
        if head.cancel_requested is not None:
            verdict = of_told(head, now_ms, verdict.why)
        settlement = settle(verdict.outcome, verdict.why, head.current_attempt(), self._dice)
        try:
            if settlement.state is State.RETRY:
                tell(TakenOver(head.job_id, verdict.why))
                return await in_thread(
                    lambda: self._jobs.take_over(head, self._settings.name, now_ms), "take over"
                )
            step = Step(settlement.state, now_ms, head.attempt, settlement.reason)
            retention = self._settings.descriptor.retention
            expires = expires_at(settlement.state, retention, now_ms)
            facts = Facts(verdict.outcome, expires_at=expires)
            await in_thread(lambda: self._jobs.settle(head, step, facts), "settle lost job")
        except Refused as error:
            # Somebody was faster: its agent after all, or another that takes over.
            tell(NotTakenOver(head.job_id, error))
            await self._flight.give_back(held, 1)
            return None
        await self._flight.delete(held)
        return None

    async def _join(self, held: Held, head: Head) -> None:
        """Finish handing a blocked job over: the agent that blocked it may have died then."""
        condition, conditions = head.condition, self._conditions
        if condition is None or conditions is None:
            raise ValueError(f"job {head.job_id} is blocked, and there is no recovery to wait for")
        now_ms = self._now_ms()
        await in_thread(lambda: conditions.join(condition, head, now_ms), "join")
        await self._flight.delete(held)

    def _own_ms(self) -> int:
        """Unix milliseconds that no other claim of this agent has.

        The store takes a refusal that shows the very line it wanted to write for the SDK's
        second try after a lost answer. Two messages of one job, received together, must not
        make such a line twice:

            agent                        table
            claim, at 17  ---------->    active, "17 claimed by A"
            claim, at 17  ---------->    refused by our own line: a success? the job runs twice
        """
        self._last_ms = max(self._now_ms(), self._last_ms + 1)
        return self._last_ms

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)
