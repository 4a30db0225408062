"""Admit jobs that have a key: read the key, decide, send the message, write job and key together.

`joblane.key.decide` decides; `joblane.aws.key.keyed_jobs` writes, and has the time-lines of the
races. A write that is refused because the key has changed meanwhile is decided again, up to `TRIES`
times.

A job of the key that keeps the new one out although it is over leaves the key in the same write,
as if sequel had come first, and those that get its slot go.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple, TypeVar

from joblane.aws.job.jobs import Refused
from joblane.aws.key.keyed_jobs import KeyedJobs, KeyWrite, Skip
from joblane.aws.key.keys import StoredKey
from joblane.contract.problems import TryAgain, wrong
from joblane.errors import Changed, Unavailable
from joblane.job.head import Head, waits_in_lane
from joblane.job.moves import NotAllowed, apply, plan, plan_restart
from joblane.key import decide
from joblane.key.decide import Coalesced, End, Granted, Looked, Queued, Rejected, Replaced
from joblane.key.policy import KeyLimits
from joblane.key.request import KeyRequest
from joblane.key.segments import KeyName
from joblane.key.state import Grant, KeyState
from joblane.queue.gone import refusal_of_new
from joblane.service.decide_again import decide_again
from joblane.service.key.reasons import (
    full,
    refusal,
    replaced_by,
    skipped_when_due,
    waits_for_slot,
)
from joblane.service.key.refusals import KeyRefusals
from joblane.service.key.release import KeyRelease
from joblane.service.key.rules import KeyRules
from joblane.state.lifecycle import Event, State
from joblane.state.retention import Retention
from joblane.state.timeline import SAME_ATTEMPT, Step

TRIES = 16
"""Decisions before a caller is asked to come back: with the pauses between them 3.3 s on average.
docs/decisions/1301 has what 8 led to."""

_QUEUED = {Event.RETRY: Event.RETRY_QUEUED, Event.REPLAY: Event.REPLAY_QUEUED}

Accepted = Granted | Queued | Replaced

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SubmissionOutcome:
    """What became of a submission."""

    head: Head
    """The new job; of a coalesced submission, the job that stands for it."""
    admission: Literal["accepted", "coalesced", "replaced"] = "accepted"
    replaced: str | None = None
    """The job that it replaced."""
    warning: str | None = None
    """Why no live agent can serve it now; None if one can, or it is not known."""


class Renewed(NamedTuple):
    """A job that is started again with the present version of its type."""

    head: Head
    """The job as it is to be, but for its state."""
    key: KeyRequest | None
    """What it asks of its key; None without one."""


class _Left(NamedTuple):
    """What follows in the key that a job leaves."""

    writes: tuple[KeyWrite, ...] = ()
    """That key without the job; none if it does not list it."""
    granted: tuple[Grant, ...] = ()
    """Jobs that get its slot."""


@dataclass(frozen=True)
class KeyAdmission:
    """Admits jobs that have a key."""

    jobs: KeyedJobs
    rules: KeyRules
    releases: KeyRelease
    send: Callable[[Head], bool]
    """Sends a job's message; False if its queue is gone."""
    retention: Retention
    refusals: KeyRefusals

    def name_key(self, head: Head) -> Head:
        """The head of a new job with the name of its key, if it has one.

        A job whose deadline has passed has none: it is not admitted. Raises Invalid as
        `KeyRules.of_new`.
        """
        request = self.rules.of_new(head)
        return head if request is None or head.ended else replace(head, key=request.name)

    def submit(
        self, head: Head, now_ms: int, keep: Callable[[Head], Head], original: Head | None = None
    ) -> SubmissionOutcome:
        """Accept a new job, or answer what stands in its way.

        `keep` stores a large submission; it is called once, and only if the key has room. If that
        is taken before the job is written, what was stored stays until it expires: a concurrent
        request with the same Idempotency-Key may need it. `original` is the job that it resubmits,
        of a bulk operation.

        Raises Conflict if the key is full, TryAgain if it changes on every try, Invalid if the
        queue is gone, and Refused if the job that it resubmits is deleted, or not as it was read.
        """
        request = self.rules.of_stored(head)
        kept: Head | None = None
        sent = False
        doubted: set[str] = set()

        def once() -> SubmissionOutcome:
            nonlocal kept, sent
            seen = self._read(head, request, now_ms)
            if head.job_id in (*seen.state.active, *seen.state.queued):
                there = self.jobs.get(head.job_id)
                if there is not None:  # written by a concurrent request with the same key
                    return SubmissionOutcome(there)
            looked = self._look(seen, request.limits, doubted)
            decision = decide.admit(looked.state, head.job_id, request.limits, looked.started)
            if isinstance(decision, Rejected):
                self.refusals.note(head, request, "rejected")
                raise refusal(request, decision)
            if isinstance(decision, Coalesced):
                there = self._standing(request.name, decision, doubted)
                self.refusals.note(head, request, "coalesced")
                return SubmissionOutcome(there, "coalesced")
            kept = kept or keep(head)
            new = _place(kept, decision, request)
            if new.state is State.PENDING and not sent:
                if not self.send(new):
                    raise wrong("queue", refusal_of_new(new.queue))
                sent = True
            skip = self._skip(decision, head.job_id, request, now_ms)
            write = KeyWrite(seen, decision.state, now_ms)
            stored = self.jobs.put_keyed(new, write, skip, original)
            self._let_go(request.name, decision.state, looked.granted, now_ms)
            if skip is None:
                return SubmissionOutcome(stored)
            return SubmissionOutcome(stored, "replaced", skip.job_id)

        return _decided(request, once)

    def wake(self, head: Head, now_ms: int) -> Head:
        """Admit a scheduled job whose `run_at` has come: to pending, waiting or skipped.

        The message of a pending job is sent by the caller: the row is due in the index `wake`
        until then. Raises TryAgain if the key changes on every try, and NotAllowed and Refused as
        moves do.
        """
        known = self._of_stored(head)
        doubted: set[str] = set()

        def once() -> Head:
            seen = self._read(head, known, now_ms)
            request = self.rules.with_latest(known, seen)
            looked = self._look(seen, request.limits, doubted)
            decision = decide.admit(looked.state, head.job_id, request.limits, looked.started)
            if isinstance(decision, Coalesced):
                self._standing(request.name, decision, doubted)
            if isinstance(decision, Coalesced | Rejected):
                step = plan(head, Event.SKIP, now_ms, skipped_when_due(request, decision))
                expires_at = self.retention.expires_at(step.state, now_ms)
                return self.jobs.move(head, Event.SKIP, step, expires_at=expires_at)
            due = "its run_at has come; "
            if _slot(decision) is not None:
                why = f"{due}{waits_in_lane(head.spec)}"
                after = _move(head, Event.WAKE, why, decision, now_ms)
            else:
                why = f"{due}{waits_for_slot(request, decision.state, head.job_id)}"
                after = _move(head, Event.QUEUE, why, decision, now_ms)
            skip = self._skip(decision, head.job_id, request, now_ms)
            write = KeyWrite(seen, decision.state, now_ms)
            self.jobs.move_keyed(head, after, write, skip=skip)
            self._let_go(request.name, decision.state, looked.granted, now_ms)
            return after

        return _decided(known, once)

    def restart(
        self, head: Head, event: Event, why: str, now_ms: int, renewed: Renewed | None = None
    ) -> Head:
        """Admit an ended job again that is retried or replayed: to pending or waiting.

        `renewed` is the job as it is to be, if it takes the present version of its type. With that
        it may leave its key, get another one, or its first one: one transaction writes the job and
        both keys (`joblane.aws.key.keyed_jobs`).

            API                          keys, jobs                 requeue
            transaction  ------------>   slot 8; pending, due
            (killed here)
                                         pending, due      ------>  sends the message

        The message of a pending job is sent by the caller, as after `wake`. Raises NotAllowed if
        the key is full, TryAgain if it changes on every try, and NotAllowed and Refused as moves
        do.
        """
        to = head if renewed is None else renewed.head
        plan_restart(head, to, event, now_ms, why)
        known = self._of_stored(head) if renewed is None else renewed.key

        def once() -> Head:
            left = self._leave(head, to, now_ms)
            if known is None:
                after = _restarted(head, to, event, why, None, now_ms)
                self.jobs.move_keyed(head, after, *left.writes)
            else:
                seen = self._read(head, known, now_ms)
                # The limits of the present version are the latest ones.
                request = known if renewed else self.rules.with_latest(known, seen)
                looked = self._look_again(seen, head.job_id, request.limits)
                decision = decide.readmit(looked.state, head.job_id, request.limits, looked.started)
                if isinstance(decision, Rejected):
                    raise NotAllowed(full(request, decision.state))
                if isinstance(decision, Granted):
                    after = _restarted(head, to, event, why, decision, now_ms)
                else:
                    waits = waits_for_slot(request, decision.state, head.job_id)
                    told = f"{why}; {waits}"
                    after = _restarted(head, to, _QUEUED[event], told, decision, now_ms)
                    after = replace(after, queued_after=decision.state.grants)
                write = KeyWrite(seen, decision.state, now_ms)
                self.jobs.move_keyed(head, after, write, *left.writes)
                self._let_go(request.name, decision.state, looked.granted, now_ms)
            for before in left.writes:
                self._let_go(before.seen.name, before.state, left.granted, now_ms)
            return after

        return _decided(known or head.key, once)

    def _leave(self, head: Head, to: Head, now_ms: int) -> _Left:
        """Take a job out of the key that it leaves, if that lists it, and pass its slot on."""
        if head.key is None or head.key == to.key:
            return _Left()
        seen = self.jobs.keys.get(head.tenant, head.key, now_ms)
        listed = {**dict.fromkeys(seen.state.queued), **seen.state.active}
        if head.job_id not in listed:
            return _Left()
        released = decide.release(seen.state, [End(head.job_id, listed[head.job_id])])
        state = released.state or seen.state
        return _Left((KeyWrite(seen, state, now_ms),), released.granted)

    def _read(self, head: Head, request: KeyRequest, now_ms: int) -> StoredKey:
        """Read a key; its segments are those of the job, if they are known."""
        seen = self.jobs.keys.get(head.tenant, request.name, now_ms)
        known = request.segments or not seen.segments
        return replace(seen, segments=request.text if known else seen.segments)

    def _of_stored(self, head: Head) -> KeyRequest:
        """What a stored job asks of its key."""
        if head.key is None:
            raise ValueError(f"job {head.job_id} has no key")
        return self.rules.of_stored(head)

    def _standing(self, name: KeyName, decision: Coalesced, doubted: set[str]) -> Head:
        """The job that stands for a new one. Raises Changed if that is over, which is `doubted`."""
        there = self.jobs.get(decision.job_id)
        if there is None or there.ended or there.key != name:
            doubted.add(decision.job_id)
            raise Changed("the job that would stand for this one is over")
        return there

    def _look(self, seen: StoredKey, limits: KeyLimits, doubted: Collection[str] = ()) -> Looked:
        """Look at the jobs of a key. Raises Changed if they are not as the key says."""
        read = partial(self.jobs.read_seen, seen.name)
        looked = decide.look(seen.state, limits, read, doubted)
        if looked is None:
            raise Changed("the jobs of the key have changed since it was read")
        return looked

    def _look_again(self, seen: StoredKey, job_id: str, limits: KeyLimits) -> Looked:
        """The same for a job that is retried: one whose end was not handled has its slot."""
        if job_id in seen.state.active:
            return Looked(seen.state, {})
        return self._look(seen, limits.model_copy(update={"when_full": "reject"}))

    def _let_go(
        self, name: KeyName, state: KeyState, granted: Sequence[Grant], now_ms: int
    ) -> None:
        """Let jobs go that have got a slot with this write; one may have been replaced by it.

        If this fails, or is killed before, they go with the end that frees their slot, if that
        comes, or when the key is looked at (`joblane.service.key.watch`). The job that was written
        is accepted in any case.
        """
        for grant in granted:
            if grant.job_id not in state.active:
                continue
            try:
                self.releases.let_go(name, grant, now_ms)
            except Unavailable:
                self.releases.log.exception(
                    "a job that got a slot could not be let go; it is when its key is looked at",
                    job_id=grant.job_id,
                    key=name.encode(),
                )

    def _skip(
        self, decision: Accepted, job_id: str, request: KeyRequest, now_ms: int
    ) -> Skip | None:
        if not isinstance(decision, Replaced):
            return None
        step = Step(State.SKIPPED, now_ms, SAME_ATTEMPT, replaced_by(job_id, request))
        return Skip(decision.victim, step, self.retention.expires_at(State.SKIPPED, now_ms))


