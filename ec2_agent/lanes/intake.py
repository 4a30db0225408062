"""Polls the lanes while messages are wanted, and passes them to the agent."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from ec2_agent.aws_calls.queues import QueueAt
from ec2_agent.calls import AWS_ERRORS
from ec2_agent.lanes.polling import (
    EMPTY_AFTER_S,
    MOST_A_FETCH,
    Fetch,
    LaneKey,
    Poll,
    next_fetch,
    serving_order,
)
from ec2_agent.logging import events
from ec2_agent.messages.delivery import Delivery
from joblane.aws.queue.lanes import Received
from joblane.deployment.descriptor import Descriptor

LONG_POLL_S = 20
"""The longest poll that SQS offers: an idle agent polls each lane three times a minute."""

STALLED_S = LONG_POLL_S + 10.0
"""A poll that has been open for this long should have been answered."""

PAUSE_S = 2.0
"""Before a lane whose poll failed is polled again."""

FULL_PAUSE_S = 0.25
"""Before a lane is polled again that brought nothing but messages of tenants at their limit. Lower
lanes are served meanwhile, and a backlog of such messages costs four polls a second."""


class Desk(Protocol):
    """Serves messages: see `ec2_agent.serving.desk`."""

    def receive(self, delivery: Delivery) -> bool:
        """Serve a message that has come; False if its tenant runs all that it may run here."""

    def serve(self) -> None:
        """Serve what waits: something may have become free."""


@dataclass(eq=False)
class Intake:
    """Opens polls in the order of `polling.py`, as messages are wanted."""

    descriptor: Descriptor
    queue_at: QueueAt
    wanted: Callable[[], Mapping[str, int]]
    """Gives how many messages are to be received now, by queue."""
    changed: asyncio.Event
    """Set when there may be more of them."""
    clock: Callable[[], float]
    monotonic: Callable[[], float]

    def __post_init__(self) -> None:
        self._open: dict[LaneKey, Poll] = {}
        self._polls: set[asyncio.Task[None]] = set()
        self._crowded: set[LaneKey] = set()
        """Lanes whose last poll brought nothing but messages of tenants at their limit."""
        self._known: set[LaneKey] = set()
        """Lanes that have answered a poll."""
        self._empty: set[LaneKey] = set()
        """Those whose last answer had no message: lower lanes need not wait for the next one."""
        self._fetches = 0
        self._stopped = False
        self.received = 0
        """Messages that polls have brought so far."""
        self.failed = 0
        """Polls that have failed so far."""

    @property
    def open(self) -> bool:
        """Whether a poll is open, or what it brought is being passed on."""
        return bool(self._polls)

    @property
    def stalled(self) -> bool:
        """Whether a poll is open that should have been answered."""
        late = self.monotonic() - STALLED_S
        return any(poll.since <= late for poll in self._open.values())

    async def run(self, desk: Desk) -> None:
        """Poll until stopped; pass each message to the desk, which serves what waits first."""
        while not self._stopped:
            self.changed.clear()
            desk.serve()
            decision = next_fetch(
                serving_order(tuple(self.descriptor.queues), self._fetches),
                self.wanted(),
                self._open,
                self._known,
                self.monotonic(),
            )
            if isinstance(decision, Fetch):
                known_s = EMPTY_AFTER_S if decision.lane in self._empty else 0.0
                self._open[decision.lane] = Poll(self.monotonic() - known_s, decision.most)
                task = asyncio.create_task(self._poll(decision, desk))
                self._polls.add(task)
                task.add_done_callback(self._polls.discard)
                continue
            with suppress(TimeoutError):
                await asyncio.wait_for(self.changed.wait(), decision)

    async def stop(self) -> None:
        """Start no more polls, and wait for the open ones."""
        self._stopped = True
        self.changed.set()
        if self._polls:
            await asyncio.wait(self._polls)

    async def _poll(self, fetch: Fetch, desk: Desk) -> None:
        lane = self.queue_at(self.descriptor.lane_url(*fetch.lane))
        messages: list[Received] = []
        # Many at once, to find those of other tenants between them.
        most = MOST_A_FETCH if fetch.lane in self._crowded else fetch.most
        try:
            messages = await lane.receive(most, LONG_POLL_S)
            self.received += len(messages)
            events.polled(*fetch.lane, len(messages))
            self._known.add(fetch.lane)
            if messages:
                self._empty.discard(fetch.lane)
            else:
                self._empty.add(fetch.lane)
            if messages and not self._pass_on(fetch.lane, lane.url, messages, desk):
                await asyncio.sleep(FULL_PAUSE_S)
        except AWS_ERRORS as error:
            self.failed += 1
            self._empty.discard(fetch.lane)
            events.poll_failed(*fetch.lane, error)
            await asyncio.sleep(PAUSE_S)  # the lane counts as open meanwhile, so it is not polled
        finally:
            del self._open[fetch.lane]
        self.changed.set()

    def _pass_on(
        self,
        lane: LaneKey,
        url: str,
        messages: Iterable[Received],
        desk: Desk,
    ) -> bool:
        """Pass on what a poll brought. Returns whether a tenant below its limit had a message."""
        self._fetches += 1
        dead_letter_url = self.descriptor.dead_letter_url
        admitted = [
            desk.receive(Delivery(lane[0], url, dead_letter_url, message, self.clock()))
            for message in messages
        ]
        if any(admitted):
            self._crowded.discard(lane)
        else:
            self._crowded.add(lane)
        return any(admitted)
