"""The timeline of a job: its transitions, and how a long one is folded."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from joblane.formats.text import shorten
from joblane.formats.times import rfc3339
from joblane.state.lifecycle import ENDED, State

STEP_REASON_CHARS = 160
"""Maximum length in characters of the reason of a timeline entry. Longer ones would push the
head over 1 KB."""

SAME_ATTEMPT = -1
"""The attempt number of a step that neither starts nor ends an attempt: that of the step before.

It can be written without reading the job; decoding the timeline fills in the number.
"""


TIMELINE_LINES = 48
"""Lines above which a timeline is folded; three attempts, the default, have 7."""

_FIRST_LINES, _LAST_LINES = 3, 24
"""Lines that folding keeps: the submission with the first attempt, and the last 12 attempts."""

BLOCK_SERIES = frozenset({State.PENDING, State.ACTIVE, State.BLOCKED})
"""States of a job that blocks again and again. Any other state ends the series."""

_ROUND = (State.ACTIVE, State.BLOCKED, State.PENDING, State.ACTIVE)


_VERSION = "v"
"""Name of `from_version` in an encoded step, whose other fields have places."""


@dataclass(frozen=True, slots=True)
class Step:
    """One transition of a job."""

    state: State
    at_ms: int
    attempt: int
    reason: str
    agent: str | None = None
    records: int | None = None
    """Number of log records of the attempts that ended here, if all of them are stored; a reader of
    one attempt stops after the last. None if that is unknown: the agent was lost, or late."""
    times: int = 1
    """Number of ends of attempts that it stands for, each with its claim (`fold`)."""
    first_ms: int | None = None
    """Time of the first of them, if it stands for several; the other fields are of the last."""
    from_version: int | None = None
    """Of a restart that gave the job another version of its type: the one it had before. The head
    has the latest one, and `versions_at` finds that of each step."""

    def encode(self) -> str:
        """Encode as one compact string, an entry of the timeline attribute."""
        row: list[Any] = [self.state, self.at_ms, self.attempt, short_reason(self.reason)]
        if self.times > 1:
            row += [self.agent, self.records, self.times, self.first_ms]
        elif self.records is not None:
            row += [self.agent, self.records]
        elif self.agent is not None:
            row.append(self.agent)
        if self.from_version is not None:
            row.append({_VERSION: self.from_version})
        return json.dumps(row, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def decode(cls, text: str) -> "Step":
        """Inverse of `encode`."""
        state, at_ms, attempt, reason, *rest = json.loads(text)
        named = rest.pop() if rest and isinstance(rest[-1], dict) else {}
        step = cls(State(state), at_ms, attempt, reason, *rest)
        return replace(step, from_version=named[_VERSION]) if _VERSION in named else step

    @property
    def began_ms(self) -> int:
        """Time of the step, or of the first of those that it stands for."""
        return self.at_ms if self.first_ms is None else self.first_ms

    @property
    def full_reason(self) -> str:
        """The reason, with the number of entries that the step stands for."""
        if self.first_ms is None:
            return self.reason
        return f"{self.reason} (the last of {self.times} times since {rfc3339(self.first_ms)})"


def versions_at(steps: tuple[Step, ...], latest: int | None) -> list[int | None]:
    """The version of its type that a job had at each step; `latest` is that of its head."""
    found: list[int | None] = []
    for step in reversed(steps):
        found.append(latest)
        latest = latest if step.from_version is None else step.from_version
    return found[::-1]


def first_start(steps: tuple[Step, ...]) -> Step | None:
    """The first claim since the submission, or since an operator restarted the job."""
    ends = (n for n, step in enumerate(steps[:-1], 1) if step.state in ENDED)
    since = steps[max(ends, default=0) :]
    return next((step for step in since if step.state is State.ACTIVE), None)


def waits_since(steps: Sequence[Step]) -> Step:
    """The step with which the job came to its state; lines after it are edits."""
    state, *earlier = reversed(steps)
    for step in earlier:
        if step.state is not state.state or step.state is State.ACTIVE:
            break
        state = step
    return state


def short_reason(reason: str) -> str:
    """Cut a long reason at a word and end it with an ellipsis."""
    return shorten(reason, STEP_REASON_CHARS)


def extend(before: tuple[Step, ...], step: Step) -> tuple[Step, ...]:
    """Add a transition to a timeline.

    A job may block and be released many times. A block that follows such a round replaces the
    lines of the round, so the head does not grow:

        active, blocked, pending, active + blocked  ->  active, blocked (the last of 2 times)

    A timeline that becomes too long is folded.
    """
    if step.state is State.BLOCKED and tuple(s.state for s in before[-4:]) == _ROUND:
        earlier = before[-3]
        before = before[:-3]
        step = replace(
            step,
            records=_count_records((earlier, step)),
            times=earlier.times + 1,
            first_ms=earlier.began_ms,
        )
    return fold((*before, step))


def fold(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Shorten a timeline of more than `TIMELINE_LINES`: a few lines stand for those in the middle.

        active, retry, active, retry, ... active, retry  ->  active, retry (the last of 40 times)

    So the head has a bounded size however often a job is tried, interrupted, blocked or restarted.
    What is read from a timeline stays right: its first claim, also since the last restart
    (`first_start`), the number of claims (each is an epoch of the output, `joblane.job.output`),
    and when the last series of blocks began (`joblane.job.blocked`). For that the middle is
    folded in up to four parts: up to the last end of the job, up to the last line that ends a
    series of blocks, up to the last block after it, and the rest. Folding again gives lines of the
    same form. Lines that are left tell the versions of their attempts as before (`versions_at`).
    """
    if len(steps) <= TIMELINE_LINES:
        return steps
    versions = versions_at(steps, None)
    folded = _fold_middle(
        tuple(replace(s, from_version=v) for s, v in zip(steps, versions, strict=True))
    )
    before = (folded[0], *folded)
    return tuple(
        replace(step, from_version=None if had == step.from_version else had)
        for step, had in zip(folded, (earlier.from_version for earlier in before), strict=False)
    )


