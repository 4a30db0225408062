"""A job's head as an item of the `jobs` table, and back."""

import json
import zlib
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from joblane.audit.who import Who
from joblane.aws.table import Item, Row, decode, encode
from joblane.deployment.names import LanePath, parse_lane_path
from joblane.job.fields import STORED
from joblane.job.head import INLINE_SPEC_BYTES, TARGET_BYTES, Head, PayloadObject
from joblane.job.spec import GROUPING, Submission, of_a_member
from joblane.key.segments import KeyName
from joblane.state.lifecycle import INDEXED, Outcome, State
from joblane.state.result import ResultObject
from joblane.state.timeline import SAME_ATTEMPT, Step
from joblane.state.trace import TraceContext, parse_trace

if TYPE_CHECKING:
    from joblane.files.models import OutputSummary
    from joblane.group.array import InArray
    from joblane.group.record import Group, MemberOf
    from joblane.notify.scope import EventScope

HEAD, DATA, RAW = "JOB", "DATA", "RAW"
"""Sort keys: the head, a submission too long for it, the dead letter as SQS delivered it."""

TELLS = "tells"
"""Attribute of the jobs whose transitions somebody wants to know of; infra/sequel.py filters by it.
Its words: `notify` if the submission asks for it, and the job's `events`."""

NOTIFY = "notify"
"""A word of `TELLS`; and the attribute with that field of a submission which is in another item."""

WAKE_SHARDS = 8
"""Partitions of the index `wake`: a partition takes 1000 writes a second, so 8000 jobs a second
may be scheduled, and the requeue function asks 8 questions a minute when nothing is due."""


def key(job_id: str, sk: str = HEAD) -> Row:
    """Primary key of an item."""
    return {"job_id": job_id, "sk": sk}


def attention(tenant: str, state: State) -> str:
    """Partition of the index `attention`: a tenant's jobs in one state."""
    return f"{tenant}#{state}"


def wake_shard(job_id: str) -> str:
    """Partition of the index `wake` that a job belongs to, for good."""
    return str(zlib.crc32(job_id.encode()) % WAKE_SHARDS)


def to_row(head: Head, spec: str | None = None) -> Row:
    """The whole item; `spec` is the submission's JSON unless DATA has it."""
    member, reply_timeout_s = head.member_of is not None, head.spec.reply_timeout_s
    listed = head.state in INDEXED and head.member_of is None
    who = head.submitted_by
    known = {
        # A member of a group is not in its tenant's list: the index has no item for it.
        "tenant" if head.member_of is None else "of": head.tenant,
        "state": head.state,
        "lane": head.lane_path,
        "edit": head.edit or None,
        "epoch": head.epoch,
        "attempt": head.attempt,
        "timeline": [step.encode() for step in head.timeline],
        "held_by": head.agent,
        "outcome": head.outcome,
        "exit_code": head.exit_code,
        "term_signal": head.signal,
        "usage_json": head.usage_json,
        "next_at": head.next_at_ms,
        "expires_at": head.expires_at,
        "condition": head.condition,
        "cancel_requested": head.cancel_requested,
        "submitted_by": None if who is None else who.encode(),
        "deadline": head.deadline_ms,
        "wake": None if head.wake_at_ms is None else wake_shard(head.job_id),
        "wake_at": head.wake_at_ms,
        "attention": attention(head.tenant, head.state) if listed else None,
        "hidden": head.hidden or None,
        "once": head.idempotency_row,
        "resubmit_of": head.resubmit_of,
        "resubmitted_as": head.resubmitted_as,
        "waits_for": head.waits_for,
        "output_bytes": head.output_bytes or None,
        "output_file_bytes": head.output_file_bytes or None,
        "result": head.result,
        "result_object": None if head.result_object is None else asdict(head.result_object),
        "output_files": _output_files_value(head.output_files),
        "follows": _follows(head),
        "slot": head.slot,
        "queued_after": head.queued_after,
        "type_version": head.type_version,
        "assigned": head.assigned,
        "reply_by": head.reply_by_ms,
        "looked": head.looked_ms,
        "values": head.has_values or None,
        "array": None if head.in_array is None else head.in_array.encode(),
        "group": _group_value(head.group),
        "spec_of": head.spec_of,
        "files_mb": head.files_mb or None,
        "bundle_mb": head.bundle_mb or None,
        **_schedule_values(head),
        "reply_timeout": str(reply_timeout_s) if member and reply_timeout_s is not None else None,
        **trace_values(head.caller_trace),
        **_told_values(head),
        **({"spec": spec, **_given(head)} if spec is not None else _beside_data(head)),
    }
    return key(head.job_id) | {name: value for name, value in known.items() if value is not None}


