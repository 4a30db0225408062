"""What a job may ask about itself on its line. Pure."""

from collections.abc import Sequence
from typing import Any

from joblane.job.head import Head
from joblane.key.policy import Concurrency
from joblane.key.segments import Constant


def job_context(head: Head, key: Sequence[Constant] = ()) -> dict[str, Any]:
    """What a job may ask about itself on its line; `key` is that of its type, filled in."""
    spec, trace = head.spec, head.trace.under(head.span_id)
    return {
        "job_id": head.job_id,
        "tenant": head.tenant,
        "queue": spec.queue,
        "attempt": head.attempt,
        "max_attempts": spec.retry.max_attempts,
        "epoch": head.epoch,
        "type": spec.type,
        "version": head.type_version,
        "slot": head.slot_token,
        "key": _segments(head, key),
        "name": spec.name,
        "labels": spec.labels,
        "deadline": spec.deadline,
        "timeout_s": spec.timeout_s,
        "heartbeat_timeout_s": spec.heartbeat_timeout_s,
        "traceparent": trace.traceparent,
        "tracestate": trace.state or None,
    }


def _segments(head: Head, key: Sequence[Constant]) -> list[Constant] | None:
    """The segments of its key; None without one, and for a policy, which agents do not know."""
    if key:
        return list(key)
    written_out = head.spec.concurrency
    return list(written_out.key) if isinstance(written_out, Concurrency) else None
