"""What waits on this agent, in the order in which it is served.

First what has its memory and disk reserved, then targeted jobs, whose tenants take turns, then jobs
of tenants that ran their share, whose tenants take turns as well, then what was received ahead.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from ec2_agent.messages.delivery import Delivery
from ec2_agent.serving.verdict import Hold, Wait
from joblane.job.message import Message

FOREVER = float("inf")


class Line(IntEnum):
    """Lines in the order in which they are served."""

    RESERVED = 0
    TARGETED = 1
    TENANTS = 2
    AHEAD = 3


@dataclass(eq=False, slots=True)
class Waiting:
    """A message that waits here, or that is about to; times are of one monotonic clock."""

    delivery: Delivery
    message: Message | None
    """None if Joblane did not write it."""
    hold: Hold | None = None
    since: float = 0.0
    """When this wait began."""
    reserved: bool = False
    """Whether its slot, its memory and its disk are taken."""
    note_at: float = FOREVER
    """When it is to be written into the job what it waits for."""

    @property
    def tenant(self) -> str:
        """The tenant of its job; empty if it is not a message of a job."""
        return "" if self.message is None else self.message.tenant

    @property
    def until(self) -> float:
        """When it is to wait no longer."""
        seconds = None if self.hold is None else self.hold.seconds
        return FOREVER if seconds is None else self.since + seconds

    @property
    def look_at(self) -> float:
        """When it is to be looked at although nothing has changed."""
        return min(self.until, self.note_at)

    @property
    def line(self) -> Line:
        """The line that it belongs to as it waits now."""
        if self.reserved:
            return Line.RESERVED
        if self.delivery.targeted:
            return Line.TARGETED
        of_tenant = self.hold is not None and self.hold.wait is Wait.TENANT
        return Line.TENANTS if of_tenant else Line.AHEAD


class WaitingRoom:
    """Messages that wait; each is in one line, behind those of its tenant that came before it."""

    def __init__(self) -> None:
        self._lines: dict[Line, dict[str, deque[Waiting]]] = {line: {} for line in Line}
        """By tenant, the one whose turn is next first; the oldest message first."""
        self._places: dict[Waiting, Line] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, waiting: Waiting) -> bool:
        return waiting in self._places

    def put(self, waiting: Waiting) -> None:
        """Let a message wait; one that waits already goes to the end of its new line, if new."""
        line = waiting.line
        if (place := self._places.get(waiting)) is line:
            return
        if place is not None:
            self.remove(waiting)
        self._places[waiting] = line
        self._lines[line].setdefault(_turn(waiting, line), deque()).append(waiting)

    def remove(self, waiting: Waiting, *, served: bool = False) -> None:
        """Let a message wait no longer; if it is served, the next turn is another tenant's."""
        line = self._places.pop(waiting)
        tenants, turn = self._lines[line], _turn(waiting, line)
        own = tenants[turn]
        own.remove(waiting)
        if served or not own:
            del tenants[turn]
            if own:
                tenants[turn] = own

    def in_order(self) -> Iterator[Waiting]:
        """All that wait, those served first first; nothing may be put or removed meanwhile."""
        for line in Line:
            for own in self._lines[line].values():
                yield from own

    def of_tenant(self, tenant: str) -> int:
        """Messages of lanes that wait because their tenant runs its share."""
        return len(self._lines[Line.TENANTS].get(tenant, ()))

    def targeted_of(self, tenant: str, queue: str) -> int:
        """Targeted jobs of a tenant and queue that wait."""
        own = self._lines[Line.TARGETED].get(tenant, ())
        return sum(waiting.delivery.queue == queue for waiting in own)

    def ahead_of(self, queue: str) -> int:
        """Messages of a queue that were received before a slot was free."""
        ahead = self._lines[Line.AHEAD].get("", ())
        return sum(waiting.delivery.queue == queue for waiting in ahead)

    def find(self, message: Message) -> Waiting | None:
        """Find the message of a targeted job: SQS may deliver it again while it waits."""
        for waiting in self._places:
            if waiting.delivery.targeted and waiting.message == message:
                return waiting
        return None


def _turn(waiting: Waiting, line: Line) -> str:
    """Whose turn a message takes: tenants take turns in two of the lines."""
    return waiting.tenant if line in {Line.TARGETED, Line.TENANTS} else ""
