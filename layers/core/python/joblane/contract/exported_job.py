"""A line of the export of ended jobs, a row in Athena (docs/how-to/export-ended-jobs.md).

What has no fixed shape (the submission, the result, the usage) is JSON in a text, so that each
column has one type. References to secrets and addresses of webhooks, which may hold a token, are
left out.
"""

from typing import Final, Literal

from joblane.contract.models import View
from joblane.formats.times import rfc3339
from joblane.job.exported import RecordKind
from joblane.job.head import Head
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import first_start

LEFT_OUT: Final = frozenset({"secret_env", "notify", "traceparent", "tracestate"})
"""Fields of a submission that are not exported."""


class ExportedStep(View):
    """One entry of a job's timeline."""

    state: State
    """State after the transition."""
    at: str
    """RFC 3339, UTC, milliseconds."""
    attempt: int
    """Number of the attempt."""
    reason: str
    """Why: a sentence."""
    agent: str | None
    """The agent that made it, if one did."""


class ExportedJob(View):
    """A job as it ended, or that it was deleted: then all fields after `ended_at` are null."""

    version: Literal[1]
    """Version of this schema. A later one may have further fields without another version."""
    record: RecordKind
    """`ended`: it has just ended. `expired`: DynamoDB deletes its row, because its retention is
    over. `deleted`: somebody deleted it."""
    sequence: str
    """Number of the change in the table, 40 digits. A line that is written twice has the same."""
    deployment: str
    """Name of the deployment."""
    tenant: str
    """The tenant that owns it."""
    id: str
    """The job's ULID."""
    ended_at: str
    """When it ended, and of a deleted job the time of its last transition: RFC 3339, UTC,
    milliseconds. Its day is that of the object."""
    created_at: str | None = None
    """Time of the submission."""
    started_at: str | None = None
    """Start of the first attempt since its submission, or since it was last retried."""
    name: str | None = None
    """Its name."""
    type: str | None = None
    """Its job type; null for a command."""
    type_version: int | None = None
    """Version of that type; null for commands and built-in types."""
    queue: str | None = None
    """Its queue."""
    priority: str | None = None
    """Its lane."""
    labels: dict[str, str] | None = None
    """Its labels."""
    group: str | None = None
    """Id of the group that it is a member of; null for most."""
    index: int | None = None
    """Its index in the group: in an array what `JOBLANE_ARRAY_INDEX` says, in a broadcast its
    number. Null for jobs of no group."""
    members: int | None = None
    """Number of members of a group; null for a job."""
    submitted_by: str | None = None
    """Who submitted it, as the issuer of the token names the caller."""
    resubmit_of: str | None = None
    """Id of the job that it repeats."""
    state: State | None = None
    """The state in which it ended."""
    reason: str | None = None
    """Why: a sentence."""
    outcome: Outcome | None = None
    """How the last attempt ended."""
    exit_code: int | None = None
    """Exit code of the last attempt."""
    signal: int | None = None
    """Signal that ended the last attempt."""
    attempt: int | None = None
    """Number of the last attempt; 0 if there was none."""
    epoch: int | None = None
    """How often an agent has claimed it."""
    agent: str | None = None
    """Agent of the last attempt."""
    usage: str | None = None
    """CPU, memory and I/O of the last attempt, as JSON."""
    output_bytes: int | None = None
    """Output that its attempts have stored."""
    output_file_bytes: int | None = None
    """Output files that its attempts have stored."""
    result: str | None = None
    """Its result as JSON; null if it is longer than the job's row holds."""
    timeline: tuple[ExportedStep, ...] | None = None
    """Its transitions, oldest first, as the API shows them."""
    submission: str | None = None
    """What was submitted, as JSON without defaults, `secret_env` and `notify`; null if it was
    deleted meanwhile."""
    abridged: bool | None = None
    """Whether `submission` is cut short, because it was above 256 KB."""
    trace_id: str | None = None
    """Trace-id of the job."""
    request_id: str | None = None
    """Id of the request that submitted it."""


def exported_job(
    head: Head, record: RecordKind, sequence: int, deployment: str, *, has_submission: bool
) -> ExportedJob:
    """The line of a job as its row has it.

    Without `has_submission`, `head` has something else in its place, which is left out.
    """
    spec, start = head.spec, first_start(head.timeline)
    found: dict[str, object] = {
        "created_at": rfc3339(head.timeline[0].at_ms),
        "started_at": None if start is None else rfc3339(start.at_ms),
        "type_version": head.type_version,
        "queue": head.queue,
        "priority": head.lane,
        "group": None if head.member_of is None else head.member_of.group_id,
        "index": head.index,
        "members": None if head.group is None else head.group.members,
        "submitted_by": None if head.submitted_by is None else head.submitted_by.subject,
        "resubmit_of": head.resubmit_of,
        "state": head.state,
        "reason": head.reason,
        "outcome": head.outcome,
        "exit_code": head.exit_code,
        "signal": head.signal,
        "attempt": head.attempt,
        "epoch": head.epoch,
        "agent": head.agent,
        "usage": head.usage_json,
        "output_bytes": head.output_bytes,
        "output_file_bytes": head.output_file_bytes,
        "result": head.result,
        "timeline": tuple(
            ExportedStep(
                state=step.state,
                at=rfc3339(step.at_ms),
                attempt=step.attempt,
                reason=step.full_reason,
                agent=step.agent,
            )
            for step in head.timeline
        ),
        "trace_id": head.trace_id,
        "request_id": head.request_id,
    }
    if has_submission:
        found |= {
            "name": spec.name,
            "type": spec.type,
            "labels": spec.labels,
            "submission": spec.model_dump_json(exclude_defaults=True, exclude=set(LEFT_OUT)),
            "abridged": head.payload is not None,
        }
    return ExportedJob(
        version=1,
        record=record,
        sequence=f"{sequence:040}",
        deployment=deployment,
        tenant=head.tenant,
        id=head.job_id,
        ended_at=rfc3339(head.timeline[-1].at_ms),
    ).model_copy(update=found)


def deleted_job(
    tenant: str, job_id: str, last_ms: int, sequence: int, deployment: str
) -> ExportedJob:
    """The line of a job that somebody deleted; its last transition was at `last_ms`."""
    return ExportedJob(
        version=1,
        record="deleted",
        sequence=f"{sequence:040}",
        deployment=deployment,
        tenant=tenant,
        id=job_id,
        ended_at=rfc3339(last_ms),
    )
