"""Messages in flight: kept invisible while their jobs run, by one loop for all of them."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from botocore.exceptions import BotoCoreError, ClientError

from ec2_agent.calls import in_thread
from joblane.aws.lanes import VISIBILITY_S, LaneQueue, Received

EXTEND_EVERY_S = VISIBILITY_S / 3
"""Two extensions may fail before a message is seen again."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Held:
    """A message that this agent has in flight, and where it came from."""

    lane: LaneQueue
    dead_letters: LaneQueue
    queue: str
    received: Received


class Flight:
    """The messages that this agent holds, by receipt."""

    def __init__(self) -> None:
        self._held: dict[str, Held] = {}

    def add(self, held: Held) -> None:
        """Keep a message invisible from now on."""
        self._held[held.received.receipt] = held

    async def delete(self, held: Held) -> None:
        """Let go of a message for good: its job has ended."""
        self._held.pop(held.received.receipt, None)
        await _try(lambda: held.lane.delete(held.received.receipt), "delete")

    async def give_back(self, held: Held, seconds: int) -> None:
        """Let go of a message; SQS shows it again after `seconds`."""
        self._held.pop(held.received.receipt, None)
        await _try(lambda: held.lane.hide(held.received.receipt, seconds), "give back")

    async def bury(self, held: Held, reason: str) -> None:
        """Move a message that is not ours out of the way, where an operator finds it.

        Copied first, deleted second: a crash in between leaves it twice, never nowhere.
        """
        received = held.received
        try:
            await in_thread(
                lambda: held.dead_letters.send_raw(received.body, reason), "bury message"
            )
        except (BotoCoreError, ClientError):
            log.exception("a message that is not ours stays in its lane")
            return
        await self.delete(held)

    def abandon(self, held: Held) -> None:
        """Stop holding a message without a word: whoever owns its job now will see it."""
        self._held.pop(held.received.receipt, None)

    async def keep(self) -> None:
        """Extend what is held, every `EXTEND_EVERY_S`, until cancelled."""
        while True:
            await asyncio.sleep(EXTEND_EVERY_S)
            lanes: dict[LaneQueue, list[str]] = {}
            for receipt, held in self._held.items():
                lanes.setdefault(held.lane, []).append(receipt)
            for lane, receipts in lanes.items():
                await _extend(lane, receipts)


async def _extend(lane: LaneQueue, receipts: list[str]) -> None:
    try:
        refused = await in_thread(lambda: lane.extend(receipts), "extend visibility")
    except (BotoCoreError, ClientError) as error:
        log.warning("visibility not extended, tried again in %.0f s: %s", EXTEND_EVERY_S, error)
        return
    if refused:
        # Seen again by then, or gone: the claim's conditions keep the job from running twice.
        log.warning("%d message(s) could not be kept invisible", len(refused))


async def _try(call: Callable[[], None], what: str) -> None:
    """Tell SQS something that is only a courtesy.

    Without it the message comes back by itself, and is disposed of by what the table says.
    """
    try:
        await in_thread(call, what)
    except (BotoCoreError, ClientError) as error:
        log.warning("%s of a message failed; it will come back by itself: %s", what, error)
