"""The trace context of a job, as the W3C recommendation Trace Context defines it.

A job has the context of its caller, or one that is made of its id. Every attempt gets a parent-id
of its own in the same trace. What is made needs no storage: it follows from the job's id and epoch.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from joblane.formats.ids import number_of

MAX_TRACESTATE_CHARS: Final = 512
"""Characters of a `tracestate` that are kept: what the recommendation asks for at least."""

_MAX_MEMBERS = 32
_LONG_MEMBER = 128
"""Members of `tracestate` with more characters are dropped first when it is too long."""

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_MEMBER = re.compile(
    r"[a-z0-9][a-z0-9_*/@-]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)

_SAMPLED, _RANDOM = 1, 2
_KNOWN_FLAGS = _SAMPLED | _RANDOM
"""Flags of the recommendation's levels 1 and 2; all others must be sent as zero."""


class Traced(Protocol):
    """Something about one job, which belongs to a trace."""

    @property
    def job_id(self) -> str:
        """The job's id."""

    @property
    def trace_id(self) -> str:
        """The trace-id of the job: 32 hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A position in a trace."""

    trace_id: str
    """32 hexadecimal digits."""
    parent_id: str
    """16 hexadecimal digits: the span that what follows belongs to."""
    flags: int
    state: str = ""
    """The value of `tracestate`; empty if there is none."""

    @property
    def traceparent(self) -> str:
        """The value of `traceparent`."""
        return f"00-{self.trace_id}-{self.parent_id}-{self.flags:02x}"

    @property
    def fields(self) -> dict[str, str]:
        """The fields that carry it: `traceparent`, and `tracestate` if there is one."""
        parent = {"traceparent": self.traceparent}
        return {**parent, "tracestate": self.state} if self.state else parent

    @property
    def sampled(self) -> bool:
        """Whether it has the flag `sampled`."""
        return bool(self.flags & _SAMPLED)

    def under(self, parent_id: str) -> "TraceContext":
        """The same trace, with another parent-id."""
        return replace(self, parent_id=parent_id)


def parse_trace(traceparent: str | None, tracestate: str | None = None) -> TraceContext | None:
    """Read a context from the fields that carry it; None if `traceparent` is absent or invalid.

    An invalid `tracestate` is left out. So the recommendation wants it: a context that cannot be
    read is no error of the request.
    """
    match = _TRACEPARENT.fullmatch((traceparent or "").strip(" \t"))
    if match is None:
        return None
    version, trace_id, parent_id, flags, more = match.groups()
    if version == "ff" or (version == "00" and more is not None):
        return None
    if not trace_id.strip("0") or not parent_id.strip("0"):
        return None
    known = int(flags, 16) & (_KNOWN_FLAGS if version == "00" else _SAMPLED)
    return TraceContext(trace_id, parent_id, known, _tracestate(tracestate or ""))


def _tracestate(text: str) -> str:
    """The members of a `tracestate` in normal form; empty if one of them is invalid.

    If they are too long, members over 128 characters go first, and then the last ones.
    """
    members = [member for part in text.split(",") if (member := part.strip(" \t"))]
    if len(members) > _MAX_MEMBERS or not all(map(_MEMBER.fullmatch, members)):
        return ""
    if len({member.partition("=")[0] for member in members}) < len(members):
        return ""
    if len(",".join(members)) > MAX_TRACESTATE_CHARS:
        members = [member for member in members if len(member) <= _LONG_MEMBER]
    while len(",".join(members)) > MAX_TRACESTATE_CHARS:
        members.pop()
    return ",".join(members)


def job_trace(job_id: str, caller: TraceContext | None) -> TraceContext:
    """The context of a job: its caller's, or one that is made of its id.

    A job's id has 128 bits like a trace-id, of which 80 are random.
    """
    if caller is not None:
        return caller
    return TraceContext(_make_id(job_id), span_id(job_id, 0), _SAMPLED)


def in_sample(
    job_id: str, caller: TraceContext | None, ratio: float, earlier: Iterable[str] = ()
) -> bool:
    """Whether spans of a job are exported: OpenTelemetry's samplers ParentBased, TraceIdRatioBased.

    The caller's flag decides. Where there was no caller, a part of all traces is in the sample, 0
    to 1, by the last 64 bits of the trace-id. `earlier` are jobs that may have handed their context
    on to this one (its group, or the job that it repeats): if that was made of an id, it has the
    flag in any case, and they decide as before.
    """
    if caller is not None and caller.trace_id not in {_make_id(each) for each in earlier}:
        return caller.sampled
    return int(job_trace(job_id, caller).trace_id[16:], 16) < round(ratio * 2**64)


def _make_id(job_id: str) -> str:
    """The trace-id of a job without a caller."""
    return f"{number_of(job_id):032x}"


def span_id(job_id: str, epoch: int | str) -> str:
    """The parent-id of one attempt of a job: the same whoever computes it.

    Epoch 0 is the job itself; a text is what else a job has a span of (`joblane.job.spans`).
    """
    return hashlib.sha256(f"{job_id}.{epoch}".encode()).hexdigest()[:16]
