"""A job's head as an item of the `jobs` table, and back."""

import zlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from joblane.audit.records import Who
from joblane.job.head import SAME_ATTEMPT, Head, PayloadObject, Step
from joblane.job.lifecycle import NEEDS_ATTENTION, Outcome, State
from joblane.job.spec import Submission

Item = dict[str, Any]

HEAD, DATA, RAW = "JOB", "DATA", "RAW"
"""Sort keys: the head, a submission too long for it, the dead letter as SQS delivered it."""

WAKE_SHARDS = 8
"""Partitions of the index `wake`: a partition takes 1000 writes a second, so 8000 jobs a second
may be scheduled, and the requeue function asks 8 questions a minute when nothing is due."""


def key(job_id: str, sk: str = HEAD) -> Item:
    """Primary key of an item."""
    return {"job_id": text(job_id), "sk": text(sk)}


def text(value: str) -> Item:
    """A string attribute."""
    return {"S": value}


def number(value: int) -> Item:
    """A number attribute."""
    return {"N": str(value)}


def attention(tenant: str, state: State) -> str:
    """Partition of the index `attention`: a tenant's jobs in one state."""
    return f"{tenant}#{state}"


def wake_shard(job_id: str) -> str:
    """Partition of the index `wake` that a job belongs to, for good."""
    return str(zlib.crc32(job_id.encode()) % WAKE_SHARDS)


def to_item(head: Head, spec: str | None = None) -> Item:
    """The whole item; `spec` is the submission's JSON unless DATA has it."""
    waits = head.state in NEEDS_ATTENTION
    who = head.submitted_by
    known = {
        "tenant": text(head.tenant),
        "state": text(head.state),
        "epoch": number(head.epoch),
        "attempt": number(head.attempt),
        "timeline": {"L": [text(step.encode()) for step in head.timeline]},
        "held_by": _text(head.agent),
        "outcome": _text(head.outcome),
        "exit_code": _number(head.exit_code),
        "term_signal": _number(head.signal),
        "usage_json": _text(head.usage_json),
        "next_at": _number(head.next_at_ms),
        "expires_at": _number(head.expires_at),
        "condition": _text(head.condition),
        "cancel_requested": _text(head.cancel_requested),
        "submitted_by": None if who is None else text(who.encode()),
        "deadline": _number(head.deadline_ms),
        "wake": None if head.wake_at_ms is None else text(wake_shard(head.job_id)),
        "wake_at": _number(head.wake_at_ms),
        "attention": text(attention(head.tenant, head.state)) if waits else None,
        "hidden": {"BOOL": True} if head.hidden else None,
        "once": _text(head.idempotency_row),
        "resubmit_of": _text(head.resubmit_of),
        "resubmitted_as": _text(head.resubmitted_as),
        "spec": _text(spec),
        # What counting needs of a submission that is in DATA.
        "queue": text(head.queue) if spec is None else None,
        "items": number(head.spec.items) if spec is None and head.spec.items > 1 else None,
    }
    return key(head.job_id) | {name: value for name, value in known.items() if value is not None}


def change(before: Head, after: Head) -> tuple[Item, list[str]]:
    """What to SET and what to REMOVE so that `before` becomes `after`, without the timeline."""
    old, new = to_item(before), to_item(after)
    sets = {n: v for n, v in new.items() if n != "timeline" and old.get(n) != v}
    return sets, sorted(old.keys() - new.keys())


def to_data(head: Head, spec: str, expires_at: int) -> Item:
    """The DATA item: a submission's JSON, or its abridged JSON and where the whole is."""
    item = {**key(head.job_id, DATA), "spec": text(spec), "expires_at": number(expires_at)}
    if head.payload is not None:
        stored = head.payload
        item |= {
            "object": text(stored.object),
            "size": number(stored.size),
            "sha256": text(stored.sha256),
        }
    return item


def from_item(item: Item, data: Item) -> Head:
    """Inverse of `to_item`; `data` is the item with the submission, itself or DATA."""
    return Head(
        job_id=item["job_id"]["S"],
        tenant=item["tenant"]["S"],
        state=State(item["state"]["S"]),
        epoch=int(item["epoch"]["N"]),
        attempt=int(item["attempt"]["N"]),
        spec=Submission.model_validate_json(data["spec"]["S"]),
        timeline=tuple(_steps(entry["S"] for entry in item["timeline"]["L"])),
        agent=_maybe(item, "held_by"),
        outcome=Outcome(item["outcome"]["S"]) if "outcome" in item else None,
        exit_code=_count(item, "exit_code"),
        signal=_count(item, "term_signal"),
        usage_json=_maybe(item, "usage_json"),
        next_at_ms=_count(item, "next_at"),
        expires_at=_count(item, "expires_at"),
        wake_at_ms=_count(item, "wake_at"),
        condition=_maybe(item, "condition"),
        cancel_requested=_maybe(item, "cancel_requested"),
        submitted_by=Who.decode(item["submitted_by"]["S"]) if "submitted_by" in item else None,
        payload=_payload(data),
        hidden="hidden" in item,
        idempotency_row=_maybe(item, "once"),
        resubmit_of=_maybe(item, "resubmit_of"),
        resubmitted_as=_maybe(item, "resubmitted_as"),
    )


def _payload(data: Item) -> PayloadObject | None:
    if "object" not in data:
        return None
    return PayloadObject(data["object"]["S"], int(data["size"]["N"]), data["sha256"]["S"])


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


def _text(value: str | None) -> Item | None:
    return None if value is None else text(value)


def _number(value: int | None) -> Item | None:
    return None if value is None else number(value)


def _maybe(item: Item, name: str) -> str | None:
    return item[name]["S"] if name in item else None


def _count(item: Item, name: str) -> int | None:
    return int(item[name]["N"]) if name in item else None
