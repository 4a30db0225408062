"""A job in the API: its fields, its progress, and the end of its output."""

import json
from typing import Any

from pydantic import ConfigDict

from joblane.condition.names import unscope_name
from joblane.contract.audit import WhoView, who_view
from joblane.contract.models import View
from joblane.deployment.names import Name
from joblane.formats.times import rfc3339
from joblane.job.fields import OutputFiles
from joblane.job.head import Head, abridge
from joblane.job.spec import JobFields, Resources
from joblane.state.lifecycle import Outcome, State
from joblane.state.timeline import first_start, versions_at


class Transition(View):
    """One entry of a job's timeline."""

    state: State
    """State after the transition."""
    at: str
    """RFC 3339, UTC, milliseconds."""
    attempt: int
    """Number of the attempt."""
    reason: str
    """Why: a sentence."""
    agent: str | None = None
    """The agent that made it, if one did."""
    version: int | None = None
    """Version of its type that the job had then, which an attempt ran; null for commands and
    built-in types."""


class Progress(View):
    """What a running attempt reported last."""

    percent: float | None
    """From 0 to 100."""
    message: str | None
    """Up to 200 characters."""
    step: str | None
    """Which part of its work it is at, up to 60 characters."""
    current: int | None
    """How much of `total` it has done."""
    total: int | None
    """How much there is to do; null if it did not say."""
    at: str
    """When it was reported."""


class KeyOfJob(View):
    """The key of a job; `GET /v1/keys/{type}/{id}` shows its jobs."""

    type: str
    """The job type; `command` for a key that a submission writes out, `policy.NAME` for one of
    joblane.toml."""
    id: str
    """32 hexadecimal digits, which stand for its segments."""


class Stats(View):
    """What a running attempt uses, as of its agent's last heartbeat."""

    cpus: float
    """CPUs in use on average since the heartbeat before, about 10 s."""
    memory_mb: int
    """Memory in MiB, rounded up; without a cgroup, the sum of what its processes have resident."""
    at: str
    """When its agent read it."""


class Limits(View):
    """The limits of each attempt: what was asked for, the type's, or the default."""

    memory_mb: int
    """Memory in MiB, 512 by default. An agent with isolation `namespaces` cannot limit it, and runs
    only jobs that ask for none."""
    cpus: float | None
    """CPU bandwidth in cores; null: running jobs share the cores equally."""
    cores: str | None
    """Cores to run on; null: any."""
    pids: int
    """Processes and threads, 1024 by default."""
    io_bps: int | None
    """Bytes a second read from and written to the disk, each; null: no limit."""
    tmp_mb: int
    """Size of /tmp in MiB, and with it of the work directory unless `disk_mb` is set: 256 by
    default, and at most half of the memory."""
    disk_mb: int | None
    """Size of the work directory in MiB, if it is on the instance's disk."""


class JobProgress(View):
    """Where a job stands and how it got there."""

    id: str
    """The job's ULID."""
    tenant: str
    """The tenant that owns it."""
    state: State
    """Its state."""
    reason: str
    """Why it waits or how it ended: a sentence."""
    attempt: int
    """Number of the present or last attempt; 0 before the first."""
    epoch: int
    """Number of claims so far."""
    edit: int
    """Number of changes of its submission so far: edits (`PATCH /v1/jobs/{job_id}`), and restarts
    with another version of its type."""
    outcome: Outcome | None
    """How the last attempt that has ended did so; null before, and after a retry or replay."""
    exit_code: int | None
    """Exit code of the attempt that `outcome` is of; null if a signal ended it."""
    signal: int | None
    """Signal that ended that attempt."""
    limits: Limits
    """The limits that apply; `resources` are those that were asked for."""
    usage: dict[str, Any] | None
    """CPU, memory and I/O of that attempt."""
    agent: str | None
    """Agent of the present or last attempt; null after a retry or replay."""
    progress: Progress | None
    """What the running attempt reported last, up to 10 s ago. Only `GET /v1/jobs/{id}` shows it."""
    stats: Stats | None
    """What the running attempt uses, up to 10 s ago; null while its agent has not said it. Only
    `GET /v1/jobs/{id}` shows it."""
    result: Any
    """The result of a completed job, any JSON. Only `GET /v1/jobs/{id}` shows it."""
    output_files: OutputFiles | None
    """The files that the newest attempt with `outputs` left: how many, and which globs matched
    none. `GET /v1/jobs/{id}/outputs` lists them."""
    condition: str | None
    """Condition that a blocked job waits for."""
    assigned: str | None
    """Name of the only agent that may run it; null for jobs of a lane."""
    group: str | None
    """Id of the group that it is a member of; null for most jobs."""
    index: int | None
    """Of a member of a group its index there: in an array what `JOBLANE_ARRAY_INDEX` says, in a
    broadcast its number in the order of the agents' names; null for other jobs."""
    value: Any
    """Of a member of an array with values its value. Only `GET /v1/jobs/{id}` shows it."""
    members: int | None
    """Number of members of a group; null for a job, and for a group whose members are not chosen
    yet."""
    key: KeyOfJob | None
    """The key that limits how many jobs run at once with it; null for most jobs."""
    slot: int | None
    """Number of its slot of that key, which rises with each slot that is given; null while it waits
    for one."""
    submitted_by: WhoView | None
    """Who submitted it; of a job that a schedule started, who created that."""
    schedule: str | None
    """Name of the schedule that started it, or its group; null for other jobs."""
    scheduled_at: str | None
    """The due time of that schedule that it was started for, `JOBLANE_SCHEDULED_AT`."""
    type_version: int | None
    """Version of its type that it runs with: that of its submission, or of its last retry or
    replay. null for commands and built-in types."""
    cancel_requested: str | None
    """Why the running attempt was asked to stop."""
    hidden: bool
    """Whether lists leave the job out."""
    resubmit_of: str | None
    """Id of the job that this one repeats."""
    resubmitted_as: str | None
    """Id of the job that repeats this one; the latest, if there are several."""
    created_at: str
    """Time of the submission."""
    started_at: str | None
    """Start of the first attempt since its submission, or since it was last retried or replayed."""
    ended_at: str | None
    """Time when it ended."""
    next_at: str | None
    """Time of the next attempt, or the earliest start."""
    timeline: tuple[Transition, ...]
    """Transitions, oldest first. Of a long timeline the first and the last; the reason of an entry
    in between says how many it stands for."""
    abridged: bool
    """Whether `command`, `env`, `params` and the values of an `array` are cut short here, or left
    out; `GET /v1/jobs/{id}` shows them whole."""