def _schedule_values(head: Head) -> Row:
    """The schedule that started a job, and for which due time."""
    if head.schedule is None:
        return {}
    return {"schedule": head.schedule, "scheduled_at": head.scheduled_ms}


def _given(head: Head) -> Row:
    """What stands beside a submission: which fields of a typed job the submitter gave."""
    return {"given": " ".join(head.given)} if head.given else {}


def _told_values(head: Head) -> Row:
    """Attributes of what is told of a job: the id of its request, and to whom it is told."""
    words = [] if head.spec.notify is None else [NOTIFY]
    words += [] if head.events is None else [head.events]
    request = {} if head.request_id is None else {"request": head.request_id}
    return {**request, TELLS: " ".join(words)} if words else request


def trace_values(caller: TraceContext | None) -> Row:
    """Attributes of a trace context that was submitted; one that is made is not stored."""
    return {} if caller is None else dict(caller.fields)


def encode_spec(spec: Submission) -> str:
    """A submission's JSON as it is stored, without its queue and lane: the row has them.

    The submission of a member, which has no target, is stored without its reply timeout: that is
    an attribute of its row, because members may share the submission of their group.
    """
    left_out = {"queue", "priority"} | ({"reply_timeout_s"} if spec.target is None else set())
    return spec.model_dump_json(exclude_defaults=True, exclude=left_out)


def read_spec(stored: str | bytes, path: LanePath) -> Submission:
    """Inverse of `encode_spec`; fields that this version does not know are ignored."""
    spec = Submission.model_validate_json(stored, extra="ignore", context=STORED)
    queue, lane = parse_lane_path(path)
    return spec.model_copy(update={"queue": queue, "priority": lane})


def spec_of_member(spec: Submission, reply_timeout_s: float | None) -> Submission:
    """The submission of a member of a group, from its own or its group's."""
    return spec.model_copy(update={**of_a_member(spec), "reply_timeout_s": reply_timeout_s})


def is_inline(head: Head) -> bool:
    """Whether a new job has its submission in its head, and not in DATA or S3."""
    if head.payload is not None:
        return False
    spec, own = encode_spec(head.spec), {"lane": head.lane_path, **_told_values(head)}
    beside = {**own, **_given(head), **trace_values(head.caller_trace), **_schedule_values(head)}
    size = len(spec.encode()) + sum(len(name) + len(str(text)) for name, text in beside.items())
    return size <= INLINE_SPEC_BYTES - (TARGET_BYTES if head.spec.target is not None else 0)


def _beside_data(head: Head) -> Row:
    """What is read of a job without its submission, if DATA has that.

    The stream is read for counts and notifications, and a group for its progress.
    """
    spec = head.spec
    found: Row = {"items": spec.items if spec.items != 1 else None, "type": spec.type}
    if spec.notify is not None:
        found[NOTIFY] = spec.notify.model_dump_json(exclude_defaults=True)
    if head.group is not None:
        bare = spec if spec.array is None else spec.model_copy(update={"array": spec.array.bare})
        found["targeting"] = bare.model_dump_json(exclude_defaults=True, include=set(GROUPING))
    return found


def _follows(head: Head) -> Row | None:
    """What the function `sequel` is called for at the job's end (infra/sequel.py)."""
    if head.member_of is not None:
        return {"g": head.member_of.encode()}
    return None if head.key is None else {"k": head.key.encode()}


