"""Reports outcomes to AWS: the transition to the table first, the message to its lane second."""

from collections.abc import Awaitable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from ec2_agent.aws_calls.jobs import ClaimCalls
from ec2_agent.calls import in_thread
from ec2_agent.logging import events
from ec2_agent.messages.flight import Flight
from ec2_agent.outcomes.journal import Undelivered
from ec2_agent.outcomes.record import OutcomeRecord
from joblane.aws.job.jobs import Refused
from joblane.job.head import Head
from joblane.job.outcome import OutcomeTransition
from joblane.service.condition.supervisor import ConditionSupervisor
from joblane.state.lifecycle import State

T = TypeVar("T")

_REJECTED = frozenset({"ItemCollectionSizeLimitExceededException", "ValidationException"})
"""Errors caused by the content of one outcome; other outcomes can still be written."""


@dataclass(frozen=True, slots=True)
class Report:
    """Reports outcomes to AWS, for the journal.

        agent                        table                      lane
        settle  ---------------->    completed
        (killed here)                                           message visible again
                                     refused: ended  <------    another agent claims
                                                     ------>    deletes it

    A blocked job is added to its condition's list in between. If the agent is killed before
    that, the next agent that gets the message adds it (`claiming.py`).
    """

    jobs: ClaimCalls
    conditions: ConditionSupervisor
    flight: Flight

    async def settle(self, outcome: OutcomeRecord) -> OutcomeTransition | None:
        """Write an outcome: see `journal.Reporter`."""
        head = outcome.head
        for transition in (outcome.transition, outcome.if_cancelled):
            try:
                await self._write(head, transition)
            except Refused as refusal:
                if transition is outcome.transition and _cancel_requested(refusal.head, head.epoch):
                    continue  # it was asked to end while it ended by itself
                if _is_written(refusal.head, outcome.if_cancelled):
                    return outcome.if_cancelled  # written before a restart
                events.stale_completion_ignored(head, refusal)
                return None
            step = transition.step
            events.attempt_ended(head, head.span_id, head.attempt, step.state, step.reason)
            return transition
        return None

    async def release_message(
        self, outcome: OutcomeRecord, transition: OutcomeTransition | None
    ) -> bool:
        """Delete the message or give it back: see `journal.Reporter`."""
        delivery = outcome.delivery
        if transition is None:
            self.flight.abandon(delivery)
            return True
        if transition.hide_s is None:
            return await self.flight.delete(delivery)
        return await self.flight.try_to_give_back(delivery, transition.hide_s)

    async def _write(self, head: Head, transition: OutcomeTransition) -> None:
        jobs, step, facts = self.jobs, transition.step, transition.facts
        condition = transition.condition
        if condition is not None:
            blocked = await _call(
                in_thread(partial(jobs.store.block, head, step, condition, facts), "block")
            )
            join = partial(self.conditions.join, condition, blocked, step.at_ms)
            why = await _call(in_thread(join, "join"))
            if why is not None:
                note = partial(jobs.store.note_untested, blocked, why)
                await _call(in_thread(note, "note"))
        else:
            await _call(jobs.settle(head, step, facts))


async def _call(call: Awaitable[T]) -> T:
    """Wait for a call. Raises Refused and Undelivered."""
    try:
        return await call
    except BotoCoreError as error:
        raise Undelivered(str(error)) from None
    except ClientError as error:
        rejected = error.response["Error"]["Code"] in _REJECTED
        raise Undelivered(str(error), rejected=rejected) from None


def _cancel_requested(head: Head | None, epoch: int) -> bool:
    """Whether a write was refused only because the job was asked to end."""
    return (
        head is not None
        and head.state is State.ACTIVE
        and head.epoch == epoch
        and head.cancel_requested is not None
    )


def _is_written(head: Head | None, transition: OutcomeTransition) -> bool:
    """Whether a job's last step is this one."""
    return head is not None and head.timeline[-1].encode() == transition.step.encode()
