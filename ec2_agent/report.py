"""Reports how attempts ended: the outcome to the table, then the message let go, in that order."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from ec2_agent.calls import in_thread
from ec2_agent.events import AttemptEnded, StaleCompletionIgnored
from ec2_agent.finished import Finished, Letter, Way
from ec2_agent.flight import Flight, Held
from ec2_agent.journal import Journal, Undelivered
from ec2_agent.kept import Keep
from ec2_agent.log_event import tell
from ec2_agent.room import Room
from ec2_agent.sandbox import Launcher
from joblane.aws.conditions import ConditionStore
from joblane.aws.jobs import JobStore, Refused
from joblane.aws.lanes import LaneQueue
from joblane.aws.logs import LogStore
from joblane.aws.payloads import Payloads
from joblane.aws.requirements import Requirements
from joblane.aws.secret_store import SecretStore
from joblane.head import Head
from joblane.lifecycle import State
from joblane.retention import Retention

T = TypeVar("T")

_OWN_FAULT = frozenset({"ItemCollectionSizeLimitExceededException", "ValidationException"})


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
    keep: Keep
    secrets: SecretStore
    flight: Flight
    journal: Journal
    room: Room
    retention: Retention
    clock: Callable[[], float]
    """Unix seconds."""
    dice: random.Random

    def now_ms(self) -> int:
        """Unix milliseconds."""
        return int(self.clock() * 1000)


def letter_of(held: Held) -> Letter:
    """Write a message down, so that it can be let go of after a restart."""
    return Letter(held.queue, held.lane.url, held.dead_letters.url, held.received, held.since)


@dataclass(frozen=True, slots=True)
class Report:
    """Brings outcomes to AWS; the journal's courier.

        agent                        table                      lane
        settle  ---------------->    completed
        (killed here)                                           message seen again
                                     refused: ended  <------    another agent claims
                                                     ------>    deletes it

    A blocked job goes into its condition's list in between; whoever is killed before that
    leaves a message that finds it blocked, and joins it then (`claiming.py`).
    """

    jobs: JobStore
    conditions: ConditionStore | None
    flight: Flight
    lane: Callable[[str], LaneQueue]
    """The queue of an address."""

    def held(self, letter: Letter) -> Held:
        """The message that was written down."""
        lane, dead_letters = self.lane(letter.lane_url), self.lane(letter.dead_letters_url)
        return Held(lane, dead_letters, letter.queue, letter.received, letter.since)

    async def settle(self, finished: Finished) -> Way | None:
        """Write an outcome: see Courier."""
        head = finished.head
        for way in (finished.way, finished.if_told):
            try:
                await self._write(head, way)
            except Refused as refusal:
                if way is finished.way and _asked_to_end(refusal.head, head.epoch):
                    continue  # somebody asked for the end while it came by itself
                if _is_written(refusal.head, finished.if_told):
                    return finished.if_told  # before a restart
                tell(StaleCompletionIgnored(head.job_id, refusal))
                return None
            tell(AttemptEnded(head.job_id, head.attempt, way.step.state, way.step.reason))
            return way
        return None

    async def let_go(self, finished: Finished, way: Way | None) -> bool:
        """Let go of the job's message: see Courier."""
        held = self.held(finished.letter)
        if way is None:
            self.flight.abandon(held)
            return True
        if way.hide_s is None:
            return await self.flight.delete(held)
        return await self.flight.give_back(held, way.hide_s)

    async def _write(self, head: Head, way: Way) -> None:
        condition, conditions = way.condition, self.conditions
        if way.step.state is State.BLOCKED and condition is not None and conditions is not None:
            blocked = await _told(lambda: self.jobs.block(head, way.step, condition, way.facts))
            await _told(lambda: conditions.join(condition, blocked, way.step.at_ms))
        else:
            await _told(lambda: self.jobs.settle(head, way.step, way.facts))


async def _told(call: Callable[[], T]) -> T:
    """Make a call. Raises Refused and Undelivered."""
    try:
        return await in_thread(call, "report")
    except BotoCoreError as error:
        raise Undelivered(str(error)) from None
    except ClientError as error:
        own_fault = error.response["Error"]["Code"] in _OWN_FAULT
        raise Undelivered(str(error), own_fault=own_fault) from None


def _asked_to_end(head: Head | None, epoch: int) -> bool:
    """Whether a refusal only means that somebody asked for the job's end."""
    return (
        head is not None
        and head.state is State.ACTIVE
        and head.epoch == epoch
        and head.cancel_requested is not None
    )


def _is_written(head: Head | None, way: Way) -> bool:
    """Whether a job's last step is this one."""
    return head is not None and head.timeline[-1].encode() == way.step.encode()