def to_item(head: Head, spec: str | None = None) -> Item:
    """The item as DynamoDB encodes it."""
    return encode(to_row(head, spec))


def change(before: Head, after: Head) -> tuple[Row, list[str]]:
    """What to SET and what to REMOVE so that `before` becomes `after`, without the timeline."""
    old, new = to_row(before), to_row(after)
    sets = {n: v for n, v in new.items() if n != "timeline" and old.get(n) != v}
    return sets, sorted(old.keys() - new.keys())


def change_whole(before: Head, after: Head) -> tuple[Row, list[str]]:
    """`change` for a job whose submission changes as well; what is in DATA is written beside it."""
    old, new = _whole_row(before), _whole_row(after)
    sets = {n: v for n, v in new.items() if n != "timeline" and old.get(n) != v}
    return sets, sorted(old.keys() - new.keys())


def _whole_row(head: Head) -> Row:
    return to_row(head, encode_spec(head.spec) if is_in_head(head) else None)


def is_in_head(head: Head) -> bool:
    """Whether a stored job has its submission in its head: as `is_inline`, and of members."""
    return head.spec_of is None and is_inline(head)


def to_data(head: Head, spec: str, expires_at: int) -> Row:
    """The DATA item: a submission's JSON, or its abridged JSON and where the whole is."""
    where = key(head.job_id, data_sk(head.edit))
    row = {**where, "spec": spec, **_given(head), "expires_at": expires_at}
    return row if head.payload is None else row | asdict(head.payload)


def from_row(row: Row, data: Row) -> Head:
    """Inverse of `to_row`; `data` is the item with the submission, itself or DATA."""
    who = row.get("submitted_by")
    return Head(
        job_id=row["job_id"],
        tenant=tenant_of(row),
        state=State(row["state"]),
        epoch=row["epoch"],
        attempt=row["attempt"],
        spec=_spec(data["spec"], row),
        timeline=tuple(_steps(row["timeline"])),
        agent=row.get("held_by"),
        outcome=Outcome(row["outcome"]) if "outcome" in row else None,
        exit_code=row.get("exit_code"),
        signal=row.get("term_signal"),
        usage_json=row.get("usage_json"),
        next_at_ms=row.get("next_at"),
        expires_at=row.get("expires_at"),
        wake_at_ms=row.get("wake_at"),
        condition=row.get("condition"),
        cancel_requested=row.get("cancel_requested"),
        submitted_by=None if who is None else Who.decode(who),
        payload=_payload(data),
        hidden="hidden" in row,
        idempotency_row=row.get("once"),
        resubmit_of=row.get("resubmit_of"),
        resubmitted_as=row.get("resubmitted_as"),
        waits_for=row.get("waits_for"),
        output_bytes=row.get("output_bytes", 0),
        output_file_bytes=row.get("output_file_bytes", 0),
        result=row.get("result"),
        result_object=_result_object(row),
        output_files=_output_files(row),
        type_version=row.get("type_version"),
        given=tuple(data.get("given", "").split()),
        caller_trace=parse_trace(row.get("traceparent"), row.get("tracestate")),
        key=key_of(row),
        slot=row.get("slot"),
        queued_after=row.get("queued_after"),
        assigned=row.get("assigned"),
        reply_by_ms=row.get("reply_by"),
        in_array=_in_array(row),
        looked_ms=row.get("looked"),
        has_values="values" in row,
        group=_group(row),
        member_of=member_of(row),
        spec_of=row.get("spec_of"),
        files_mb=row.get("files_mb", 0),
        bundle_mb=row.get("bundle_mb", 0),
        request_id=row.get("request"),
        events=read_events(row),
        schedule=row.get("schedule"),
        scheduled_ms=row.get("scheduled_at"),
        edit=edit_of(row),
    )


