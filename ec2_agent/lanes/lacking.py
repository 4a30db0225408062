"""Jobs whose limits this host cannot apply: their messages are left to other agents.

What a host can limit shows when a job is started, so each agent claims such a job once:

    agent A                         lane                     agent B
    claims, cannot limit disk_mb
    gives it back  ------------->   message
                                    message  ----------->    claims and runs it
    remembers the job: receives it again (B was not faster), gives it back without a claim
"""

from collections import deque
from dataclasses import dataclass

from ec2_agent.lanes.delivery import Delivery, message_of
from ec2_agent.lanes.flight import Flight

PASS_ON_S, LONGEST_PASS_ON_S = 30, 600
"""How long a message is hidden the first time, and at most."""

REMEMBERED = 1000
"""Jobs that are remembered; one that is forgotten is claimed once more."""


@dataclass(eq=False)
class LackingHost:
    """What jobs this host cannot limit as they ask for."""

    flight: Flight

    def __post_init__(self) -> None:
        self._jobs: deque[str] = deque(maxlen=REMEMBERED)

    def remember(self, job_id: str) -> None:
        """Leave a job to other agents from now on."""
        self._jobs.append(job_id)

    def knows(self, delivery: Delivery) -> bool:
        """Whether the message's job is one of them."""
        if not self._jobs:
            return False
        message = message_of(delivery)
        return message is not None and message.job_id in self._jobs

    async def pass_on(self, delivery: Delivery) -> None:
        """Give a message back, for longer the more often it was delivered."""
        seconds = min(PASS_ON_S * delivery.received.receives, LONGEST_PASS_ON_S)
        await self.flight.give_back(delivery, seconds)
