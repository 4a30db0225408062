"""Messages of lanes that were received shortly before a slot becomes free.

An agent whose slots become free many times a second would wait for SQS before each job, and ask for
one message at a time. It receives a few more than it has free slots for, as many as it has lately
begun within `AHEAD_S`:

    slots full     ten jobs ended in the last tenth of a second     ten messages wait here
    a slot free    the oldest of them is claimed and starts
    five are left  five more are asked for, with one request
    slots full     no job ends for `HOLD_S`                         given back to the lane

So no message waits here for longer than `HOLD_S`, and none at all on an agent with long jobs.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ec2_agent.lanes.polling import MOST_A_FETCH
from ec2_agent.messages.delivery import Delivery
from ec2_agent.messages.flight import Flight

AHEAD_S = 0.1
"""Seconds of work that may wait here, at the rate of the last `WINDOW_S`. An agent receives a
message, and claims its job, in some hundredths of a second."""

WINDOW_S = 1.0
"""Seconds over which slots that became free are counted: fewer than ten bring nothing here."""

HOLD_S = 0.25
"""Seconds after which a message is given back: more than twice what it was received for."""

_MOST_COUNTED = round(MOST_A_FETCH * WINDOW_S / AHEAD_S)


@dataclass(frozen=True, slots=True)
class _Held:
    """A message that waits here."""

    delivery: Delivery
    until: float


@dataclass(eq=False)
class Ahead:
    """Holds messages until a slot is free, for `HOLD_S` at most."""

    flight: Flight
    monotonic: Callable[[], float]
    _held: deque[_Held] = field(default_factory=deque, init=False)
    """The oldest first."""
    _freed: dict[str, deque[float]] = field(default_factory=dict, init=False)
    """By queue, when its slots became free."""
    _some: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def __len__(self) -> int:
        return len(self._held)

    def freed(self, queue: str) -> None:
        """Count a slot of a queue that has become free."""
        self._freed.setdefault(queue, deque(maxlen=_MOST_COUNTED)).append(self.monotonic())

    def room(self, queue: str) -> int:
        """How many messages of a queue may be received now although no slot is free.

        0 until half of what may wait has been started: so one request brings several.
        """
        target = self._target(queue)
        held = sum(held.delivery.queue == queue for held in self._held)
        return target - held if held <= target // 2 else 0

    def hold(self, delivery: Delivery) -> bool:
        """Let a message wait. False if there are enough: then it is to be given back."""
        queue = delivery.queue
        if sum(held.delivery.queue == queue for held in self._held) >= self._target(queue):
            return False
        self.flight.add(delivery)
        self._held.append(_Held(delivery, self.monotonic() + HOLD_S))
        self._some.set()
        return True

    def next(self, free: Mapping[str, int]) -> Delivery | None:
        """Take the oldest message that may start now; `free` has the free slots by queue."""
        for held in self._held:
            if free[held.delivery.queue] > 0:
                self._held.remove(held)
                return held.delivery
        return None

    async def keep(self) -> None:
        """Give back what has waited for too long, until cancelled."""
        while True:
            await self._some.wait()
            self._some.clear()
            while self._held:
                await asyncio.sleep(max(0.0, self._held[0].until - self.monotonic()))
                await self.give_back_late()

    async def give_back_late(self) -> None:
        """Give back what has waited for too long; nothing is received ahead for a while then."""
        now, late = self.monotonic(), []
        while self._held and self._held[0].until <= now:
            late.append(self._held.popleft().delivery)
            self._freed.pop(late[-1].queue, None)
        await self._give_back(late)

    async def give_back(self) -> None:
        """Give back all that waits: this process ends."""
        left = [held.delivery for held in self._held]
        self._held.clear()
        await self._give_back(left)

    async def _give_back(self, deliveries: list[Delivery]) -> None:
        await asyncio.gather(*(self.flight.give_back(delivery, 0) for delivery in deliveries))

    def _target(self, queue: str) -> int:
        """How many messages of a queue may wait here."""
        since = self.monotonic() - WINDOW_S
        lately = sum(at > since for at in self._freed.get(queue, ()))
        return min(MOST_A_FETCH, int(lately * AHEAD_S / WINDOW_S))
