"""Messages in flight: kept invisible while their jobs run, by one loop for all of them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from botocore.exceptions import BotoCoreError, ClientError

from ec2_agent.calls import in_thread
from ec2_agent.events import (
    MessageNotBuried,
    MessageNotReplaced,
    MessageNotSettled,
    MessagesSeenAgain,
    VisibilityNotExtended,
)
from ec2_agent.log_event import tell
from joblane.aws.lanes import BATCH, MAX_DELAY_S, VISIBILITY_S, LaneQueue, Received

EXTEND_EVERY_S = VISIBILITY_S / 3
"""Two extensions may fail before a message is seen again."""

HAND_ON_S = 11 * 3600
"""A message is replaced when it has been held for so long: SQS lets nobody hold one for more
than 12 h, and an hour of failing calls is borne."""

_FINAL = frozenset(
    {
        "AWS.SimpleQueueService.MessageNotInflight",
        "AWS.SimpleQueueService.NonExistentQueue",
        "InvalidParameterValue",
        "MessageNotInflight",
        "QueueDoesNotExist",
        "ReceiptHandleIsInvalid",
    }
)
"""What SQS says of a message that is not ours to hold any more."""


@dataclass(frozen=True, slots=True)
class Held:
    """A message that this agent has in flight, and where it came from."""

    lane: LaneQueue
    dead_letters: LaneQueue
    queue: str
    received: Received
    since: float
    """When it was received, in Unix seconds."""


class Flight:
    """The messages that this agent holds, by receipt."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Hold nothing yet; `clock` gives Unix seconds."""
        self._clock = clock
        self._held: dict[str, Held] = {}
        self._handed_on: set[str] = set()

    def add(self, held: Held) -> None:
        """Keep a message invisible from now on."""
        self._held[held.received.receipt] = held

    async def delete(self, held: Held) -> bool:
        """Let go of a message for good: its job has ended. False if SQS did not answer."""
        if not self._let_go(held):
            return True
        return await _try(lambda: held.lane.delete(held.received.receipt), "delete")

    async def give_back(self, held: Held, seconds: int) -> bool:
        """Let go of a message; SQS shows it again after `seconds`. False if it did not answer."""
        if self._let_go(held):
            return await _try(lambda: held.lane.hide(held.received.receipt, seconds), "give back")
        # The one that replaced it may be hidden for longer; two are as good as one.
        return await _try(lambda: held.lane.send_again(held.received, seconds), "send again")

    async def bury(self, held: Held, reason: str) -> None:
        """Move a message that is not ours out of the way, where an operator finds it.

        Copied first, deleted second: a crash in between leaves it twice, never nowhere.
        """
        received = held.received
        try:
            await in_thread(
                lambda: held.dead_letters.send_raw(received.body, reason), "bury message"
            )
        except (BotoCoreError, ClientError) as error:
            tell(MessageNotBuried(error))
            return
        await self.delete(held)

    def abandon(self, held: Held) -> None:
        """Stop holding a message without a word: whoever owns its job now will see it."""
        self._let_go(held)

    async def keep(self) -> None:
        """Extend what is held, now and every `EXTEND_EVERY_S`, until cancelled.

        At once, because messages of adopted jobs were extended before their agent was away. Every
        lane by itself, ten messages a request: what fails for some lets no others lapse.
        """
        while True:
            await self.extend()
            await asyncio.sleep(EXTEND_EVERY_S)

    async def extend(self) -> None:
        """Extend all messages once, and replace those that SQS would soon show to others."""
        lanes: dict[LaneQueue, list[str]] = {}
        old: list[Held] = []
        for receipt, held in self._held.items():
            if self._clock() - held.since >= HAND_ON_S:
                old.append(held)
            lanes.setdefault(held.lane, []).append(receipt)
        tens = [
            (lane, receipts[start : start + BATCH])
            for lane, receipts in lanes.items()
            for start in range(0, len(receipts), BATCH)
        ]
        await asyncio.gather(
            *(_extend(lane, ten) for lane, ten in tens), *(self._hand_on(held) for held in old)
        )

    async def _hand_on(self, held: Held) -> None:
        """Put a fresh message in the place of one that cannot be held much longer.

            agent                        lane                       others
            send, delayed  --------->    old (in flight), new
            (killed here)                old, new                   two wake-up calls, one job
            delete old  ------------>    new                ---->   refused while the agent lives

        Nobody holds the new one: whoever receives it finds the job running and gives it back
        for a minute, and takes the job over when its agent is lost.
        """
        try:
            await in_thread(partial(held.lane.send_again, held.received, MAX_DELAY_S), "hand on")
        except (BotoCoreError, ClientError) as error:
            tell(MessageNotReplaced(error))
            return
        if held.received.receipt not in self._held:
            return  # let go of meanwhile, and in whoever's hands it now is
        del self._held[held.received.receipt]
        self._handed_on.add(held.received.receipt)
        await _try(lambda: held.lane.delete(held.received.receipt), "delete")

    def _let_go(self, held: Held) -> bool:
        """Stop holding a message; False if another was sent in its place."""
        self._held.pop(held.received.receipt, None)
        if held.received.receipt not in self._handed_on:
            return True
        self._handed_on.discard(held.received.receipt)
        return False


async def _extend(lane: LaneQueue, receipts: list[str]) -> None:
    try:
        refused = await in_thread(lambda: lane.extend(receipts), "extend visibility")
    except (BotoCoreError, ClientError) as error:
        tell(VisibilityNotExtended(EXTEND_EVERY_S, error))
        return
    if refused:
        # Seen again by then, or gone: the claim's conditions keep the job from running twice.
        tell(MessagesSeenAgain(len(refused)))


async def _try(call: Callable[[], None], what: str) -> bool:
    """Tell SQS something that is only a courtesy. False if it did not answer, or throttles.

    Without it the message comes back by itself, and is disposed of by what the table says.
    """
    try:
        await in_thread(call, what)
    except (BotoCoreError, ClientError) as error:
        tell(MessageNotSettled(what, error))
        # A receipt that is of no use any more is none in an hour either.
        return isinstance(error, ClientError) and error.response["Error"]["Code"] in _FINAL
    return True
