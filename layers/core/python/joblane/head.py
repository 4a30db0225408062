"""The head of a job: the one small item that says where it is, and its timeline.

The head stays under 1 KB in the common case, because DynamoDB charges a write by the size of
the whole item: four write units a job (DESIGN.md section 4) hold only while it does. So what
can be derived is not stored: the reason, the times and the agent of each step stand once, in
the timeline.
"""

import hashlib
import json
from dataclasses import dataclass, replace

from joblane.audit import Who, who_view
from joblane.conditions import unscoped
from joblane.job import Job, Transition
from joblane.lifecycle import ENDED, Attempt, Outcome, RetryPolicy, State
from joblane.model import LISTED_CHARS, Submission
from joblane.times import rfc3339, unix_ms

__all__ = [
    "DATA_DAYS",
    "INLINE_SPEC_BYTES",
    "MAX_REASON",
    "SAME_ATTEMPT",
    "Aside",
    "Head",
    "Step",
    "abridged",
    "job_view",
    "rfc3339",
    "short_reason",
    "submitted",
    "version",
    "waits_in_lane",
    "with_step",
]

INLINE_SPEC_BYTES = 340
"""Longest submission kept in the head. The rest of an ended job's head measures about 450 bytes
(tests/unit/test_cost.py), 130 more with cgroup accounting and 50 more for a person who
submitted it, which leaves room for longer reasons."""

MAX_REASON = 160
"""Characters of a reason: a sentence. More would push the head over its kilobyte."""

DATA_DAYS = 400
"""Days that the DATA item of a large submission lives, from its submission or its `run_at` on.

Rewriting it at the end only to give it a TTL would cost its whole size in write units; 400 is
well over 14 days in a lane plus the longest default retention (90)."""


SAME_ATTEMPT = -1
"""The attempt of a step that neither starts nor ends one: as many as the step before counted.

Whoever writes such a step need not have read the job; reading the timeline fills it in.
"""


_ROUND = (State.ACTIVE, State.BLOCKED, State.PENDING, State.ACTIVE)


