"""What a job may ask about itself on its line: its context, and its params."""

import os
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from joblane.job.head import Head
from joblane.key.policy import Concurrency
from joblane.key.segments import Constant


def job_context(head: Head, typed: "TypedContext | None" = None) -> dict[str, Any]:
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
        "slot": head.slot_token,
        "key": _segments(head, typed),
        "name": spec.name,
        "labels": spec.labels,
        "deadline": spec.deadline,
        "timeout_s": spec.timeout_s,
        "heartbeat_timeout_s": spec.heartbeat_timeout_s,
        "traceparent": trace.traceparent,
        "tracestate": trace.state or None,
    }


def _segments(head: Head, typed: "TypedContext | None") -> list[Constant] | None:
    """The segments of its key; None without one, and for a policy, which agents do not know."""
    if typed is not None and typed.key:
        return list(typed.key)
    written_out = head.spec.concurrency
    return list(written_out.key) if isinstance(written_out, Concurrency) else None


@dataclass(frozen=True, slots=True)
class TypedContext:
    """What a job of a type is given beside its command."""

    params: bytes
    """Its params as JSON: whole, also if the job's head has them abridged."""
    bundle: int | None = None
    """A descriptor that keeps its bundle on this host; the caller closes it."""
    key: tuple[Constant, ...] = ()
    """The segments of the key that its type declares, with its params filled in."""

    def descriptors(self, ends: ExitStack) -> tuple[int, ...]:
        """The params in a file in memory, since they may be too long for a message; the bundle.

        What is opened here is closed with `ends`.
        """
        memory = os.memfd_create("params")
        ends.callback(os.close, memory)
        with open(memory, "wb", closefd=False) as file:
            file.write(self.params)
        return (memory,) if self.bundle is None else (memory, self.bundle)
