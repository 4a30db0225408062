"""Ends this agent's instance when it is idle, surplus, old, or at risk (`joblane.fleet.idle`).

    agent                            lanes, agents table        group
    closes its polls
    gives back what comes  ------->  visible
    (jobs, outcomes, output: none left)
    heartbeat: draining  --------->  no capacity any more
    (what was sent to it before that comes, or nothing)
    end this instance  ------------------------------------->   Terminating
    drains, deletes its row  ----->  gone
    completes the action  ---------------------------------->   terminated

Killed before the request, the next process serves, and leaves when it is time again. Killed after
it, the next process reads a notice of the instance's end, and drains. At every point the agent has
no job that is not in a lane, in its inbox, or ended and reported.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ec2_agent.calls import AWS_ERRORS
from ec2_agent.lanes.intake import Intake
from ec2_agent.logging import events
from ec2_agent.outcomes.journal import Journal
from ec2_agent.presence.lease import Lease
from ec2_agent.presence.standing import Standing
from ec2_agent.scale_in.group import AutoScalingInstance, InstanceKept
from ec2_agent.serving.desk import Desk
from joblane.fleet.idle import (
    Idleness,
    IdleSituation,
    LeaveReason,
    LeavingPolicy,
    Look,
    decrements,
    why_leave,
)

LOOK_S = 5.0
"""How often the agent looks whether it is time."""

WAIT_S = 1.0
"""How often a leaving agent looks whether its last job has ended."""

SETTLE_S = 5.0
"""From the heartbeat to the request: a message for this agent that was sent before others could
read the heartbeat has come by then."""

UNANSWERED_S = 30.0
"""How long the agent waits for a notice after a request without an answer: the group may have
begun to end the instance."""


@dataclass(eq=False)
class ScaleIn:
    """Decides when this agent leaves, and has its group end the instance."""

    policy: LeavingPolicy
    group: AutoScalingInstance
    standing: Standing
    lease: Lease
    intake: Intake
    desk: Desk
    journal: Journal
    jobs: Path
    """Directory of the jobs' directories, which are there until their output has been stored."""
    trouble: Callable[[], str | None]
    """Why the agent takes no jobs, or which outcomes wait."""
    boottime: Callable[[], float]
    """Seconds since the boot, of a clock that is never set."""

    def __post_init__(self) -> None:
        self._idle = Idleness(self.boottime())
        self._refused: float | None = None

    async def keep(self, on_end: Callable[[], None]) -> None:
        """Leave when it is time, until cancelled.

        `on_end` is called when the group has begun to end the instance.
        """
        while True:
            await asyncio.sleep(LOOK_S)
            reason = self._look()
            if reason is not None and await self._leave(reason):
                on_end()
                await asyncio.Event().wait()  # the drain that `on_end` began ends this

    async def end_instance(self, reason: LeaveReason) -> bool:
        """Have the group end the instance, for an agent that has drained. Returns whether it does.

        A request without an answer counts as refused.
        """
        try:
            await self._request(reason)
        except InstanceKept as kept:
            events.instance_kept(kept)
            return False
        events.instance_ends(reason.value)
        return True

    def _look(self) -> LeaveReason | None:
        """Decide whether to leave now, and why."""
        now, standing = self.boottime(), self.standing
        look = Look(
            at_work=not self._nothing_left,
            able=self.desk.offers.able and not standing.closed and self.trouble() is None,
            begun=self.desk.offers.slots.begun,
            failed=self.intake.failed,
            stalled=self.intake.stalled,
        )
        self._idle = self._idle.after(look, now)
        situation = IdleSituation(
            age_s=now,
            idle_for_s=now - self._idle.since,
            surplus=self.lease.surplus_ms is not None,
            refused_s_ago=None if self._refused is None else now - self._refused,
            able=not (standing.draining or standing.cordoned),
        )
        return why_leave(self.policy, situation)

    async def _leave(self, reason: LeaveReason) -> bool:
        """Close, empty, and ask the group. Returns whether it ends the instance.

        Otherwise the agent takes jobs again, unless it drains or was cordoned meanwhile.
        """
        events.leaving(reason.value, self.desk.offers.slots.taken)
        self.standing.leave()
        ends = False
        try:
            if await self._ready(reason):
                ends = await self._ask(reason)
        finally:
            if not ends:
                self.standing.stay()
        return ends

    async def _ready(self, reason: LeaveReason) -> bool:
        """Wait until nothing is left here, and say so. False if the agent stays after all."""
        before = self._read_activity()

        def came() -> bool:
            return self._read_activity() != before

        if not await self._wait_empty(reason, came):
            return False
        try:
            await self.lease.announce()
        except AWS_ERRORS as error:
            # Whoever cannot say that it leaves may be cut off, and does not know what waits.
            events.heartbeat_failed(error)
            events.leaving_given_up("its heartbeat failed")
            self._refused = self.boottime()
            return False
        await asyncio.sleep(SETTLE_S)
        return await self._wait_empty(reason, came)

    async def _wait_empty(self, reason: LeaveReason, came: Callable[[], bool]) -> bool:
        """Wait until nothing is left. False if the agent drains, is cordoned, or has work again."""
        standing = self.standing
        while True:
            if standing.draining or standing.cordoned:
                events.leaving_given_up("draining" if standing.draining else "cordoned")
                return False
            if not reason.waits and (came() or self.intake.stalled):
                events.leaving_given_up("a message has come, or SQS does not answer")
                return False
            if self._nothing_left and not self.intake.open:
                return True
            await asyncio.sleep(WAIT_S)

    def _read_activity(self) -> tuple[int, int, int]:
        """What shows that an agent is not idle after all: jobs, messages, polls that failed."""
        return self.desk.offers.slots.begun, self.intake.received, self.intake.failed

    @property
    def _nothing_left(self) -> bool:
        """Whether there is no outcome to deliver, no output to store, and nothing is served."""
        busy = self.journal.waiting or self.desk.busy or self.desk.offers.slots.taken
        return not busy and not any(self.jobs.iterdir())

    async def _ask(self, reason: LeaveReason) -> bool:
        """Ask the group to end the instance. Returns whether it does, or may have begun to."""
        try:
            await self._request(reason)
        except InstanceKept as kept:
            events.instance_kept(kept)
            self._refused = self.boottime()
            if reason is LeaveReason.SURPLUS:
                self.lease.forget_surplus()  # the scaler names one again if it must
            if not kept.known:
                await self._notice_may_come()
            return False
        events.instance_ends(reason.value)
        return True

    async def _request(self, reason: LeaveReason) -> None:
        """Make the requests that a reason allows until one is accepted. Raises InstanceKept."""
        *first, last = decrements(reason)
        for decrement in first:
            try:
                await self.group.end_instance(decrement=decrement)
            except InstanceKept as kept:
                if not kept.refused:
                    raise
            else:
                return
        await self.group.end_instance(decrement=last)

    async def _notice_may_come(self) -> None:
        """Stay closed for a moment: a notice of the instance's end would begin a drain."""
        for _ in range(int(UNANSWERED_S / WAIT_S)):
            if self.standing.draining:
                return
            await asyncio.sleep(WAIT_S)
