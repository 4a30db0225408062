"""The desk: where a message is served, from its delivery to the end of its job's attempt.

    a poll, the inbox  --->  judge  --->  start    claim, run, free what was taken
                               |          hold     the waiting room; judged again
                               |          give back, fail, drop
                               |
    a job ends, a limit changes, the agent is cordoned  --->  judge what waits, in its order
    a wait has lasted for long enough                   --->  give back
    a wait has lasted for a while                       --->  write into the job what it waits for

All decisions are `gates.judge`'s; the desk carries them out.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from ec2_agent.calls import AWS_ERRORS, in_thread
from ec2_agent.lanes.claiming import Claimer
from ec2_agent.logging import events
from ec2_agent.messages.delivery import Delivery, message_of
from ec2_agent.messages.flight import Flight
from ec2_agent.outcomes.journal import OutcomeRecorder
from ec2_agent.serving.gates import judge
from ec2_agent.serving.offers import Offers
from ec2_agent.serving.reasons import NOTE_AFTER_S, Reasons
from ec2_agent.serving.verdict import (
    RESERVING,
    Drop,
    Fail,
    GiveBack,
    Hold,
    Start,
    Verdict,
    Wait,
    why_of,
)
from ec2_agent.serving.waiting_room import FOREVER, Waiting, WaitingRoom
from ec2_agent.tasks import Tasks
from joblane.job.head import Head
from joblane.job.judge import not_started
from joblane.state.lifecycle import Outcome

CLAIM_AGAIN_S = 5
"""Seconds for which a message is hidden after its claim failed because of a call to AWS."""

ROW_COMES_S = 1
"""How long a message is hidden the first time if its job's row is not there yet: submission sends
the message first, and writes the row next."""

LOOK_EVERY = 50
"""A message that was received so often without a claim is held against its job's row, and deleted
if it starts nothing any more: that of a job which no host here can run would come for ever."""

RETURN_S = 5
"""How long targeted jobs that an ending process gives back are hidden: its own poll of the inbox
may still be open."""


class Runner(Protocol):
    """Runs claimed jobs."""

    async def run(self, head: Head, delivery: Delivery) -> None:
        """Run one attempt to its end, and record its outcome; the message is settled then."""


@dataclass(eq=False)
class Desk:
    """Serves the messages of one agent."""

    offers: Offers
    claimer: Claimer
    runner: Runner
    recorder: OutcomeRecorder
    reasons: Reasons
    flight: Flight
    monotonic: Callable[[], float]
    tasks: Tasks = field(default_factory=Tasks)
    """Messages being served, and given back."""

    def __post_init__(self) -> None:
        self._looks_at = FOREVER
        """When a wait is to be looked at next."""
        self._sooner = asyncio.Event()

    @property
    def room(self) -> WaitingRoom:
        """What waits."""
        return self.offers.room

    @property
    def busy(self) -> bool:
        """Whether a message is being served, or waits."""
        return bool(self.tasks) or len(self.room) > 0

    def receive(self, delivery: Delivery) -> bool:
        """Serve a message that has come.

        Returns False if it waits because its tenant runs all the jobs that it may run here.
        """
        if delivery.targeted:
            self._receive_targeted(delivery)
            return True
        self.serve()  # something may have become free since the poll was opened
        waiting = Waiting(delivery, message_of(delivery))
        verdict = self._judge(waiting)
        self._carry_out(waiting, verdict)
        return not (isinstance(verdict, Hold | GiveBack) and verdict.wait is Wait.TENANT)

    def _receive_targeted(self, delivery: Delivery) -> None:
        """Let a message of the inbox wait for its turn, which may have come already.

        SQS may deliver one again that waits: the new receipt replaces the other one. Of a job that
        was edited meanwhile the messages differ; both wait, and the outdated one is deleted when
        its turn comes.
        """
        message = message_of(delivery)
        earlier = None if message is None else self.room.find(message)
        if earlier is not None:
            self._take_younger(earlier, delivery)
            return
        waiting = Waiting(delivery, message)
        verdict = self._judge(waiting)
        if isinstance(verdict, Start):
            verdict = Hold(Wait.SLOT, "waits for its turn")
        self._carry_out(waiting, verdict)
        self.serve()

    def _take_younger(self, waiting: Waiting, delivery: Delivery) -> None:
        """Wait with the younger one of a job's messages."""
        held, sent_ms = waiting.delivery, delivery.received.sent_ms
        if sent_ms < held.received.sent_ms:
            self.tasks.start(self.flight.delete(delivery))
            return
        if sent_ms == held.received.sent_ms:
            self.flight.abandon(held)
        else:
            self.tasks.start(self.flight.delete(held))
        waiting.delivery = delivery
        self.flight.add(delivery)

    def serve(self) -> None:
        """Start what may start of what waits, and give back what may wait here no longer."""
        if not len(self.room):
            return
        offers = self.offers
        lanes_open = offers.open(targeted=False)
        for waiting in tuple(self.room.in_order()):
            if waiting.reserved or not (lanes_open or waiting.delivery.targeted):
                self._carry_out(waiting, self._judge(waiting))
        while self._serve_next():
            pass

    def _serve_next(self) -> bool:
        """Carry out the first verdict that ends a wait. Returns False if all go on waiting."""
        free = {targeted: self.offers.free(targeted=targeted) for targeted in (True, False)}
        full: set[tuple[bool, str]] = set()
        """Whose jobs all wait for others of their tenant."""
        for waiting in self.room.in_order():
            queue, targeted = waiting.delivery.queue, waiting.delivery.targeted
            whose = (targeted, waiting.tenant)
            if waiting.reserved or free[targeted][queue] <= 0 or whose in full:
                continue
            verdict = self._judge(waiting)
            if not _goes_on(waiting, verdict):
                self._carry_out(waiting, verdict)
                return True
            if isinstance(verdict, Hold) and verdict.wait is Wait.TENANT:
                full.add(whose)
        return False

    def _judge(self, waiting: Waiting) -> Verdict:
        return judge(*self.offers.to(waiting))

    def _carry_out(self, waiting: Waiting, verdict: Verdict) -> None:
        events.message_judged(
            waiting.message, waiting.delivery.queue, type(verdict).__name__, why_of(verdict)
        )
        match verdict:
            case Start():
                self._start(waiting)
            case Hold():
                self._hold(waiting, verdict)
            case GiveBack():
                self._let_go(waiting)
                self.tasks.start(self._give_back(waiting, verdict))
            case Fail():
                self._let_go(waiting)
                self.flight.add(waiting.delivery)
                self.tasks.start(self._fail(waiting.delivery, verdict.reason))
            case Drop():
                self._let_go(waiting)
                events.queue_not_served(waiting.message, waiting.delivery.queue)
                self.tasks.start(self.flight.delete(waiting.delivery))

    def _hold(self, waiting: Waiting, hold: Hold) -> None:
        """Let a message wait, or let it wait for something else."""
        if waiting.hold is None:
            self.flight.add(waiting.delivery)
        if not _goes_on(waiting, hold):
            waiting.since = self.monotonic()
            waiting.note_at = waiting.since + NOTE_AFTER_S
        waiting.hold = hold
        if waiting.reserved != (hold.wait in RESERVING):
            waiting.reserved = not waiting.reserved
            if waiting.reserved:
                self.offers.slots.take(waiting.delivery)
            else:
                self.offers.slots.release(waiting.delivery)
        self.room.put(waiting)
        if waiting.look_at < self._looks_at:
            self._looks_at = waiting.look_at
            self._sooner.set()

    def _start(self, waiting: Waiting) -> None:
        if waiting in self.room:
            self.room.remove(waiting, served=True)
        if not waiting.reserved:
            self.offers.slots.take(waiting.delivery)
        if waiting.hold is None:
            self.flight.add(waiting.delivery)
        if waiting.message is not None:
            self.reasons.forget(waiting.message)  # its claim removes what was written
        self.tasks.start(self._serve(waiting.delivery))

    def _let_go(self, waiting: Waiting) -> None:
        """Let a message wait no longer; nothing stays reserved for it."""
        if waiting in self.room:
            self.room.remove(waiting)
        if waiting.reserved:
            waiting.reserved = False
            self.offers.slots.release(waiting.delivery)

    async def _serve(self, delivery: Delivery) -> None:
        """Claim the job that a message names, and run it."""
        slots, more_mb = self.offers.slots, 0
        try:
            async with self._returned_if_broken(delivery):
                if slots.disk.crowded:
                    await in_thread(slots.disk.make_room, "disk")
                head = await self.claimer.claim(delivery)
                if head is not None:
                    more_mb = head.spec.resources.memory - delivery.received.memory_mb
                    slots.take_more(more_mb)
                    await self.runner.run(head, delivery)
        finally:
            self.offers.prefetch.count_freed(delivery.queue)
            slots.release(delivery, more_mb)

    async def _fail(self, delivery: Delivery, reason: str) -> None:
        """Claim a job, and fail it without a start."""
        async with self._returned_if_broken(delivery):
            head = await self.claimer.claim(delivery)
            if head is not None:
                with self.claimer.roster.claims(head.job_id):  # until the journal lists it
                    result = not_started(Outcome.PERMANENT, reason, self.recorder.now_ms())
                    await self.recorder.record(head, delivery, result)

    @asynccontextmanager
    async def _returned_if_broken(self, delivery: Delivery) -> AsyncIterator[None]:
        """Give a message back whose claim or attempt failed: nobody else would let it go.

        A claim may have been written although its answer was lost. The message is received again,
        and the next claim is refused if so.
        """
        try:
            yield
        except AWS_ERRORS as error:
            events.claim_failed(message_of(delivery), error)
            await self.flight.give_back(delivery, CLAIM_AGAIN_S)
        except Exception as defect:  # noqa: BLE001 - whatever it is
            events.claim_broke(message_of(delivery), type(defect).__name__, defect)
            await self.flight.give_back(delivery, CLAIM_AGAIN_S)

    async def _give_back(self, waiting: Waiting, verdict: GiveBack) -> None:
        """Leave a message to others, and write into its job what it waits for, if that is due.

        submission              jobs table         this agent
        sends the message ---------------------->  no row to write the reason into:
        writes the row -------> row                hidden for a second, not for a minute
                                reason  <--------  writes it at the next delivery
        """
        seconds, message = verdict.seconds, waiting.message
        looks = waiting.delivery.received.receives % LOOK_EVERY == 0
        if looks and message is not None and await self.claimer.is_over(message):
            await self.flight.delete(waiting.delivery)
            return
        if verdict.why and message is not None:
            noted = await self.reasons.note(message, verdict.wait, verdict.why)
            if not noted and waiting.delivery.received.receives == 1:
                seconds = ROW_COMES_S
        await self.flight.give_back(waiting.delivery, seconds)

    # The clock of the waiting room.

    async def keep(self) -> None:
        """Give back what has waited for long enough, and write why others wait, until cancelled."""
        while True:
            self._sooner.clear()
            self._looks_at = min((w.look_at for w in self.room.in_order()), default=FOREVER)
            left_s = max(0.0, self._looks_at - self.monotonic())
            with suppress(TimeoutError):
                await asyncio.wait_for(self._sooner.wait(), None if left_s == FOREVER else left_s)
            self.look()

    def look(self) -> None:
        """Give back what has waited for long enough, and write why others wait."""
        now = self.monotonic()
        for waiting in tuple(self.room.in_order()):
            if waiting.hold is not None and waiting.until <= now:
                if waiting.hold.wait is Wait.SLOT:
                    self.offers.prefetch.forget(waiting.delivery.queue)
                self._carry_out(waiting, GiveBack(waiting.hold.wait))
            elif waiting.note_at <= now:
                waiting.note_at = now + NOTE_AFTER_S  # if it cannot be written now
                self.tasks.start(self._note(waiting))

    async def _note(self, waiting: Waiting) -> None:
        """Write into a job what it waits for."""
        verdict, message = self._judge(waiting), waiting.message
        if message is None or not isinstance(verdict, Hold):
            return
        noted = await self.reasons.note(message, verdict.wait, verdict.why)
        if noted and _goes_on(waiting, verdict):
            waiting.note_at = FOREVER

    async def give_back_all(self, *, targeted: bool) -> None:
        """Give back what waits, of lanes or of the inbox: this process ends."""
        all_waiting = [w for w in self.room.in_order() if w.delivery.targeted is targeted]
        for waiting in all_waiting:
            self._let_go(waiting)
        seconds = RETURN_S if targeted else 0
        await asyncio.gather(*(self.flight.give_back(w.delivery, seconds) for w in all_waiting))


def _goes_on(waiting: Waiting, verdict: Verdict) -> bool:
    """Whether a message waits for the same as before."""
    hold = waiting.hold
    return isinstance(verdict, Hold) and hold is not None and verdict.wait is hold.wait