@dataclass(frozen=True, slots=True)
class Step:
    """One transition of a job."""

    state: State
    at_ms: int
    attempt: int
    reason: str
    agent: str | None = None
    records: int | None = None
    """Log records that the attempt which ended here has written; a reader stops there."""
    times: int = 1
    """How many blocks in a row it stands for, each with a claim before it (`with_step`)."""
    first_ms: int | None = None
    """When the first of several was; the rest of the step is of the last one."""

    def encode(self) -> str:
        """One compact string, as it stands in the timeline attribute."""
        row = [self.state, self.at_ms, self.attempt, short_reason(self.reason)]
        if self.times > 1:
            row += [self.agent, self.records, self.times, self.first_ms]
        elif self.records is not None:
            row += [self.agent, self.records]
        elif self.agent is not None:
            row.append(self.agent)
        return json.dumps(row, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def decode(cls, text: str) -> "Step":
        """Inverse of `encode`."""
        state, at_ms, attempt, reason, *rest = json.loads(text)
        return cls(State(state), at_ms, attempt, reason, *rest)

    @property
    def began_ms(self) -> int:
        """When it was, or the first of those that it stands for."""
        return self.at_ms if self.first_ms is None else self.first_ms

    @property
    def told(self) -> str:
        """Its reason as a reader is told it."""
        if self.first_ms is None:
            return self.reason
        return f"{self.reason} (the last of {self.times} times since {rfc3339(self.first_ms)})"


@dataclass(frozen=True, slots=True)
class Aside:
    """A submission that is too large for the table, as it lies in S3."""

    object: str
    """The object's key in the deployment's bucket."""
    size: int
    """Bytes."""
    sha256: str
    """Hexadecimal."""


@dataclass(frozen=True, slots=True)
class Head:
    """A job as the table holds it."""

    job_id: str
    tenant: str
    state: State
    epoch: int
    """Counts claims; every write of an agent is conditional on the epoch of its claim."""
    attempt: int
    spec: Submission
    """As submitted, with the queue filled in; abridged while `aside` is set."""
    timeline: tuple[Step, ...]
    agent: str | None = None
    """Who holds, or last held, the lease."""
    outcome: Outcome | None = None
    """How the last attempt ended."""
    exit_code: int | None = None
    signal: int | None = None
    usage_json: str | None = None
    next_at_ms: int | None = None
    """When a job that is scheduled or waits for its next attempt may start."""
    expires_at: int | None = None
    """Unix seconds; set when the job ended."""
    wake_at_ms: int | None = None
    """When the requeue function looks at the job next (index `wake`)."""
    condition: str | None = None
    """What a blocked job waits for."""
    cancel_requested: str | None = None
    """Why the attempt that runs was asked to end; None when nobody did."""
    submitted_by: Who | None = None
    """None for a job that was submitted before this was kept."""
    aside: Aside | None = None
    """Where the whole submission is, if it is not here."""
    hidden: bool = False
    """Whether lists leave it out."""
    once: str | None = None
    """Names the row of the Idempotency-Key that it was submitted with."""
    resubmit_of: str | None = None
    """Id of the job that this one does again."""
    resubmitted_as: str | None = None
    """Id of the job that does this one again, the latest."""

    @property
    def queue(self) -> str:
        """The queue it was routed to."""
        if self.spec.queue is None:
            raise ValueError(f"job {self.job_id} was stored without its queue")
        return self.spec.queue

    @property
    def ended(self) -> bool:
        """Whether nothing more happens to it by itself."""
        return self.state in ENDED

    @property
    def deadline_ms(self) -> int | None:
        """Until when it must have started, or ended if it runs."""
        return None if self.spec.deadline is None else unix_ms(self.spec.deadline)

    def current_attempt(self) -> Attempt:
        """What a settlement needs to know of the attempt that runs."""
        retry = self.spec.retry
        return Attempt(
            number=self.attempt,
            policy=RetryPolicy(retry.max_attempts, retry.backoff_s),
            restartable=self.spec.restartable,
        )


def version(head: Head) -> str:
    """A text that is another one after every change of a job: the content of its ETag."""
    steps = [step.encode() for step in head.timeline]
    rest = (head.state, head.epoch, head.next_at_ms, head.condition, head.cancel_requested)
    seen = repr((*rest, head.hidden, head.resubmitted_as, head.wake_at_ms, steps))
    return hashlib.sha256(seen.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def short_reason(reason: str) -> str:
    """Cut a reason that is too long at a word, and show that it was cut."""
    if len(reason) <= MAX_REASON:
        return reason
    return reason[: MAX_REASON - 1].rsplit(" ", 1)[0] + "\u2026"


def submitted(
    job_id: str, tenant: str, spec: Submission, now_ms: int, who: Who | None = None
) -> Head:
    """Make the head of a job that has just been accepted.

    It waits for its time or in its lane; one whose deadline is not in the future has ended.
    """
    run_at_ms = None if spec.run_at is None else unix_ms(spec.run_at)
    deadline_ms = None if spec.deadline is None else unix_ms(spec.deadline)
    next_at_ms: int | None = None
    wake_at_ms = deadline_ms
    if deadline_ms is not None and deadline_ms <= now_ms:
        state, wake_at_ms = State.EXPIRED, None
        reason = f"its deadline {spec.deadline} was not in the future"
    elif run_at_ms is not None and run_at_ms > now_ms:
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
    )


def waits_in_lane(spec: Submission) -> str:
    """Say what a pending job waits for."""
    return f"waits in lane {spec.priority} of queue {spec.queue} for an agent with a free slot"


def with_step(head: Head, step: Step) -> Head:
    """Apply one transition to a head in memory, as the store does in the table.

    A job may block, be let go and block again for days, as often as it likes. A block that
    follows such a round takes the place of its lines, so that the head does not grow:

        active, blocked, pending, active + blocked  ->  active, blocked (the last of 2 times)
    """
    before = head.timeline
    if step.state is State.BLOCKED and tuple(s.state for s in before[-4:]) == _ROUND:
        earlier = before[-3]
        silent = earlier.records == step.records == 0
        before = before[:-3]
        step = replace(
            step,
            records=0 if silent else None,
            times=earlier.times + 1,
            first_ms=earlier.began_ms,
        )
    return replace(head, state=step.state, attempt=step.attempt, timeline=(*before, step))


def abridged(spec: Submission) -> Submission:
    """The submission with what can be large cut to `LISTED_CHARS`; all else as it is.

    The result is a valid submission, so that whoever needs no more than a job's queue, times
    and limits need not know whether it has the whole.
    """
    texts = [*spec.command, *spec.env, *spec.env.values()]
    if sum(map(len, texts)) <= LISTED_CHARS:
        return spec
    words, left = [], LISTED_CHARS
    for word in spec.command:
        if len(word) > left:
            words.append(word[:left] + "\u2026")
            break
        words.append(word)
        left -= len(word)
    # The command of a type follows from its params, and those from the type: always short.
    command = tuple(words) if spec.type is None else spec.command
    return spec.model_copy(update={"command": command, "env": {}})


def job_view(head: Head, *, whole: bool = False) -> Job:
    """Show a head as the API answers it; `whole` for the one job that somebody reads."""
    spec = head.spec if whole else abridged(head.spec)
    starts = [step for step in head.timeline if step.state is State.ACTIVE]
    return Job(
        id=head.job_id,
        tenant=head.tenant,
        state=head.state,
        reason=head.timeline[-1].told,
        attempt=head.attempt,
        epoch=head.epoch,
        outcome=head.outcome,
        exit_code=head.exit_code,
        signal=head.signal,
        usage=json.loads(head.usage_json) if head.usage_json else None,
        agent=head.agent,
        queue=head.queue,
        priority=spec.priority,
        type=spec.type,
        params=spec.params,
        command=spec.command,
        resources=spec.resources,
        network=spec.network,
        env=spec.env,
        secret_env=spec.secret_env,
        timeout_s=spec.timeout_s,
        restartable=spec.restartable,
        retry=spec.retry,
        labels=spec.labels,
        items=spec.items,
        run_at=spec.run_at,
        deadline=spec.deadline,
        requires=spec.requires,
        condition=None if head.condition is None else unscoped(head.condition),
        cancel_requested=head.cancel_requested,
        submitted_by=who_view(head.submitted_by),
        hidden=head.hidden,
        resubmit_of=head.resubmit_of,
        resubmitted_as=head.resubmitted_as,
        created_at=rfc3339(head.timeline[0].at_ms),
        started_at=rfc3339(starts[0].at_ms) if starts else None,
        ended_at=rfc3339(head.timeline[-1].at_ms) if head.ended else None,
        next_at=rfc3339(head.next_at_ms) if head.next_at_ms is not None else None,
        timeline=tuple(
            Transition(
                state=step.state,
                at=rfc3339(step.at_ms),
                attempt=step.attempt,
                reason=step.told,
                agent=step.agent,
            )
            for step in head.timeline
        ),
        abridged=head.aside is not None or spec is not head.spec,
    )
