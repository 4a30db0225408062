"""Messages in flight: one loop keeps them invisible while their jobs run.

Another loop gives back what SQS could not be told at once: see `Flight.keep_giving_back`.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from botocore.exceptions import ClientError

from ec2_agent.aws_calls.queues import QueueAt, QueueCalls
from ec2_agent.calls import AWS_ERRORS
from ec2_agent.logging import events
from ec2_agent.messages.delivery import Delivery, message_of
from ec2_agent.messages.hiding import is_spent, is_worn
from ec2_agent.messages.inbox_receipts import InboxReceipts
from ec2_agent.retry import Backoff, aws_backoff
from joblane.aws.queue.batch import BATCH
from joblane.aws.queue.lanes import MAX_DELAY_S, VISIBILITY_S

EXTEND_EVERY_S = VISIBILITY_S / 3
"""Two extensions in a row may fail before a message becomes visible again."""

HELD_S = 11 * 3600
"""A message of a lane that has been held for this long is replaced: SQS keeps one invisible for
12 h at most, and calls may fail for an hour before that. A message of this agent's inbox is
received again instead: nobody else can."""

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
"""Errors of SQS for a message that this agent no longer holds."""


@dataclass(frozen=True, slots=True)
class _Owed:
    """A message that SQS could not be told to show again. Times are in Unix seconds."""

    delivery: Delivery
    due: float
    """When it should be visible."""
    until: float
    """When it is visible in any case."""


class Flight:
    """The messages that this agent holds, by receipt handle."""

    def __init__(
        self,
        clock: Callable[[], float],
        queue_at: QueueAt,
        backoff: Callable[[], Backoff] = aws_backoff,
        receipts: InboxReceipts | None = None,
    ) -> None:
        """`clock` gives Unix seconds, `queue_at` the queue of a URL, `backoff` pauses.

        `receipts` has what is held of the inbox; None: nothing survives this process.
        """
        self._receipts = receipts
        self._clock = clock
        self._queue_at = queue_at
        self._backoff = backoff
        self._held: dict[str, Delivery] = {}
        self._replaced: set[str] = set()
        self._owed: list[_Owed] = []
        self._owes = asyncio.Event()

    def add(self, delivery: Delivery) -> None:
        """Hold a message: keep it invisible from now on."""
        self._held[delivery.received.receipt] = delivery
        if delivery.targeted and self._receipts is not None:
            self._receipts.add(delivery.received.receipt)

    async def show_again(self, inbox_url: str) -> None:
        """Make messages of the inbox visible that an earlier process held and this one does not."""
        if self._receipts is None:
            return
        inbox, left = self._queue_at(inbox_url), self._receipts.take_over(self._held)
        await asyncio.gather(*(_try(None, inbox.hide(each, 0), "show again") for each in left))

    async def delete(self, delivery: Delivery) -> bool:
        """Delete a message: its job has ended. False if SQS must be asked again."""
        if not self._release(delivery):
            return True
        return await self._try_delete(delivery)

    async def give_back(self, delivery: Delivery, seconds: int) -> None:
        """Make a message visible again after `seconds`; one that is worn is replaced instead.

        One that replaces others for long is deleted then: its job has younger ones. If SQS does not
        answer, `keep_giving_back` tries again.
        """
        due = self._clock() + seconds
        replaced = delivery.received.receipt in self._replaced  # its replacement comes by itself
        if not await self.try_to_give_back(delivery, seconds) and not replaced:
            self._owed.append(_Owed(delivery, due, self._clock() + VISIBILITY_S))
            self._owes.set()

    async def try_to_give_back(self, delivery: Delivery, seconds: int) -> bool:
        """Make a message visible again after `seconds`. False if SQS must be asked again."""
        lane, received = self._lane(delivery), delivery.received
        if not self._release(delivery):
            # Its replacement may be hidden for longer; a second message does no harm.
            return await _try(delivery, lane.send_again(received, seconds), "send again")
        if self._is_worn(delivery):
            if is_spent(self._clock() - received.first_sent_ms / 1000):
                return await self._try_delete(delivery)
            return await self._renew(delivery, min(seconds, MAX_DELAY_S))
        return await _try(delivery, lane.hide(received.receipt, seconds), "give back")

    def _is_worn(self, delivery: Delivery) -> bool:
        """Whether a message of a lane is to be replaced; nobody here may send to inboxes."""
        received = delivery.received
        age_s = self._clock() - received.sent_ms / 1000
        return not delivery.targeted and is_worn(received.receives, age_s)

    async def keep_giving_back(self) -> None:
        """Give back what SQS could not be told, until cancelled.

        Without it a message whose job could not be claimed would stay hidden for two minutes more
        than AWS was out of reach, or this process had no descriptor for a connection. It may have
        been received again meanwhile, by an agent that is then seen to run its job.
        """
        while True:
            await self._owes.wait()
            self._owes.clear()
            await self.give_back_owed()

    async def give_back_owed(self) -> None:
        """Try until all that is owed has been given back, or is visible."""
        backoff = self._backoff()
        while self._owed:
            await backoff.pause()
            for owed in tuple(self._owed):
                if await self._settle(owed):
                    self._owed.remove(owed)

    async def _settle(self, owed: _Owed) -> bool:
        """Whether a message that is owed has been given back, or need not be any more."""
        now, delivery = self._clock(), owed.delivery
        if now >= owed.until:
            return True
        seconds = math.ceil(max(0.0, owed.due - now))
        error = await _await_call(self._lane(delivery).hide(delivery.received.receipt, seconds))
        return error is None or _is_final(error)

    async def _renew(self, delivery: Delivery, seconds: int) -> bool:
        """Replace a message by a new one, seen after `seconds` (0 to 900).

        SQS counts the deliveries and the days of the new one from the start. It is sent before the
        other one is deleted: a crash in between duplicates it and never loses it. False if it was
        not sent: the old one is then hidden as any other.
        """
        error = await _await_call(self._lane(delivery).send_again(delivery.received, seconds))
        if error is not None:  # whatever it is: the old one is all that there is
            events.message_not_settled(message_of(delivery), "send again", error)
            return False
        await self._try_delete(delivery)
        return True

    async def move_to_dead_letters(self, delivery: Delivery, reason: str) -> None:
        """Move an invalid message to the dead-letter queue, for an operator.

        It is copied before it is deleted: a crash in between duplicates it and never loses it.
        """
        received, url = delivery.received, delivery.dead_letter_url
        if url is None:  # an inbox has none, and reads its messages before it passes them on
            await self.delete(delivery)
            return
        dead_letters = self._queue_at(url)
        try:
            lane = delivery.lane_url.rpartition("/")[2]
            await dead_letters.send_raw(received.body, reason, lane)
        except AWS_ERRORS as error:
            events.message_not_dead_lettered(error)
            return
        await self.delete(delivery)

    def abandon(self, delivery: Delivery) -> None:
        """Stop holding a message: the agent that owns its job now will receive it."""
        self._release(delivery)

    async def keep(self) -> None:
        """Extend what is held, now and every `EXTEND_EVERY_S`, until cancelled.

        At once, because messages of adopted jobs were last extended by the earlier process. Each
        lane by itself, ten messages a request: a request that fails affects no other lane.
        """
        while True:
            await self.extend()
            await asyncio.sleep(EXTEND_EVERY_S)

    async def extend(self) -> None:
        """Extend all messages once, and replace those that near the limit of 12 h."""
        lanes: dict[str, list[str]] = {}
        old: list[Delivery] = []
        for receipt, delivery in self._held.items():
            if self._clock() - delivery.received_at >= HELD_S:
                old.append(delivery)
                if delivery.targeted:
                    continue
            lanes.setdefault(delivery.lane_url, []).append(receipt)
        tens = [
            (self._queue_at(url), receipts[start : start + BATCH])
            for url, receipts in lanes.items()
            for start in range(0, len(receipts), BATCH)
        ]
        await asyncio.gather(
            *(_extend(lane, ten) for lane, ten in tens),
            *(self._replace(delivery) for delivery in old),
        )

    async def _replace(self, delivery: Delivery) -> None:
        """Replace a message that cannot be held much longer by a new one.

            agent                        lane                       others
            send, delayed  --------->    old (in flight), new
            (killed here)                old, new                   two wake-up calls, one job
            delete old  ------------>    new                ---->   refused while the agent lives

        Nobody holds the new one: an agent that receives it finds the job running and gives it
        back for a minute, and takes the job over when its agent is lost.
        """
        if delivery.targeted:
            # Visible within two minutes, and received again by this agent, which may not send to
            # inboxes. Its job runs: given back every minute. It waits: the new receipt is held.
            self.abandon(delivery)
            return
        try:
            await self._lane(delivery).send_again(delivery.received, MAX_DELAY_S)
        except AWS_ERRORS as error:
            events.message_not_replaced(message_of(delivery), error)
            return
        if delivery.received.receipt not in self._held:
            return  # no longer ours
        del self._held[delivery.received.receipt]
        self._replaced.add(delivery.received.receipt)
        await self._try_delete(delivery)

    async def _try_delete(self, delivery: Delivery) -> bool:
        lane = self._lane(delivery)
        return await _try(delivery, lane.delete(delivery.received.receipt), "delete")

    def _lane(self, delivery: Delivery) -> QueueCalls:
        return self._queue_at(delivery.lane_url)

    def _release(self, delivery: Delivery) -> bool:
        """Stop holding a message; False if it has been replaced."""
        self._held.pop(delivery.received.receipt, None)
        if delivery.targeted and self._receipts is not None:
            self._receipts.remove(delivery.received.receipt)
        if delivery.received.receipt not in self._replaced:
            return True
        self._replaced.discard(delivery.received.receipt)
        return False


async def _extend(lane: QueueCalls, receipts: list[str]) -> None:
    try:
        refused = await lane.extend(receipts)
    except AWS_ERRORS as error:
        events.visibility_not_extended(EXTEND_EVERY_S, error)
        return
    if refused:
        # Visible again, or deleted: the claim's conditions keep the job from running twice.
        events.messages_seen_again(len(refused))


async def _try(delivery: Delivery | None, call: Awaitable[None], what: str) -> bool:
    """Wait for a call that is not essential. False if SQS did not answer, or throttles.

    `delivery` is None for what an earlier process held. Without the call the message becomes
    visible again, and is disposed of by the job's row.
    """
    error = await _await_call(call)
    if error is not None:
        job = None if delivery is None else message_of(delivery)
        events.message_not_settled(job, what, error)
    return error is None or _is_final(error)


async def _await_call(call: Awaitable[None]) -> Exception | None:
    """Wait for a call to SQS; returns its error."""
    try:
        await call
    except AWS_ERRORS as error:
        return error
    return None


def _is_final(error: Exception) -> bool:
    """Whether a call would fail again: a receipt handle that has become invalid stays so."""
    return isinstance(error, ClientError) and error.response["Error"]["Code"] in _FINAL
