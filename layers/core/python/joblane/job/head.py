"""The head of a job: the item of the jobs table with its state and its timeline.

The head stays under 1 KB in the common case: DynamoDB charges a write by the size of the whole
item, and a job at four write units is possible only below 1 KB. So nothing that can be derived is
stored: the reason, the times and the agent of each step are in the timeline only.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from joblane.audit.who import Who
from joblane.deployment.names import Lane, LanePath, lane_path
from joblane.formats.times import unix_ms
from joblane.job.disk import OUTPUT_MB
from joblane.job.fields import json_bytes
from joblane.job.spec import LISTED_CHARS, Submission
from joblane.key.segments import KeyName
from joblane.notify.scope import EventScope
from joblane.state.lifecycle import ENDED, Attempt, Outcome, State
from joblane.state.result import ResultObject
from joblane.state.timeline import Step, extend
from joblane.state.trace import TraceContext, job_trace, parse_trace, span_id
from joblane.target.match import REPLY_TIMEOUT_S

if TYPE_CHECKING:  # most jobs are in no group and leave no files
    from joblane.files.models import OutputSummary
    from joblane.group.array import InArray
    from joblane.group.record import Group, MemberOf

_Entry = TypeVar("_Entry")

INLINE_SPEC_BYTES = 340
"""Longest submission stored in the head, together with its lane, the id of its request (23 bytes),
a trace context that came with it (66 bytes, and its `tracestate`), and what it tells (12). The rest
of an ended job's head takes about 450 bytes (tests/unit/job/test_cost.py), 130 more with cgroup
accounting and 50 more for a person who submitted it, which leaves room for longer reasons."""

TARGET_BYTES = 125
"""What a job with a target, or a member of a group, has in its head beside the submission: the
agent, the group, the trace of the group (tests/unit/target/test_cost.py)."""

DATA_DAYS = 400
"""Days after which the DATA item of a large submission expires, counted from its submission or
`run_at`. A TTL set when the job ends would cost the item's whole size in write units; 400 is well
over the longest default retention (90). While the job waits, they begin anew when half of them are
gone (`joblane.job.renewal`)."""


@dataclass(frozen=True, slots=True)
class PayloadObject:
    """A submission that is too large for the table and is stored in S3."""

    object: str
    """The object's key in the deployment's bucket."""
    size: int
    """Bytes."""
    sha256: str
    """Hexadecimal."""


@dataclass(frozen=True, slots=True)
class Head:
    """A job as the table stores it."""

    job_id: str
    tenant: str
    state: State
    epoch: int
    """Counts claims; every write of an agent is conditional on the epoch of its claim."""
    attempt: int
    spec: Submission
    """As submitted, with the queue filled in; abridged while `payload` is set."""
    timeline: tuple[Step, ...]
    agent: str | None = None
    """Agent that holds, or last held, the lease."""
    outcome: Outcome | None = None
    """How the last attempt ended."""
    exit_code: int | None = None
    signal: int | None = None
    usage_json: str | None = None
    next_at_ms: int | None = None
    """Earliest start of a scheduled job, or of the next attempt."""
    expires_at: int | None = None
    """Unix seconds; set when the job ended."""
    wake_at_ms: int | None = None
    """When the requeue function checks the job next (index `wake`)."""
    condition: str | None = None
    """Condition that a blocked job waits for."""
    cancel_requested: str | None = None
    """Why the running attempt was asked to stop; None if it was not."""
    submitted_by: Who | None = None
    """None if it is not known, as of a job that runs without the API."""
    payload: PayloadObject | None = None
    """Where the whole submission is, if it is in S3."""
    hidden: bool = False
    """Whether lists leave the job out."""
    idempotency_row: str | None = None
    """Name of the row of the Idempotency-Key that it was submitted with."""
    resubmit_of: str | None = None
    """Id of the job that this one repeats."""
    resubmitted_as: str | None = None
    """Id of the latest job that repeats this one."""
    waits_for: str | None = None
    """What an agent that has its message waits for before the claim, or why the condition of a
    blocked job is not tested yet; void once it is claimed or released."""
    output_bytes: int = 0
    """Output that its attempts have stored, without those whose agent was lost."""
    output_file_bytes: int = 0
    """Output files that its attempts have stored, as `output_bytes`."""
    result: str | None = None
    """The result of a completed job as JSON, if it is short."""
    result_object: ResultObject | None = None
    """A longer result, which is in S3."""
    output_files: "OutputSummary | None" = None
    """Which files the newest attempt that collected any has left in S3."""
    caller_trace: TraceContext | None = None
    """The trace context that it was submitted with; None if there was none."""
    key: KeyName | None = None
    """The key that limits how many jobs run at once with it; None for most jobs."""
    slot: int | None = None
    """The number of its slot of that key; None if it has none yet."""
    queued_after: int | None = None
    """The number of grants of its key when a retry or replay queued it again; None else. Grants of
    its earlier slots are told apart by it."""
    type_version: int | None = None
    """Version of its type; None for commands and built-in types. It changes only when the job is
    started again by hand."""
    given: tuple[str, ...] = ()
    """Of a job with a `type_version`: which fields that a type may fill in its submitter gave, such
    as `timeout_s`, `retry.max_attempts`, `env.MODE` (`joblane.typed.given`)."""
    assigned: str | None = None
    """Name of the only agent that may run it, to whose inbox its message goes; None for most."""
    reply_by_ms: int | None = None
    """When that agent must have claimed it; None once it has."""
    group: "Group | None" = None
    """The progress of a group; None for a job, and for a group whose members are not chosen yet."""
    member_of: "MemberOf | None" = None
    """The group that it is a member of; None for most."""
    in_array: "InArray | None" = None
    """Of a member of an array: its place there; None for most."""
    value: str | None = None
    """Of a member of an array with values its value as JSON, in a head that was read whole; no row
    has it."""
    looked_ms: int | None = None
    """When requeue has looked at all members of an array that goes on; None before."""
    has_values: bool = False
    """Whether it is an array whose values are in items of their own, and not in its submission."""
    spec_of: str | None = None
    """Id of the job whose DATA item has the submission; None for its own."""
    files_mb: int = 0
    """What its input files and its `stdin_file` take on the disk of an agent, in MiB, as of its
    admission; an abridged submission would not tell."""
    bundle_mb: int = 0
    """The same of the bundle of its type's version."""
    request_id: str | None = None
    """Id of the request that submitted it, as in the logs; None for members of groups that tell
    nobody, and if there was none."""
    events: EventScope | None = None
    """Which events its tenant's feed on the event bus has: those of the job, or of a group and its
    members; None for none."""
    schedule: str | None = None
    """Name of the schedule that started it, or its group; None for most jobs."""
    scheduled_ms: int | None = None
    """The due time that it was started for."""
    edit: int = 0
    """How often its submission was changed, by edits and by restarts with another version of its
    type; a message of an earlier edit does not start it. Members of a group have that of the group
    at their start, and their messages."""

    @property
    def is_abridged(self) -> bool:
        """Whether parts of its submission are elsewhere (`joblane.aws.job.payload_store`)."""
        if self.payload is not None:
            return True
        if self.in_array is not None and self.in_array.has_value:
            return self.value is None
        return self.has_values and (self.spec.array is None or self.spec.array.values is None)

    @property
    def trace(self) -> TraceContext:
        """Its trace context."""
        return job_trace(self.job_id, self.caller_trace)

    @property
    def trace_id(self) -> str:
        """Its trace-id."""
        return self.trace.trace_id

    @property
    def span_id(self) -> str:
        """The parent-id that its latest attempt has: each claim has another one."""
        return span_id(self.job_id, self.epoch)

    @property
    def queue(self) -> str:
        """The queue it was routed to."""
        if self.spec.queue is None:
            raise ValueError(f"job {self.job_id} was stored without its queue")
        return self.spec.queue

    @property
    def lane(self) -> Lane:
        """Its lane in that queue."""
        return self.spec.priority

    @property
    def work_mb(self) -> int:
        """Size of its work directory on the host's disk, in MiB; 0 if that is in memory."""
        return self.spec.resources.disk_mb or 0

    @property
    def own_disk_mb(self) -> int:
        """What an attempt puts on the disk with its agent's files at most, in MiB."""
        return self.files_mb + self.bundle_mb + OUTPUT_MB

    @property
    def disk_mb(self) -> int:
        """What an attempt puts on the host's disk at most, in MiB (`joblane.job.disk`)."""
        return self.own_disk_mb + self.work_mb

    @property
    def lane_path(self) -> LanePath:
        """The lane that its message is in."""
        return lane_path(self.queue, self.lane)

    @property
    def ended(self) -> bool:
        """Whether the state is terminal."""
        return self.state in ENDED

    def has_expired_row(self, now_s: float) -> bool:
        """Whether its row has expired; DynamoDB deletes it later, readers hide it already."""
        return self.expires_at is not None and self.expires_at <= now_s

    def visible_to(self, tenant: str, now_s: float) -> bool:
        """Whether a tenant can see it: not another tenant's job, and not an expired row."""
        return self.tenant == tenant and not self.has_expired_row(now_s)

    @property
    def reason(self) -> str:
        """Why it waits or how it ended."""
        if self.waits_for is not None and self.state in {State.PENDING, State.RETRY, State.BLOCKED}:
            return self.waits_for
        return self.timeline[-1].full_reason

    @property
    def index(self) -> int | None:
        """The index of a member in its group; None for any other job."""
        if self.in_array is not None:
            return self.in_array.index
        return None if self.member_of is None else self.member_of.index

    @property
    def slot_token(self) -> str | None:
        """JOBLANE_SLOT of its attempt, for fencing: it rises with every claim under the key."""
        return None if self.slot is None else f"{self.slot}.{self.epoch}"

    @property
    def reply_timeout_ms(self) -> int:
        """How long the agent that it is assigned to may take to claim it."""
        return round((self.spec.reply_timeout_s or REPLY_TIMEOUT_S) * 1000)

    @property
    def deadline_ms(self) -> int | None:
        """Deadline in Unix milliseconds."""
        return None if self.spec.deadline is None else unix_ms(self.spec.deadline)

    @property
    def deadline_is_given(self) -> bool:
        """Whether its deadline stays when it is started or submitted again.

        Else its type has set it, or it is not known who has: that lies beside a row without its
        submission. Those who start the job again read it, and check what it becomes.
        """
        return self.type_version is None or "deadline" in self.given

    def current_attempt(self) -> Attempt:
        """The current attempt, for `settle`."""
        return Attempt(self.attempt, self.spec.retry, self.spec.restartable, assigned=self.assigned)


