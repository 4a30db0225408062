"""Records how attempts ended: decides what is written, and puts it into the journal."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from ec2_agent.lanes.delivery import Delivery
from ec2_agent.outcomes.journal import Journal
from ec2_agent.outcomes.judge import AttemptResult
from ec2_agent.outcomes.record import decide
from joblane.job.head import Head
from joblane.job.retention import Retention


@dataclass(frozen=True, slots=True)
class OutcomeRecorder:
    """Records the outcomes of one agent's attempts."""

    journal: Journal
    retention: Retention
    clock: Callable[[], float]
    """Unix seconds."""
    dice: random.Random
    """For the jitter of retries."""

    def now_ms(self) -> int:
        """Unix milliseconds."""
        return int(self.clock() * 1000)

    async def record(self, head: Head, delivery: Delivery, result: AttemptResult) -> None:
        """Record an attempt's result; returns when its slot may be used again (`Journal.put`)."""
        await self.journal.put(decide(head, delivery, result, self.retention, self.dice))