def data_key(row: Row) -> Row:
    """Primary key of the item with the submission of a job whose row has none."""
    return key(str(row.get("spec_of") or row["job_id"]), data_sk(edit_of(row)))


def data_sk(edit: int) -> str:
    """Sort key of the submission after so many edits, of which each writes another item."""
    return f"{DATA}#{edit}" if edit else DATA


def edit_of(row: Row) -> int:
    """How often the job of a row was edited."""
    return int(row.get("edit", 0))


def queue_of(row: Row) -> str:
    """The queue of a job's row."""
    return parse_lane_path(row["lane"])[0]


def submitted_field(row: Row, name: str, otherwise: Any) -> Any:
    """A field of a job's submission, from there or from the attribute that replaces it."""
    found = json.loads(row["spec"]) if "spec" in row else row
    return otherwise if (value := found.get(name)) is None else value


def read_events(row: Row) -> "EventScope | None":
    """Which events of a job's row its tenant's feed has."""
    words = str(row.get(TELLS, "")).split()
    scopes: tuple[EventScope, ...] = ("jobs", "members")
    return next((scope for scope in scopes if scope in words), None)


def tenant_of(row: Row) -> str:
    """The tenant of a job's row."""
    return str(row["tenant"] if "tenant" in row else row["of"])


def member_of(row: Row) -> "MemberOf | None":
    """The group that a job's row is a member of."""
    found = row.get("follows", {}).get("g")
    if found is None:
        return None
    from joblane.group.record import MemberOf  # most jobs are in no group

    return MemberOf.decode(found)


def _in_array(row: Row) -> "InArray | None":
    """The place of a job's row in an array."""
    if "array" not in row:
        return None
    from joblane.group.array import InArray

    return InArray.decode(row["array"])


def _group_value(group: "Group | None") -> Row | None:
    """The attribute of a group's job; None for others."""
    if group is None:
        return None
    from joblane.aws.job.group_items import group_value  # most jobs are no group

    return group_value(group)


def _group(row: Row) -> "Group | None":
    """Inverse of `_group_value`."""
    if "group" not in row:
        return None
    from joblane.aws.job.group_items import read_group

    return read_group(row["group"])


def _output_files_value(summary: "OutputSummary | None") -> Row | None:
    """The attribute of a job that has left files; None for others."""
    return None if summary is None else summary.model_dump(exclude_defaults=True)


def _output_files(row: Row) -> "OutputSummary | None":
    """Inverse of `_output_files_value`."""
    if "output_files" not in row:
        return None
    from joblane.files.models import OutputSummary  # most jobs leave no files

    return OutputSummary.model_validate(row["output_files"])


def _result_object(row: Row) -> ResultObject | None:
    """Where the result of a job's row is, if it is in S3."""
    stored = row.get("result_object")
    return None if stored is None else ResultObject(stored["size"], stored["sha256"])


def key_of(row: Row) -> KeyName | None:
    """The key of a job's row; None for a job without one."""
    follows = row.get("follows", {}).get("k")
    return None if follows is None else KeyName.decode(follows)


def _spec(stored: str, row: Row) -> Submission:
    """The submission of a job's row."""
    spec = read_spec(stored, row["lane"])
    if member_of(row) is None:
        return spec
    return spec_of_member(spec, float(row["reply_timeout"]) if "reply_timeout" in row else None)


def from_item(item: Item) -> Head:
    """Inverse of `to_item` for an item with its submission."""
    row = decode(item)
    return from_row(row, row)


def _payload(data: Row) -> PayloadObject | None:
    if "object" not in data:
        return None
    return PayloadObject(data["object"], data["size"], data["sha256"])


def _steps(texts: Iterable[str]) -> Iterable[Step]:
    """Decode a timeline; a claim's attempt is one more than the step before it counted."""
    counted = 0
    for line in texts:
        step = Step.decode(line)
        if step.state is State.ACTIVE:
            step = replace(step, attempt=counted + 1)
        elif step.attempt == SAME_ATTEMPT:
            step = replace(step, attempt=counted)
        counted = step.attempt
        yield step
