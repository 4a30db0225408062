"""The end of an attempt: its outcome written, then its message let go, in that order."""

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from ec2_agent.calls import in_thread
from ec2_agent.decisions import Verdicted, expires_at, of_told, usage_json
from ec2_agent.flight import Flight, Held
from ec2_agent.sandbox import Ending, Launcher
from joblane.aws.conditions import ConditionStore
from joblane.aws.jobs import Facts, JobStore, Refused
from joblane.aws.logs import LogStore
from joblane.aws.payloads import Payloads
from joblane.aws.requirements import Requirements
from joblane.aws.secret_store import SecretStore
from joblane.config import Retention
from joblane.head import Head, Step
from joblane.lifecycle import ENDED, Settlement, State, settle

T = TypeVar("T")

RETRY_S = (0.2, 0.5, 1.0, 2.0, 5.0)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tools:
    """What attempts share."""

    jobs: JobStore
    payloads: Payloads
    logs: LogStore
    conditions: ConditionStore | None
    """None in a deployment without recovery: exit 75 is a failure like any other then."""
    requirements: Requirements | None
    launcher: Launcher
    secrets: SecretStore
    flight: Flight
    retention: Retention
    clock: Callable[[], float]
    """Unix seconds."""
    dice: random.Random

    def now_ms(self) -> int:
        """Unix milliseconds."""
        return int(self.clock() * 1000)


@dataclass(frozen=True, slots=True)
class Report:
    """Reports one attempt."""

    tools: Tools
    head: Head
    held: Held
    abandoned: Callable[[], bool]
    """Whether the lease is lost: what has not been written by then is not written any more."""

    async def write(self, verdict: Verdicted, ending: Ending | None, records: int) -> None:
        """Write the outcome, then let go of the message: in this order nothing is lost.

            agent                        table                      lane
            settle  ---------------->    completed
            (killed here)                                           message seen again
                                         refused: ended  <------    another agent claims
                                                         ------>    deletes it

        A blocked job goes into its condition's list in between; whoever is killed before that
        leaves a message that finds it blocked, and joins it then (`claiming.py`).
        """
        try:
            settlement = await self._settle(verdict, ending, records)
        except Refused as refusal:
            if self.abandoned() or not _asked_to_end(refusal.head, self.head.epoch):
                log.warning("job %s: stale_completion_ignored, %s", self.head.job_id, refusal)
                self.tools.flight.abandon(self.held)
                return
            # Somebody asked for the end while the attempt came to its own: not tried again.
            told = of_told(self.head, self.tools.now_ms(), verdict.why)
            await self.write(told, ending, records)
            return
        log.info("job %s attempt %d: %s", self.head.job_id, self.head.attempt, settlement.reason)
        if settlement.state in ENDED or settlement.state is State.BLOCKED:
            await self.tools.flight.delete(self.held)
        else:
            await self.tools.flight.give_back(self.held, int(settlement.delay_s))

    async def _settle(self, verdict: Verdicted, ending: Ending | None, records: int) -> Settlement:
        """Write the outcome, however long AWS takes. Raises Refused: the job has moved on."""
        head, tools = self.head, self.tools
        attempt = replace(head.current_attempt(), started=ending is not None)
        settlement = settle(verdict.outcome, verdict.why, attempt, tools.dice)
        now_ms = tools.now_ms()
        number = head.attempt if settlement.counted else head.attempt - 1
        step = Step(settlement.state, now_ms, number, settlement.reason, records=records)
        ended = settlement.state in ENDED
        again = settlement.state is State.RETRY
        facts = Facts(
            outcome=verdict.outcome,
            exit_code=ending.exit_code if ending else None,
            signal=ending.signal if ending else None,
            usage_json=usage_json(ending.usage) if ending else None,
            next_at_ms=now_ms + int(settlement.delay_s * 1000) if again else None,
            expires_at=expires_at(settlement.state, tools.retention, now_ms) if ended else None,
        )
        condition, conditions = verdict.condition, tools.conditions
        if settlement.state is State.BLOCKED and condition is not None and conditions is not None:
            blocked = await self._insist(lambda: tools.jobs.block(head, step, condition, facts))
            await self._insist(lambda: conditions.join(condition, blocked, now_ms))
        else:
            await self._insist(lambda: tools.jobs.settle(head, step, facts))
        return settlement

    async def _insist(self, call: Callable[[], T]) -> T:
        """Make a call until AWS answers, or the lease is lost: Refused then."""
        for tries in count():
            try:
                return await in_thread(call, "report")
            except (BotoCoreError, ClientError) as error:
                if self.abandoned():
                    raise Refused(None) from error
                if tries == 0:
                    log.warning("job %s: outcome waits for AWS: %s", self.head.job_id, error)
                await asyncio.sleep(RETRY_S[min(tries, len(RETRY_S) - 1)])
        raise AssertionError("count ended")


def _asked_to_end(head: Head | None, epoch: int) -> bool:
    """Whether a refusal only means that somebody asked for the job's end."""
    return (
        head is not None
        and head.state is State.ACTIVE
        and head.epoch == epoch
        and head.cancel_requested is not None
    )
