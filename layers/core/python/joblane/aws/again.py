"""Doing it again for many jobs, a page at a time: requeue and restart-failed.

A call costs what its page costs, however many jobs there are; its answer says where to go on.
"""

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from joblane.aws.jobs import JobStore, Refused
from joblane.aws.lanes import MAX_DELAY_S, Lanes
from joblane.aws.operations import Gone, Operations
from joblane.head import Head
from joblane.lifecycle import Event, State
from joblane.message import JOB_ID_PATTERN, Message
from joblane.moves import NotAllowed

if TYPE_CHECKING:
    from joblane.names import Lane

ALL_QUEUES = "_all"
"""Stands for every queue where an operator names one; no queue can be called so."""

_RESTARTED = (State.FAILED, State.DEAD)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which of a tenant's jobs an operator means."""

    tenant: str
    queue: str
    """A queue's name, or `ALL_QUEUES`."""
    type: str | None
    """A job type; None takes commands and every type."""

    def holds(self, head: Head) -> bool:
        """Whether a job is meant."""
        return self.queue in (ALL_QUEUES, head.queue) and self.type in (None, head.spec.type)


@dataclass(frozen=True, slots=True)
class Progress:
    """What one page came to."""

    examined: int
    done: int
    refused: dict[str, str]
    """Jobs that could not be restarted, each with the reason."""
    following: str | None
    """Where to go on; None at the end."""


class Again:
    """Sends and restarts in pages."""

    def __init__(self, jobs: JobStore, lanes: Lanes, operations: Operations) -> None:
        self._jobs = jobs
        self._lanes = lanes
        self._operations = operations

    def requeue(
        self, selection: Selection, now_ms: int, *, limit: int, before: str | None
    ) -> Progress:
        """Send a fresh message for each waiting job of a page of the tenant's newest ones.

        No row is touched, so it is safe at any time: a message too many finds its job claimed
        or ended, and is deleted. A job in backoff gets a message for the moment when that
        ends; one whose backoff has more than 15 minutes to go is left for a later call.
        """
        heads, following = self._jobs.page(selection.tenant, limit=limit, before=before)
        lanes: dict[tuple[str, Lane], list[tuple[Message, int]]] = {}
        for head in heads:
            delay_s = _delay_s(head, now_ms)
            if selection.holds(head) and delay_s is not None:
                message = Message(job_id=head.job_id, tenant=head.tenant)
                lanes.setdefault((head.queue, head.spec.priority), []).append((message, delay_s))
        refused = [
            message.job_id
            for (queue, lane), messages in lanes.items()
            for message in self._lanes.lane(queue, lane).send_batch(messages)
        ]
        return Progress(
            examined=len(heads),
            done=sum(map(len, lanes.values())) - len(refused),
            refused=dict.fromkeys(refused, "SQS took no message for it; try again"),
            following=following,
        )

    def restart_failed(
        self, selection: Selection, why: str, now_ms: int, *, limit: int, after: str | None
    ) -> Progress:
        """Restart a page of the tenant's failed jobs, then of its dead ones, counters reset.

        Jobs that were restarted have left the list, so a second call never restarts one twice.
        """
        name, _, before = (after or f"{_RESTARTED[0]}:").partition(":")
        state = State(name)
        heads, older = self._jobs.attention_page(
            selection.tenant, state, limit=limit, before=before or None
        )
        done, refused = 0, {}
        for head in filter(selection.holds, heads):
            try:
                self._operations.restart(head, Event.RETRY, why, now_ms)
            except NotAllowed as refusal:
                refused[head.job_id] = str(refusal)
            except (Gone, Refused):
                continue  # somebody was faster
            else:
                done += 1
        following = f"{state}:{older}" if older else None
        if following is None and state is not _RESTARTED[-1]:
            following = f"{_RESTARTED[_RESTARTED.index(state) + 1]}:"
        return Progress(len(heads), done, refused, following)


def is_restart_cursor(text: str) -> bool:
    """Whether a text is a `following` of `restart_failed`."""
    name, _, job_id = text.partition(":")
    return name in _RESTARTED and (not job_id or bool(re.match(JOB_ID_PATTERN, job_id)))


def _delay_s(head: Head, now_ms: int) -> int | None:
    """Seconds to keep a fresh message back; None for a job that has none in a lane."""
    if head.state is State.PENDING:
        return 0
    if head.state is not State.RETRY:
        return None
    delay_s = max(0, math.ceil(((head.next_at_ms or 0) - now_ms) / 1000))
    return delay_s if delay_s <= MAX_DELAY_S else None
