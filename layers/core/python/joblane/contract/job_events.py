"""The event that a notification carries: its body in a webhook, its detail on a bus.

Free of what a job runs with: no command, environment, params or result, which may be confidential.
"""

import hashlib
from typing import Final, Literal, Self

from joblane.condition.names import unscope_name
from joblane.contract.models import View
from joblane.formats.times import rfc3339
from joblane.job.head import Head
from joblane.notify.request import Notify, NotifyState
from joblane.state.lifecycle import ENDED, Outcome, State

SOURCE: Final = "joblane"
"""`source` of the event on a bus."""

DETAIL_TYPE: Final = "Joblane Job State Change"
"""`detail-type` of the event on a bus."""


class JobEvent(View):
    """What happened to a job."""

    version: Literal[1]
    """Version of this schema. A later one may have further fields without another version."""
    id: str
    """Id of the event; the same each time it is delivered, so that receivers can drop repeats."""
    event: str
    """`job.` and the state, such as `job.completed`."""
    deployment: str
    """Name of the deployment."""
    tenant: str
    """The tenant that owns the job."""
    job_id: str
    """The job's ULID."""
    name: str | None
    """Name of the job."""
    type: str | None
    """Its job type; null for a command."""
    queue: str
    """Its queue."""
    labels: dict[str, str]
    """Its labels."""
    state: NotifyState
    """Its state after what happened; it may have another one by now."""
    previous_state: State | None
    """Its state before; null if the job was submitted so."""
    ended: bool
    """Whether it has ended; an operator can retry a job that is failed or dead."""
    reason: str
    """Why: a sentence."""
    outcome: Outcome | None
    """How the last attempt ended."""
    exit_code: int | None
    """Exit code of the last attempt."""
    signal: int | None
    """Signal that ended the last attempt."""
    attempt: int
    """Number of the last attempt; 0 before the first."""
    condition: str | None
    """Condition that a blocked job waits for."""
    members: int | None
    """Number of members of a group; null for a job."""
    at: str
    """When it happened: RFC 3339, UTC, milliseconds."""
    created_at: str
    """Time of the submission."""
    started_at: str | None
    """Start of the first attempt."""
    link: str | None
    """URL of the job in the API."""


class Delivery(View):
    """A message of the queue of notifications: an event, and whom to notify."""

    notify: Notify
    """What the job asked for."""
    event: JobEvent
    """The event."""

    @classmethod
    def decode(cls, text: str) -> Self:
        """Read a message, without fields that are not known. Raises ValidationError."""
        return cls.model_validate_json(text, extra="ignore")


def job_event(
    head: Head, state: NotifyState, previous: State | None, deployment: str, api_url: str | None
) -> JobEvent:
    """The event of a job that is as its last transition has left it.

    Its id follows from the job and the transition, so a record that comes twice gives one event.
    """
    at_ms = head.timeline[-1].at_ms
    starts = [step.at_ms for step in head.timeline if step.state is State.ACTIVE]
    return JobEvent(
        version=1,
        id=hashlib.sha256(f"{head.job_id}#{at_ms}#{state}".encode()).hexdigest()[:32],
        event=f"job.{state}",
        deployment=deployment,
        tenant=head.tenant,
        job_id=head.job_id,
        name=head.spec.name,
        type=head.spec.type,
        queue=head.queue,
        labels=head.spec.labels,
        state=state,
        previous_state=previous,
        ended=head.state in ENDED,
        reason=head.reason,
        outcome=head.outcome,
        exit_code=head.exit_code,
        signal=head.signal,
        attempt=head.attempt,
        condition=None if head.condition is None else unscope_name(head.condition),
        members=None if head.group is None else head.group.members,
        at=rfc3339(at_ms),
        created_at=rfc3339(head.timeline[0].at_ms),
        started_at=rfc3339(starts[0]) if starts else None,
        link=None if api_url is None else f"{api_url}/v1/jobs/{head.job_id}",
    )
