"""Polls the lanes while slots are free, and hands what arrives to the agent."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from botocore.exceptions import BotoCoreError, ClientError

from ec2_agent.calls import in_thread
from ec2_agent.events import PollFailed
from ec2_agent.flight import Held
from ec2_agent.log_event import tell
from ec2_agent.polling import Fetch, LaneKey, next_fetch, serving_order
from joblane.aws.lanes import LaneQueue, Received

LONG_POLL_S = 20
"""The longest poll that SQS offers: an idle agent asks each lane three times a minute."""

TROUBLE_S = 2.0
"""Pause of a lane whose poll failed."""


@dataclass(frozen=True, slots=True)
class LanePair:
    """A lane and its dead-letter queue."""

    lane: LaneQueue
    dead_letters: LaneQueue


class Intake:
    """Keeps the right polls open."""

    def __init__(
        self,
        lanes: Mapping[LaneKey, LanePair],
        free: Callable[[], Mapping[str, int]],
        admit: Callable[[Held], None],
        clock: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self._lanes = lanes
        self._queues = tuple(dict.fromkeys(queue for queue, _ in lanes))
        self._free = free
        self._admit = admit
        self._clock = clock
        self._monotonic = monotonic
        self._open_since: dict[LaneKey, float] = {}
        self._polls: set[asyncio.Task[None]] = set()
        self._fetches = 0
        self._stopped = False
        self.changed = asyncio.Event()
        """To be set when a slot is freed."""

    async def run(self) -> None:
        """Poll until stopped."""
        while not self._stopped:
            self.changed.clear()
            decision = next_fetch(
                serving_order(self._queues, self._fetches),
                self._free(),
                self._open_since,
                self._monotonic(),
            )
            if isinstance(decision, Fetch):
                self._open_since[decision.lane] = self._monotonic()
                task = asyncio.create_task(self._poll(decision))
                self._polls.add(task)
                task.add_done_callback(self._polls.discard)
                continue
            with suppress(TimeoutError):
                await asyncio.wait_for(self.changed.wait(), decision)

    async def stop(self) -> None:
        """Start no more polls, and wait for those that are open; what they bring is given back."""
        self._stopped = True
        self.changed.set()
        if self._polls:
            await asyncio.wait(self._polls)

    async def _poll(self, fetch: Fetch) -> None:
        pair = self._lanes[fetch.lane]
        messages: list[Received] = []
        try:
            messages = await in_thread(
                lambda: pair.lane.receive(fetch.most, LONG_POLL_S), f"poll {fetch.lane}"
            )
        except (BotoCoreError, ClientError) as error:
            tell(PollFailed(*fetch.lane, error))
            await asyncio.sleep(TROUBLE_S)  # the lane counts as open, so nobody asks it
        finally:
            del self._open_since[fetch.lane]
        if messages:
            self._fetches += 1
            for message in messages:
                held = Held(pair.lane, pair.dead_letters, fetch.lane[0], message, self._clock())
                self._admit(held)
        self.changed.set()