def version(head: Head) -> str:
    """Version of a job, the content of its ETag; it changes with every update."""
    steps = [step.encode() for step in head.timeline]
    rest = (head.state, head.epoch, head.next_at_ms, head.condition, head.cancel_requested)
    seen = repr((*rest, head.hidden, head.resubmitted_as, head.wake_at_ms, head.waits_for, steps))
    if head.group is not None:
        seen += str(head.group.version)
    return hashlib.sha256(seen.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def make_head(
    job_id: str,
    tenant: str,
    spec: Submission,
    now_ms: int,
    who: Who | None = None,
    *,
    caller_trace: TraceContext | None = None,
) -> Head:
    """Make the head of a newly accepted job: scheduled or pending.

    The trace context in the submission counts before `caller_trace`. It leaves the submission,
    which is stored again when the job is resubmitted.
    """
    caller_trace = parse_trace(spec.traceparent, spec.tracestate) or caller_trace
    spec = spec.model_copy(update={"traceparent": None, "tracestate": None})
    run_at_ms = None if spec.run_at is None else unix_ms(spec.run_at)
    next_at_ms: int | None = None
    wake_at_ms = None if spec.deadline is None else unix_ms(spec.deadline)
    if run_at_ms is not None and run_at_ms > now_ms:
        state, next_at_ms, wake_at_ms = State.SCHEDULED, run_at_ms, run_at_ms
        reason = f"waits for its run_at {spec.run_at}"
    else:
        state, reason = State.PENDING, waits_in_lane(spec)
    return Head(
        job_id=job_id,
        tenant=tenant,
        state=state,
        epoch=0,
        attempt=0,
        spec=spec,
        timeline=(Step(state, now_ms, 0, reason),),
        next_at_ms=next_at_ms,
        wake_at_ms=wake_at_ms,
        submitted_by=who,
        caller_trace=caller_trace,
    )


def waits(head: Head) -> str:
    """The reason of a pending job."""
    if head.assigned is None:
        return waits_in_lane(head.spec)
    return f"waits for a free slot of agent {head.assigned}, the only one that may run it"


def waits_in_lane(spec: Submission) -> str:
    """The reason of a pending job."""
    return f"waits in lane {spec.priority} of queue {spec.queue} for an agent with a free slot"


def with_step(head: Head, step: Step) -> Head:
    """Apply one transition to a head in memory, as the store does in the table."""
    timeline = extend(head.timeline, step)
    return replace(head, state=step.state, attempt=step.attempt, timeline=timeline)


def abridge(spec: Submission) -> Submission:
    """The submission with its texts and lists cut to `LISTED_CHARS`.

    A word counts one more than it has, as a command may have 200,000 that are empty. The result is
    a valid submission: code that needs only queue, times and limits can use it as the whole one.
    """
    spec = _files_abridged(spec)
    texts = [*spec.command, *spec.env, *spec.env.values()]
    params = 0 if spec.params is None else json_bytes(spec.params)
    if sum(len(text) + 1 for text in texts) + params <= LISTED_CHARS:
        return spec
    words, left = [], LISTED_CHARS
    for word in spec.command:
        left -= len(word) + 1
        if left < 0:
            words.append(word[: max(left + len(word), 0)] + "\u2026")
            break
        words.append(word)
    # The command of a job type is always short.
    if spec.type is None:
        return spec.model_copy(update={"command": tuple(words), "env": {}})
    return spec.model_copy(update={"params": {}, "env": {}})


def _files_abridged(spec: Submission) -> Submission:
    """The submission with the first characters of its stdin, and the first of its files.

    Of an array with long values it has their number.
    """
    cut: dict[str, object] = {}
    if spec.stdin is not None and len(spec.stdin) > LISTED_CHARS:
        cut["stdin"] = spec.stdin[:LISTED_CHARS] + "\u2026"
    if len(inputs := _first(spec.inputs, lambda file: len(file.path))) < len(spec.inputs):
        cut["inputs"] = inputs
    if len(outputs := _first(spec.outputs, len)) < len(spec.outputs):
        cut["outputs"] = outputs
    if spec.array is not None and json_bytes(spec.array.values) > LISTED_CHARS:
        cut["array"] = spec.array.bare
    return spec.model_copy(update=cut) if cut else spec


def _first(entries: tuple[_Entry, ...], chars: Callable[[_Entry], int]) -> tuple[_Entry, ...]:
    """The first entry, and those after it with `LISTED_CHARS` characters together."""
    most = LISTED_CHARS
    for index, entry in enumerate(entries):
        most -= chars(entry)
        if most < 0:  # at least one, so that a job with files can be told
            return entries[: max(1, index)]
    return entries
