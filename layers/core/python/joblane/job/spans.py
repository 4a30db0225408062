"""Spans of a job as OpenTelemetry defines them, made of its timeline.

    submitted        claimed        retry    claimed          completed
    | job                                                             |
    | wait pending   | attempt 1    | wait   | attempt 2              |

They are exported when they end: an attempt and the wait before it with the change that ends the
attempt, the job with its last change. Every id follows from the job, so a change that is handled
twice gives the same spans. An attempt's id is the parent-id in its TRACEPARENT.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from joblane.state.lifecycle import ENDED, Outcome, State
from joblane.state.timeline import Step
from joblane.state.trace import TraceContext, job_trace, parse_trace, span_id

Attributes = Mapping[str, str | int | float]

Kind = Literal["internal", "consumer"]

_WAITS: Final = frozenset(
    {State.SCHEDULED, State.WAITING, State.PENDING, State.RETRY, State.BLOCKED}
)

_FAULTS: Final = frozenset(
    {State.FAILED, State.DEAD, State.STALE, State.EXPIRED, State.PARTIAL_FAILURE}
)
"""Ends of jobs that are errors."""

_FINE: Final = frozenset(
    {
        Outcome.SUCCEEDED,
        Outcome.SKIPPED,
        Outcome.BLOCKED,
        Outcome.CANCELLED,
        Outcome.INTERRUPTED,
    }
)
"""Ends of attempts that are no errors: the program is done, or was stopped for another reason."""


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened during a span."""

    name: str
    at_ms: int
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of work with a beginning and an end, in Unix milliseconds."""

    name: str
    span_id: str
    """16 hexadecimal digits."""
    context: TraceContext
    """Its trace, and the span that it belongs to."""
    start_ms: int
    end_ms: int
    attributes: Attributes
    _: KW_ONLY
    kind: Kind = "internal"
    top: bool = False
    """Whether it has no parent in this job: that is the caller's, or none."""
    remote: bool = False
    """Whether its parent is a caller's."""
    error: str | None = None
    """What went wrong; None if nothing did."""
    events: tuple[SpanEvent, ...] = ()


class Ended(BaseModel):
    """What a change of a job has ended: an attempt, the job, or both.

    It is the content of messages; a reader ignores fields that it does not know.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    job_id: str
    tenant: str
    queue: str
    type: str | None = None
    """Its job type; None for a command."""
    name: str | None = None
    before: State | None
    """The state that the change left; None for a job that was submitted."""
    after: State
    epoch: int
    """Of the attempt that ended; 0 for a job that no agent has claimed."""
    attempt: int
    """Number of the attempt that ended, or of the last one."""
    agent: str | None = None
    """Agent that ran it."""
    timeline: tuple[str, ...]
    """The encoded steps up to the change, which is the last."""
    outcome: Outcome | None = None
    """How the attempt ended; None if its agent was lost."""
    exit_code: int | None = None
    signal: int | None = None
    usage_json: str | None = None
    traceparent: str | None = None
    """The caller's context; None if it had none."""
    tracestate: str | None = None


def ends_something(before: State | None, after: State, *, claimed: bool) -> bool:
    """Whether a change of the state ends an attempt or the job.

    `claimed`: the change is a claim, which ends the attempt of an agent that was lost.
    """
    if before is State.ACTIVE:
        return after is not State.ACTIVE or claimed
    return after in ENDED and before not in ENDED


def spans(ended: Ended) -> list[Span]:
    """The spans that a change of a job ends, the earliest first."""
    return list(_Job(ended).spans())


