"""Messages of targeted jobs, from the agent's inbox: they wait here for their turn.

No other agent may run such a job, so its message is held from its receipt on (`Flight`), and takes
the next free slot of its queue before the messages of lanes:

    slots full     message from the inbox     waits here
    a job ends     message from a lane        waits here: starts; that of the lane is given back

Tenants take turns, and one that runs its share waits here as well. What waits while the agent is
cordoned goes on waiting; what waits when a drain ends is given back for the next process.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ec2_agent.lanes.tenants import TenantGate
from ec2_agent.lanes.wait_notes import NOTE_AFTER_S, WaitNotes
from ec2_agent.logging import events
from ec2_agent.messages.delivery import Delivery, read_message
from ec2_agent.messages.flight import Flight
from ec2_agent.messages.hiding import INBOX_FULL
from joblane.aws.jobs import JobStore
from joblane.job.message import Message

MOST_HELD = 200
"""Messages of one tenant that wait here; SQS keeps more of them, hidden for a while."""

RETURN_S = 5
"""How long what an ending process gives back is hidden: its own poll may still be open."""

LOOK_S = 1.0
"""How often it is checked whether a job has waited for `NOTE_AFTER_S`."""


@dataclass(eq=False, slots=True)
class _Waiting:
    """A message that waits here."""

    delivery: Delivery
    message: Message
    since: float


@dataclass(eq=False)
class TargetedJobs:
    """Holds messages of targeted jobs until they may start."""

    tenants: TenantGate
    jobs: JobStore
    flight: Flight
    obstacle: Callable[[str], str]
    """Says why no job of a queue starts here now: `agent web-1 runs 4 of 4 jobs`."""
    monotonic: Callable[[], float]

    def __post_init__(self) -> None:
        self._waiting: dict[str, deque[_Waiting]] = {}
        """By tenant, the one whose turn is next first; the oldest message first."""
        self._notes = WaitNotes(self.jobs)
        self._some = asyncio.Event()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def hold(self, delivery: Delivery) -> bool:
        """Let a message wait. False if its tenant has too many here: then it is to be given back.

        SQS may deliver a message again that waits here; the new receipt replaces the other one.
        Raises NotOurs.
        """
        message = read_message(delivery)
        own = self._waiting.setdefault(message.tenant, deque())
        waiting = _Waiting(delivery, message, self.monotonic())
        for earlier in own:
            if earlier.message.job_id == message.job_id:
                self.flight.abandon(earlier.delivery)
                earlier.delivery = delivery
                break
        else:
            if len(own) >= MOST_HELD:
                return False
            own.append(waiting)
        self.flight.add(delivery)
        self._some.set()
        return True

    def next(self, free: Mapping[str, int]) -> Delivery | None:
        """Take the message that may start now; `free` has the free slots by queue."""
        for tenant, own in self._waiting.items():
            for waiting in own:
                delivery = waiting.delivery
                if free[delivery.queue] > 0 and self.tenants.admits(delivery):
                    own.remove(waiting)
                    del self._waiting[tenant]
                    if own:
                        self._waiting[tenant] = own  # its next turn comes after the others'
                    return delivery
        return None

    async def pass_by(self, delivery: Delivery) -> None:
        """Give back a message for which there was no place."""
        await self.flight.give_back(delivery, INBOX_FULL.after(delivery.received.receives))

    async def give_back(self) -> None:
        """Leave all that waits to the next process of this agent: this one ends."""
        left = [waiting.delivery for own in self._waiting.values() for waiting in own]
        self._waiting.clear()
        await asyncio.gather(*(self.flight.give_back(delivery, RETURN_S) for delivery in left))

    async def keep(self) -> None:
        """Write into jobs that have waited for a while what they wait for, until cancelled."""
        while True:
            if not self._waiting:
                self._some.clear()
            await self._some.wait()
            await asyncio.sleep(min(LOOK_S, NOTE_AFTER_S))
            await self.note()

    async def note(self) -> None:
        """Write into jobs that have waited for a while what they wait for, once."""
        late = self.monotonic() - NOTE_AFTER_S
        for waiting in [w for own in self._waiting.values() for w in own if w.since <= late]:
            await self._note(waiting)

    async def _note(self, waiting: _Waiting) -> None:
        message, queue = waiting.message, waiting.delivery.queue
        if not self._notes.is_new(message.job_id):
            return
        if self.tenants.admits(waiting.delivery):
            why = f"waits for a slot: {self.obstacle(queue)}"
        else:
            why = self.tenants.why(message.tenant)
        events.waits_for_slot(message, why)
        await self._notes.write(message.job_id, why)