def _fold_middle(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """`fold` with what `from_version` stands for: the version at each step, None for the latest."""
    start, end = _FIRST_LINES, len(steps) - _LAST_LINES
    # A claim and the line after it belong together. Claims in a row are takeovers, at most 100.
    while start < end and steps[start - 1].state is State.ACTIVE:
        start += 1
    while start < end and steps[end - 1].state is State.ACTIVE:
        end -= 1
    middle = steps[start:end]
    others = [n for n, step in enumerate(middle, 1) if step.state not in BLOCK_SERIES]
    blocks = [n for n, step in enumerate(middle, 1) if step.state is State.BLOCKED]
    ended = max((n for n in others if middle[n - 1].state in ENDED), default=0)
    series = max(others, default=0)
    rest = max([series, *blocks])
    parts = (middle[:ended], middle[ended:series], middle[series:rest], middle[rest:])
    return (*steps[:start], *(step for part in parts for step in _fold(part)), *steps[end:])


def _fold(part: tuple[Step, ...]) -> tuple[Step, ...]:
    """Fold steps into the first claim, the line before it, and one line for all that followed."""
    if len(part) <= 3:
        return part
    last = part[-1]
    claims = [n for n, step in enumerate(part) if step.state is State.ACTIVE]
    if claims:
        kept = part[max(0, claims[0] - 1) : claims[0] + 1]
        ends = [part[n + 1] for n in claims]
    else:  # replayed and dead again, without a claim
        kept = ()
        ends = [step for step in part if step.state is last.state]
    of_blocks = [step for step in part if step.state is State.BLOCKED]
    first = of_blocks[0] if last.state is State.BLOCKED else ends[0]
    times = sum(step.times for step in ends)
    records = _count_records(ends)
    first_ms = first.began_ms if times > 1 else None
    return (*kept, replace(last, records=records, times=times, first_ms=first_ms))


def _count_records(ends: Iterable[Step]) -> int | None:
    """The records of several ends of attempts; None if those of one are unknown."""
    total = 0
    for step in ends:
        if step.records is None:
            return None
        total += step.records
    return total