class _Job:
    """Makes the spans of one job."""

    def __init__(self, ended: Ended) -> None:
        self._ended = ended
        self._steps = [Step.decode(line) for line in ended.timeline]
        caller = parse_trace(ended.traceparent, ended.tracestate)
        self._called = caller is not None
        self._trace = job_trace(ended.job_id, caller)
        self._below = self._trace.under(span_id(ended.job_id, 0))
        self._known: dict[str, str | int | float] = {
            "joblane.job.id": ended.job_id,
            "joblane.tenant": ended.tenant,
        }

    def spans(self) -> Iterator[Span]:
        """Yield them."""
        ran = self._ended.before is State.ACTIVE and len(self._steps) > 1
        yield from self._waits(len(self._steps) - (2 if ran else 1))
        if ran:
            yield self._attempt()
        if self._ended.after in ENDED:
            yield self._job()

    def _waits(self, until: int) -> Iterator[Span]:
        """Each state in which the job waited before the step `until`, since its last attempt."""
        first = until
        while first > 0 and self._steps[first - 1].state in _WAITS:
            first -= 1
        for step, then in zip(
            self._steps[first:until], self._steps[first + 1 : until + 1], strict=True
        ):
            name = f"wait {step.state}"
            yield Span(
                name,
                span_id(self._ended.job_id, f"{name} {step.at_ms}"),
                self._below,
                step.at_ms,
                max(step.at_ms, then.at_ms),
                {**self._known, "joblane.job.state": step.state, "joblane.reason": step.reason},
            )

    def _attempt(self) -> Span:
        """The attempt that ended; its agent's takeover by another one ends it too."""
        ended, (claim, end) = self._ended, self._steps[-2:]
        lost = ended.after is State.ACTIVE or ended.outcome is None
        outcome = Outcome.LOST if lost else ended.outcome or Outcome.LOST
        found: dict[str, str | int | float | None] = {
            **self._known,
            "joblane.attempt": ended.attempt,
            "joblane.epoch": ended.epoch,
            "joblane.outcome": outcome,
            "host.name": ended.agent,
        }
        if not lost:
            found["process.exit.code"] = ended.exit_code
            found["joblane.signal"] = ended.signal
            usage = json.loads(ended.usage_json or "{}")
            found |= {f"joblane.usage.{name}": value for name, value in usage.items()}
        if outcome not in _FINE:
            found["error.type"] = outcome
        return Span(
            f"attempt {ended.queue}",
            span_id(ended.job_id, ended.epoch),
            self._below,
            claim.at_ms,
            max(claim.at_ms, end.at_ms),
            {name: value for name, value in found.items() if value is not None},
            error=None if outcome in _FINE else end.full_reason,
        )

    def _job(self) -> Span:
        """The job, from its submission to its end.

        An operator may restart a job that has ended: then it has another span, below the first,
        from the restart to the next end. Attempts are below the first in any case, since a folded
        timeline does not have every restart.
        """
        ended, last = self._ended, self._steps[-1]
        ends = [n for n, step in enumerate(self._steps[:-1], 1) if step.state in ENDED]
        since = self._steps[max(ends, default=0) :]
        found: dict[str, str | int | float | None] = {
            **self._known,
            "messaging.system": "joblane",
            "messaging.operation.type": "process",
            "messaging.operation.name": "process",
            "messaging.destination.name": ended.queue,
            "messaging.message.id": ended.job_id,
            "joblane.job.type": ended.type,
            "joblane.job.name": ended.name,
            "joblane.job.state": ended.after,
            "joblane.job.claims": ended.epoch,
        }
        fault = ended.after in _FAULTS
        if fault:
            found["error.type"] = ended.after
        first = not ends
        return Span(
            f"process {ended.queue}" if first else f"process {ended.queue} again",
            span_id(ended.job_id, 0 if first else f"again {last.at_ms}"),
            self._trace if first else self._below,
            since[0].at_ms,
            max(since[0].at_ms, last.at_ms),
            {name: value for name, value in found.items() if value is not None},
            kind="consumer",
            top=first,
            remote=first and self._called,
            error=last.full_reason if fault else None,
            events=tuple(_events(since)),
        )


def _events(steps: list[Step]) -> Iterator[SpanEvent]:
    """Ends of attempts that were not the end of the job; one may be for several (`folded`)."""
    for before, step in pairwise(steps):
        if before.state is State.ACTIVE and step.state not in ENDED:
            found: dict[str, str | int | float] = {"joblane.reason": step.full_reason}
            if step.times > 1:
                found["joblane.times"] = step.times
            yield SpanEvent(f"joblane.{step.state}", step.at_ms, found)