class Job(JobFields, JobProgress):
    """A job as the API answers it: its fields as submitted, and its progress."""

    # An answer is not a request: it may gain fields, and all of them are always there.
    model_config = ConfigDict(
        extra="ignore",
        strict=False,
        frozen=False,
        defer_build=True,
        json_schema_serialization_defaults_required=True,
    )

    queue: Name
    command: tuple[str, ...]
    """What runs: as submitted, or the command of a built-in type; empty for other types."""


class LogEnd(View):
    """The end of a job's output in a stream of events."""

    state: State
    """Final state of the job."""
    reason: str
    """Its reason."""
    exit_code: int | None
    """Exit code of the last attempt."""


def job_view(head: Head, *, whole: bool = False) -> Job:
    """The API's answer for a job; with `whole`, a long command and environment are not cut."""
    spec = head.spec if whole else abridge(head.spec)
    start = first_start(head.timeline)
    fields = dict(spec) | {"traceparent": head.trace.traceparent, "tracestate": None}
    return Job(
        **(fields | head.trace.fields),
        id=head.job_id,
        tenant=head.tenant,
        state=head.state,
        reason=head.reason,
        attempt=head.attempt,
        epoch=head.epoch,
        edit=head.edit,
        outcome=head.outcome,
        exit_code=head.exit_code,
        signal=head.signal,
        limits=_limits(spec.resources),
        usage=json.loads(head.usage_json) if head.usage_json else None,
        agent=head.agent,
        progress=None,
        stats=None,
        result=None,
        output_files=head.output_files,
        condition=None if head.condition is None else unscope_name(head.condition),
        cancel_requested=head.cancel_requested,
        assigned=head.assigned,
        group=None if head.member_of is None else head.member_of.group_id,
        index=head.index,
        value=None if head.value is None else json.loads(head.value),
        members=None if head.group is None else head.group.members,
        key=None if head.key is None else KeyOfJob(type=head.key.scope, id=head.key.hash),
        slot=head.slot,
        submitted_by=who_view(head.submitted_by),
        schedule=head.schedule,
        scheduled_at=None if head.scheduled_ms is None else rfc3339(head.scheduled_ms),
        type_version=head.type_version,
        hidden=head.hidden,
        resubmit_of=head.resubmit_of,
        resubmitted_as=head.resubmitted_as,
        created_at=rfc3339(head.timeline[0].at_ms),
        started_at=None if start is None else rfc3339(start.at_ms),
        ended_at=rfc3339(head.timeline[-1].at_ms) if head.ended else None,
        next_at=rfc3339(head.next_at_ms) if head.next_at_ms is not None else None,
        timeline=tuple(
            Transition(
                state=step.state,
                at=rfc3339(step.at_ms),
                attempt=step.attempt,
                reason=step.full_reason,
                agent=step.agent,
                version=version,
            )
            for step, version in zip(
                head.timeline, versions_at(head.timeline, head.type_version), strict=True
            )
        ),
        abridged=head.is_abridged or spec is not head.spec,
    )


def _limits(asked: Resources) -> Limits:
    return Limits(
        memory_mb=asked.memory,
        cpus=asked.cpus,
        cores=asked.cores,
        pids=asked.processes,
        io_bps=asked.io_bps,
        tmp_mb=asked.tmp,
        disk_mb=asked.disk_mb,
    )