def is_admitted_now(head: Head) -> bool:
    """Whether a new job is admitted by a key at its submission, and not when it is due."""
    return head.key is not None and head.state is State.PENDING


def _decided(request: KeyRequest | KeyName | None, once: Callable[[], T]) -> T:
    """Decide until the key does not change before the write."""
    named = request.text if isinstance(request, KeyRequest) else "of the job"
    text = f"key {named} is being changed by many requests; try again in a moment"
    busy = TryAgain(text, retry_after_s=1)
    return decide_again(once, tries=TRIES, busy=busy, passes=Refused)


def _slot(decision: Accepted) -> int | None:
    return None if isinstance(decision, Queued) else decision.slot


def _place(head: Head, decision: Accepted, request: KeyRequest) -> Head:
    """A new job where the decision puts it: with a slot, or waiting for one."""
    if (slot := _slot(decision)) is not None:
        return replace(head, slot=slot)
    (step,) = head.timeline
    why = waits_for_slot(request, decision.state, head.job_id)
    waiting = replace(step, state=State.WAITING, reason=why)
    return replace(head, state=State.WAITING, timeline=(waiting,))


def _restarted(
    head: Head, to: Head, event: Event, why: str, decision: Granted | Queued | None, now_ms: int
) -> Head:
    """The job after a restart as `to`; without a decision it has no key."""
    after = apply(to, event, plan_restart(head, to, event, now_ms, why))
    slot = None if decision is None else _slot(decision)
    return replace(after, slot=slot, queued_after=None)


def _move(head: Head, event: Event, why: str, decision: Accepted, now_ms: int) -> Head:
    after = apply(head, event, plan(head, event, now_ms, why))
    return replace(after, slot=_slot(decision), queued_after=None)
