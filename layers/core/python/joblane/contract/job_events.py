"""The event that a notification carries: its body in a webhook, its detail on a bus.

Free of what a job runs with: no command, environment, params or result, which may be confidential.
"""

from typing import TYPE_CHECKING, Final, Literal, Self

from joblane.condition.names import unscope_name
from joblane.contract.models import View
from joblane.formats.times import rfc3339
from joblane.notify.event_names import EventName
from joblane.notify.request import Notify
from joblane.state.lifecycle import ENDED, Outcome, State

if TYPE_CHECKING:  # who delivers an event knows no job
    from joblane.job.head import Head

SOURCE: Final = "joblane"
"""`source` of the event on a bus."""

DETAIL_TYPE: Final = "Joblane Job State Change"
"""`detail-type` of the event on a bus."""


class JobEvent(View):
    """What happened to a job."""

    version: Literal[1]
    """Version of this schema. A later one may have further fields without another version."""
    id: str
    """Id of the event, at most 80 characters: `job_id`, `epoch` and `sequence` with dots between
    them. It is the same each time the event is delivered, so that receivers can drop repeats."""
    sequence: str
    """A number of up to 40 digits: of two events of a job, the later one has the larger one."""
    event: str
    """`job.` and the name of the event, such as `job.completed`."""
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
    group: str | None
    """Id of the group that it is a member of; null for most."""
    index: int | None
    """Its index in the group: in an array what `JOBLANE_ARRAY_INDEX` says, in a broadcast its
    number. Null for jobs of no group."""
    state: State
    """Its state after what happened; it may have another one by now."""
    previous_state: State | None
    """Its state before; null if the job was submitted so. The same as `state` if an agent has taken
    the running job over."""
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
    epoch: int
    """How often an agent has claimed the job."""
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
    trace_id: str
    """Trace-id of the job, as in the logs: 32 hexadecimal digits."""
    traceparent: str
    """W3C trace context of its last attempt, for what receivers do because of the event."""
    request_id: str | None
    """Id of the request that submitted it, as in the logs; null if there was none."""


class Delivery(View):
    """A message of the queue of notifications: what to tell, and whom."""

    notify: Notify | None
    """What the job asked for; null for the feed of its tenant."""
    events: tuple[JobEvent, ...]
    """Events of one tenant, at most ten; one if a job asked for it."""

    @property
    def event(self) -> JobEvent:
        """The event, of a job that asked for it; the first one of a feed."""
        return self.events[0]

    @classmethod
    def decode(cls, text: str) -> Self:
        """Read a message, without fields that are not known. Raises ValidationError."""
        return cls.model_validate_json(text, extra="ignore")


def job_event(
    head: "Head",
    name: EventName,
    before: State | None,
    sequence: int,
    deployment: str,
    api_url: str | None,
) -> JobEvent:
    """The event of a job that is as its last transition has left it.

    Its id follows from the job and the record of the transition in the stream, so a record that
    comes twice gives one event.
    """
    starts = [step.at_ms for step in head.timeline if step.state is State.ACTIVE]
    return JobEvent(
        version=1,
        id=f"{head.job_id}.{head.epoch}.{sequence}",
        sequence=str(sequence),
        event=f"job.{name}",
        deployment=deployment,
        tenant=head.tenant,
        job_id=head.job_id,
        name=head.spec.name,
        type=head.spec.type,
        queue=head.queue,
        labels=head.spec.labels,
        group=None if head.member_of is None else head.member_of.group_id,
        index=head.index,
        state=head.state,
        previous_state=before,
        ended=head.state in ENDED,
        reason=head.reason,
        outcome=head.outcome,
        exit_code=head.exit_code,
        signal=head.signal,
        attempt=head.attempt,
        epoch=head.epoch,
        condition=None if head.condition is None else unscope_name(head.condition),
        members=None if head.group is None else head.group.members,
        at=rfc3339(head.timeline[-1].at_ms),
        created_at=rfc3339(head.timeline[0].at_ms),
        started_at=rfc3339(starts[0]) if starts else None,
        link=None if api_url is None else f"{api_url}/v1/jobs/{head.job_id}",
        trace_id=head.trace_id,
        traceparent=head.trace.under(head.span_id).traceparent,
        request_id=head.request_id,
    )
