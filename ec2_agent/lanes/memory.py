"""Admission by memory: a job is claimed when the memory that its message names is free.

    free 3000 MB    message of 512 MB     claimed                      free 2488 MB
    free 700 MB     message of 2048 MB    held, its memory reserved    free -1348 MB
                    no message is fetched while less than a default job's memory is free
                    a job of 1500 MB ends                              free 152 MB: claimed

Because the memory is reserved, smaller jobs that come later cannot delay a large one for ever. A
message is held for a limited time, which grows with each delivery; then another agent may have it.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from ec2_agent.lanes.wait_notes import NOTE_AFTER_S, WaitNotes
from ec2_agent.logging import events
from ec2_agent.messages.delivery import Delivery, message_of
from ec2_agent.messages.flight import Flight
from ec2_agent.messages.hiding import TOO_LARGE
from joblane.aws.jobs import JobStore
from joblane.job.spec import DEFAULT_MEMORY_MB

HOLD_S, LONGEST_HOLD_S = 30.0, 4 * 3600.0
"""How long a message waits here the first time, and at most."""

ROW_COMES_S = 1
"""How long it is hidden the first time if the job's row is not there yet: submission sends the
message first, and writes the row next."""

UNLIMITED_MB = 1 << 40
"""More than any jobs ask for."""


class Memory:
    """The memory that jobs of one agent may have."""

    def __init__(self, total_mb: int | None, most_mb: int | None = None) -> None:
        """`total_mb` is for all jobs, None if jobs have no limits; `most_mb` for one job."""
        self.total_mb = UNLIMITED_MB if total_mb is None else total_mb
        self.most_mb = self.total_mb if most_mb is None else min(most_mb, self.total_mb)
        """The most that one job may have."""
        self.free_mb = self.total_mb
        """Below zero while a job waits."""
        self._enough = asyncio.Event()
        self._enough.set()
        self._closed = False

    @property
    def jobs(self) -> int:
        """How many more jobs of the default size fit, at least one if all memory is free."""
        if self.free_mb >= self.total_mb:
            return max(1, self.free_mb // DEFAULT_MEMORY_MB)
        return self.free_mb // DEFAULT_MEMORY_MB

    def take(self, memory_mb: int) -> None:
        """Reserve the memory of a job, even if it is not free yet."""
        self.free_mb -= memory_mb
        self._changed()

    def release(self, memory_mb: int) -> None:
        """Give it back."""
        self.free_mb += memory_mb
        self._changed()

    def close(self) -> None:
        """Let no job wait any more: the agent drains, or is cordoned."""
        self._closed = True
        self._changed()

    def open(self) -> None:
        """Undo `close`."""
        self._closed = False
        self._changed()

    async def wait(self, seconds: float) -> bool:
        """Wait until all that is reserved is free. Returns whether it is."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._enough.wait(), seconds)
        return self.free_mb >= 0

    def _changed(self) -> None:
        if self.free_mb >= 0 or self._closed:
            self._enough.set()
        else:
            self._enough.clear()


def hold_s(receives: int) -> float:
    """Give how long a message waits here that was delivered so often."""
    return min(HOLD_S * 2.0 ** min(receives - 1, 16), LONGEST_HOLD_S)


@dataclass(eq=False)
class MemoryGate:
    """Lets messages wait for memory, or passes them on to larger agents."""

    name: str
    """The agent's."""
    memory: Memory
    jobs: JobStore
    flight: Flight

    def __post_init__(self) -> None:
        self._notes = WaitNotes(self.jobs)

    def too_large(self, delivery: Delivery) -> bool:
        """Whether this agent can never run the job."""
        return delivery.received.memory_mb > self.memory.most_mb

    async def pass_on(self, delivery: Delivery) -> None:
        """Leave a message whose job is too large to other agents.

        submission              jobs table         this agent
        sends the message ---------------------->  no row to write the reason into:
        writes the row -------> row                hidden for a second, not for a minute
                                reason  <--------  writes it at the next delivery
        """
        has = f"agent {self.name} gives a job at most {self.memory.most_mb} MB"
        receives = delivery.received.receives
        seconds = TOO_LARGE.after(receives)
        if not await self._note(delivery, has) and receives == 1:
            seconds = ROW_COMES_S
        await self.flight.give_back(delivery, seconds)

    async def enter(self, delivery: Delivery) -> bool:
        """Wait for the memory that was reserved for a message; if it does not come, give it back.

        Returns whether the job may be claimed.
        """
        if self.memory.free_mb >= 0 or await self.memory.wait(NOTE_AFTER_S):
            return True
        asked = delivery.received.memory_mb
        free, total = self.memory.free_mb + asked, self.memory.total_mb
        await self._note(delivery, f"agent {self.name} has {free} of {total} MB free")
        if await self.memory.wait(hold_s(delivery.received.receives)):
            return True
        await self.flight.give_back(delivery, 0)
        return False

    async def _note(self, delivery: Delivery, has: str) -> bool:
        """Write into the job what it waits for: once for each job and agent.

        Returns False if the job's row was not there.
        """
        asked, message = delivery.received.memory_mb, message_of(delivery)
        if message is None or not self._notes.is_new(message.job_id):
            return True
        events.waits_for_memory(message, asked, has)
        return await self._notes.write(message.job_id, f"waits for {asked} MB of memory; {has}")
