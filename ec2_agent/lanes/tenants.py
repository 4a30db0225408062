"""Admission by tenant: a tenant runs at most its share of `jobs_running` on this agent.

    acme runs 2 of 2     message of acme     held: it starts when one of the two ends
    acme runs 2 of 2     more of acme        given back to the lane, hidden for a while
    acme has a share 0   message of acme     given back: another agent has the share
                         message of others   starts: what is held takes no slot and no memory

A message that is given back is seen again after a second at first, and less and less often later.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from ec2_agent.lanes.wait_notes import NOTE_AFTER_S, WaitNotes
from ec2_agent.logging import events
from ec2_agent.messages.delivery import Delivery, message_of
from ec2_agent.messages.flight import Flight
from ec2_agent.messages.hiding import TENANT_FULL
from joblane.aws.jobs import JobStore
from joblane.queue.tenant_shares import Allowance

MOST_HELD = 10
"""Messages of one tenant that wait here at most: as many as one request of SQS brings."""

HOLD_S = 20.0
"""How long a message waits here before other agents may have it."""

NOTE_AT = 6
"""A message that is received for the sixth time has waited for about `NOTE_AFTER_S`."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A message that waits here."""

    delivery: Delivery
    tenant: str
    gone: asyncio.Event
    """Set when it is to wait no longer."""


@dataclass(eq=False)
class TenantGate:
    """Counts the running jobs of each tenant, and lets messages of a tenant at its limit wait."""

    name: str
    """The agent's."""
    allowance: Callable[[str], Allowance]
    """Gives what a tenant may run here."""
    jobs: JobStore
    flight: Flight

    def __post_init__(self) -> None:
        self._running: Counter[str] = Counter()
        self._held: list[_Held] = []
        """The oldest first."""
        self._closed = False
        self._notes = WaitNotes(self.jobs)

    def __len__(self) -> int:
        """How many messages wait here."""
        return len(self._held)

    def take(self, delivery: Delivery) -> None:
        """Count a job that this agent is going to run, or runs already."""
        self._running[_tenant(delivery)] += 1

    def release(self, delivery: Delivery) -> None:
        """Count it no more."""
        tenant = _tenant(delivery)
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]

    def admits(self, delivery: Delivery) -> bool:
        """Whether a message may have a slot; one that is not a message of a job always may."""
        tenant = _tenant(delivery)
        return not tenant or self._has_room(tenant)

    def close(self) -> None:
        """Give back what is held, and hold no more: the agent drains, or is cordoned."""
        self._closed = True
        for held in self._held:
            held.gone.set()

    def open(self) -> None:
        """Undo `close`."""
        self._closed = False

    def next(self, free: Mapping[str, int]) -> Delivery | None:
        """Take the oldest held message that may start now; `free` has the free slots by queue."""
        for held in self._held:
            if free[held.delivery.queue] > 0 and self._has_room(held.tenant):
                self._held.remove(held)
                held.gone.set()
                return held.delivery
        return None

    async def wait(self, delivery: Delivery) -> None:
        """Hold a message until `next` takes it; give it back if that takes long, or many are held.

        Returns when the message is no longer held here.
        """
        tenant = _tenant(delivery)
        waiting = sum(other.tenant == tenant for other in self._held)
        if self._closed or waiting >= min(self.allowance(tenant).share, MOST_HELD):
            await self._hand_back(delivery)
            return
        self.flight.add(delivery)
        held = _Held(delivery, tenant, asyncio.Event())
        self._held.append(held)
        if not await _is_set(held.gone, NOTE_AFTER_S):
            await self._note(delivery)
            await _is_set(held.gone, HOLD_S - NOTE_AFTER_S)
        if held in self._held:
            self._held.remove(held)
            await self.flight.give_back(delivery, 0)

    async def _hand_back(self, delivery: Delivery) -> None:
        receives = delivery.received.receives
        if receives == NOTE_AT:  # by the one agent that receives it for this time
            await self._note(delivery)
        await self.flight.give_back(delivery, TENANT_FULL.after(receives))

    async def _note(self, delivery: Delivery) -> None:
        """Write into the job what it waits for."""
        message = message_of(delivery)
        if message is None or not self._notes.is_new(message.job_id):
            return
        allowed, has = self.allowance(message.tenant), self._has(message.tenant)
        events.waits_for_tenant(message, message.tenant, allowed.limit, has)
        await self._notes.write(message.job_id, self.why(message.tenant))

    def why(self, tenant: str) -> str:
        """Say what a job of a tenant at its limit waits for."""
        return (
            f"waits for jobs of tenant {tenant} to end, of which {self.allowance(tenant).limit} "
            f"may run at once (jobs_running); {self._has(tenant)}"
        )

    def _has(self, tenant: str) -> str:
        share = self.allowance(tenant).share
        return f"agent {self.name} runs {self._running[tenant]} of its share of {share}"

    def _has_room(self, tenant: str) -> bool:
        return self._running[tenant] < self.allowance(tenant).share


def _tenant(delivery: Delivery) -> str:
    """The tenant of a message's job; empty if it is not a message of a job."""
    message = message_of(delivery)
    return "" if message is None else message.tenant


async def _is_set(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event, `seconds` at most. Returns whether it is set."""
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()
