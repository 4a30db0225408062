"""What a job may ask about itself on its line: its context, and its params."""

import json
import os
from contextlib import ExitStack
from typing import Any

from joblane.job.head import Head


def job_context(head: Head) -> dict[str, Any]:
    """What a job may ask about itself on its line."""
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
        "slot": None,
        "name": spec.name,
        "labels": spec.labels,
        "deadline": spec.deadline,
        "timeout_s": spec.timeout_s,
        "heartbeat_timeout_s": spec.heartbeat_timeout_s,
        "traceparent": trace.traceparent,
        "tracestate": trace.state or None,
    }


def job_params(head: Head, ends: ExitStack) -> tuple[int, ...]:
    """The params of a typed job in a file in memory: they may be too long for a message.

    Its descriptor is closed with `ends`. Empty for other jobs.
    """
    params = head.spec.params
    if params is None:
        return ()
    memory = os.memfd_create("params")
    ends.callback(os.close, memory)
    with open(memory, "wb", closefd=False) as file:
        text = json.dumps(params, separators=(",", ":"), ensure_ascii=False)
        file.write(text.encode())
    return (memory,)
