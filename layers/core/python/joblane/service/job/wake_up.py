"""Wake-up messages: when a job gets one, and sending it to the job's lane.

A message only names a job; the table says what to do with it. So a second message is harmless:
its receiver finds the job claimed or ended, or edited since, and deletes it.
"""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from joblane.aws.queue.lanes import MAX_DELAY_S, Lanes
from joblane.job.head import Head
from joblane.job.message import Message
from joblane.state.lifecycle import State

if TYPE_CHECKING:  # the functions of the API do not load the module
    from joblane.deployment.names import Lane

_SENT = frozenset({State.PENDING, State.RETRY, State.SCHEDULED})
_HELD = frozenset({State.ACTIVE, State.BLOCKED})
"""States in which an agent needs the message when another one has died or recovery stopped."""


def message_delay_s(head: Head, now_ms: int) -> int | None:
    """Delay of a job's message in seconds; None for a job that gets no message now.

    A start more than `MAX_DELAY_S` from now is left to the index `wake`, and so is that of a
    scheduled job with a key, which admits it when it is due, or with a target, whose agents are
    chosen then, or of an array, which begins then.
    """
    spec = head.spec
    decided_when_due = any(each is not None for each in (head.key, spec.target, spec.array))
    if head.state not in _SENT or (head.state is State.SCHEDULED and decided_when_due):
        return None
    delay_s = max(0, math.ceil(((head.next_at_ms or 0) - now_ms) / 1000))
    return delay_s if delay_s <= MAX_DELAY_S else None


def renewal_delay_s(head: Head, now_ms: int) -> int | None:
    """Delay of a message that replaces a lost one, in seconds; None for a job that needs none.

    An agent that receives it takes over a running job whose agent was lost, puts a blocked job on
    the list of its condition, and hides the message of a longer backoff until that ends. Scheduled
    jobs are in the index `wake`.
    """
    if head.state in _HELD:
        return 0
    if head.state not in (State.PENDING, State.RETRY):
        return None
    return min(max(0, math.ceil(((head.next_at_ms or 0) - now_ms) / 1000)), MAX_DELAY_S)


def wake_up_message(job: Head) -> Message:
    """The message of a job."""
    return Message(
        job_id=job.job_id,
        tenant=job.tenant,
        lane=job.lane_path,
        edit=job.edit,
        memory_mb=job.spec.resources.memory,
        disk_mb=job.disk_mb,
        work_mb=job.work_mb,
        caller_trace=job.caller_trace,
    )


def send_wake_up(lanes: Lanes, job: Head, delay_s: int = 0) -> bool:
    """Send one job's message: to its lane, or to the inbox of the only agent that may run it.

    False if its queue is gone: it has no lanes to send to. The job stays as it is, `why` says so
    (`joblane.why.queue`), and its messages come when it is edited, or with `joblane requeue` when
    the queue is back. An agent without an inbox is gone: the job fails when it has not replied in
    time.
    """
    if job.assigned is None:
        return lanes.send(job.queue, job.lane, wake_up_message(job), delay_s)
    lanes.send_to_inbox(job.assigned, wake_up_message(job), delay_s)
    return True


class NotSent(NamedTuple):
    """Ids of jobs whose messages were not sent."""

    refused: frozenset[str]
    """SQS did not accept them."""
    gone: frozenset[str]
    """Their queues are gone, as in `send_wake_up`."""

    @property
    def all(self) -> frozenset[str]:
        """Both."""
        return self.refused | self.gone


def send_wake_ups(lanes: Lanes, jobs: Iterable[tuple[Head, int]]) -> NotSent:
    """Send the messages of many jobs, each with its delay, in batches of ten for each lane."""
    by_lane: dict[tuple[str, Lane], list[tuple[Message, int]]] = {}
    for job, delay_s in jobs:
        if job.assigned is not None:
            send_wake_up(lanes, job, delay_s)
            continue
        message = wake_up_message(job)
        by_lane.setdefault((job.queue, job.lane), []).append((message, delay_s))
    refused: set[str] = set()
    gone: set[str] = set()
    for (queue, lane), messages in by_lane.items():
        left = lanes.send_batch(queue, lane, messages)
        if left is None:
            gone.update(message.job_id for message, _ in messages)
        else:
            refused.update(message.job_id for message in left)
    return NotSent(frozenset(refused), frozenset(gone))
