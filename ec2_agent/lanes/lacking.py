"""Jobs for which this host lacks something: their messages are left to other agents.

What a host can limit shows when a job is started, so each agent claims such a job once; a job for
which its disk has no room now is claimed again later, and jobs that need less go on here:

    agent A                         lane                     agent B
    claims, cannot limit disk_mb
    gives it back  ------------->   message
                                    message  ----------->    claims and runs it
    remembers the job: receives it again (B was not faster), gives it back without a claim
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from ec2_agent.messages.delivery import Delivery, message_of
from ec2_agent.messages.flight import Flight
from ec2_agent.messages.hiding import LACKING

REMEMBERED = 1000
"""Jobs that are remembered; one that is forgotten is claimed once more."""

FOREVER = float("inf")


@dataclass(eq=False)
class LackingHost:
    """The jobs that this host cannot run, now or at any time."""

    flight: Flight
    monotonic: Callable[[], float]

    def __post_init__(self) -> None:
        self._jobs: OrderedDict[str, float] = OrderedDict()
        """Up to when each is left to others, by job id."""

    def remember(self, job_id: str, seconds: float = FOREVER) -> None:
        """Leave a job to other agents for so long."""
        self._jobs[job_id] = self.monotonic() + seconds
        while len(self._jobs) > REMEMBERED:
            self._jobs.popitem(last=False)

    def knows(self, delivery: Delivery) -> bool:
        """Whether the message's job is one of them."""
        if not self._jobs:
            return False
        message = message_of(delivery)
        return message is not None and self.monotonic() < self._jobs.get(message.job_id, 0.0)

    async def pass_on(self, delivery: Delivery) -> None:
        """Give a message back, for longer the more often it was delivered."""
        await self.flight.give_back(delivery, LACKING.after(delivery.received.receives))
