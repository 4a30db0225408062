"""Submit jobs: one, or many; `joblane.service.job.resubmit` submits ended ones again.

The wake-up message is sent first and the job stored second, so a job in the table always has a
message, and no sweeper has to look for jobs without one:

    submit                        lane               table                agent
    send  --------------------->  message
                                          --------------------------->   receives
    put   ------------------------------------->     pending
                                                     active  <---------  claims

An agent that receives the message before the put finds no job and tries again shortly; a message
without a job is discarded after a minute.

A job whose `run_at` is within SQS's 15 minutes gets a delayed message; a later one gets none,
and its row in the index `wake` brings it to its lane in time. docs/decisions/0201 says why a
batch is stored job by job. A submission too large for the table is in S3 before its message is
sent (`joblane.aws.job.payload_store`).

A job with a key is admitted by its key (`joblane.service.key.admission`), a scheduled one when it
is due. One that waits for a slot has no message.

The agents of a job with a target are chosen now (`joblane.service.target.targets`), those of a
scheduled one when it is due. A broadcast becomes a group; its members' rows are put before their
messages.

A function that was started before a deployment knows a queue that the deployment removes. A job for
it is refused as soon as SQS says so, before it is put:

    submission                    lanes               table                deployment
    reads: queue old                                               <-----  deletes its lanes
    send  --------------------->  there is no such queue
    refuses the job: 400

A request that carries an Idempotency-Key is done once (`joblane.aws.job.idempotency`).
"""

import json
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from joblane.aws.job.idempotency import IdempotencyStore
from joblane.aws.job.jobs import JobStore, Refused
from joblane.aws.job.payload_store import PayloadStore
from joblane.aws.queue.lanes import Lanes
from joblane.contract.principal import Principal
from joblane.contract.problems import Conflict, KeyReused, Problem, TryAgain, parse_model, wrong
from joblane.errors import Unavailable
from joblane.formats.ids import block_of_ids, nth_id
from joblane.formats.times import rfc3339
from joblane.job.head import Head
from joblane.job.idempotency import Claim, IdempotencyKey
from joblane.job.spec import Batch, Submission
from joblane.queue.gone import refusal_of_new
from joblane.service.decide_again import decide_again
from joblane.service.deployment.limit_check import LimitCheck
from joblane.service.fleet.serving_check import ServingCheck
from joblane.service.job.admit import Admission
from joblane.service.job.wake_up import message_delay_s, send_wake_up, send_wake_ups
from joblane.service.key.admission import KeyAdmission, SubmissionOutcome, is_admitted_now
from joblane.state.lifecycle import State
from joblane.state.trace import TraceContext
from joblane.target.match import TooManyMembers, is_name

if TYPE_CHECKING:
    from joblane.service.target.targets import Targets

PUTS_AT_ONCE = 8
"""Threads that store a batch: each waits some milliseconds for DynamoDB, a hundred times."""

E = TypeVar("E")

_UNKNOWN = "may have been accepted; list your jobs before you submit it again"


@dataclass(frozen=True)
class Submitter:
    """Accepts submissions."""

    jobs: JobStore
    payloads: PayloadStore
    lanes: Lanes
    keys: IdempotencyStore
    _: KW_ONLY
    admission: Admission
    keyed: KeyAdmission
    limits: LimitCheck
    serving: ServingCheck
    targets: "Callable[[], Targets]"
    """Returns what chooses agents, which most requests do not need."""
    now_ms: Callable[[], int]
    """Returns Unix milliseconds."""
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""
    random_bits: Callable[[int], int] = secrets.randbits
    """Makes ids unique."""

    def submit(
        self,
        by: Principal,
        spec: Submission,
        key: IdempotencyKey | None,
        trace: TraceContext | None = None,
        repeats: Head | None = None,
    ) -> tuple[SubmissionOutcome, bool]:
        """Accept one job; returns it, and whether it had been accepted before.

        `trace` is the trace context of the request, for a submission without one of its own;
        `repeats` the job whose submission it is.

        A request that has made a group and was interrupted goes on with it when it is repeated.

        Raises LimitReached over a limit of the tenant, before anything that the submission may make
        slow; Invalid, also for a queue that is gone; KeyReused and Conflict for `key`, Conflict if
        the job's key is full; TryAgain if it changes on every try.
        """
        now_ms = self.now_ms()
        if (closed := self.limits.explain_closed(by.tenant)) is not None and not (
            key is not None and self.keys.is_known(key, now_ms // 1000)
        ):
            raise closed
        self.serving.look()
        first_id = self.new_ids(now_ms)
        head = self.make_head(by, spec, first_id, now_ms, trace, repeats=repeats)
        claim = self._claim(key, head.job_id)
        if key is not None and claim.repeated:
            known = self._read_known(key, claim, [claim.first_id])
            if (found := known.get(claim.first_id)) is not None:
                if isinstance(found, Problem):
                    raise found
                return self._warn(self._continue(found)), True
        head = self.check_new(head, now_ms)
        head = replace(head, job_id=claim.first_id, idempotency_row=key.row if key else None)
        return self._warn(self.accept(head, key, now_ms)), claim.repeated

    def accept(
        self, head: Head, key: IdempotencyKey | None, now_ms: int, original: Head | None = None
    ) -> SubmissionOutcome:
        """Accept a new job: its message, then its row; or its group, or what its key decides.

        `original` is the job that it resubmits as it was read, of a bulk operation. Raises what
        `submit` raises, and Refused if that is deleted or not as it was read.
        """
        if _is_group_now(head):
            make = self._broadcast if head.spec.array is None else self._array
            return SubmissionOutcome(make(head, now_ms, original))
        # A scheduled array is refused now, and not when it is due.
        self._require_room(head, _jobs_of(head))
        if is_admitted_now(head):
            return self._admit(head, key, now_ms, original)
        (head,) = self._assign([head], now_ms)
        head = self.payloads.keep(head)
        if (delay_s := message_delay_s(head, now_ms)) is not None and not send_wake_up(
            self.lanes, head, delay_s
        ):
            raise wrong("queue", refusal_of_new(head.queue))
        return SubmissionOutcome(self._put(head, original))

    def submit_batch(
        self,
        by: Principal,
        batch: Batch,
        key: IdempotencyKey | None,
        trace: TraceContext | None = None,
    ) -> tuple[list[SubmissionOutcome | Problem], bool]:
        """Accept many jobs independently: answers and problems in the order of the batch.

        Also returns whether the batch had been accepted before. `trace` as in `submit`.

        All messages are sent before the first job is put, so an answer that is an error as a
        whole (503) leaves messages without jobs, which agents discard, and no job. Jobs with a key
        follow: those of one key one after the other, in the order of the batch.

        Raises KeyReused for `key`, and LimitReached if a limit of the tenant leaves no room for
        any job; if it leaves room for some, these are the first ones.
        """
        now_ms = self.now_ms()
        claim = self._claim(key, self.new_ids(now_ms))
        ids = [nth_id(claim.first_id, number) for number in range(len(batch.jobs))]
        known = self._read_known(key, claim, ids) if key and claim.repeated else {}
        if (closed := self.limits.explain_closed(by.tenant)) is not None and not known:
            raise closed
        self.serving.look()
        admitted = [
            known.get(job_id) or closed or self._parse(by, job, job_id, now_ms, trace)
            for job_id, job in zip(ids, batch.jobs, strict=True)
        ]
        admitted = [
            self._keep(entry, key) if isinstance(entry, Head) else entry
            for entry in self._within_limits(by.tenant, self._name_hosts(admitted))
        ]
        new = self._assign([entry for entry in admitted if isinstance(entry, Head)], now_ms)
        plain = [head for head in new if not is_admitted_now(head)]
        delays = [(head, message_delay_s(head, now_ms)) for head in plain]
        lost = send_wake_ups(
            self.lanes, [(head, delay_s) for head, delay_s in delays if delay_s is not None]
        )
        stored = self._put_all([head for head in plain if head.job_id not in lost.all])
        stored |= {
            head.job_id: wrong("queue", refusal_of_new(head.queue))
            for head in plain
            if head.job_id in lost.gone
        }
        stored |= self._admit_all([head for head in new if is_admitted_now(head)], key, now_ms)
        lacking = _unavailable("was not accepted; submit it again")
        answers = [
            stored.get(entry.job_id, lacking) if isinstance(entry, Head) else entry
            for entry in admitted
        ]
        return [
            self._warn(answer) if isinstance(answer, SubmissionOutcome) else answer
            for answer in answers
        ], claim.repeated

    def _warn(self, outcome: SubmissionOutcome) -> SubmissionOutcome:
        """Add the warning of a job that no live agent can serve now."""
        warning = self.serving.warning(outcome.head)
        return outcome if warning is None else replace(outcome, warning=warning)

    def _claim(self, key: IdempotencyKey | None, first_id: str) -> Claim:
        """Give a request its ids. Raises KeyReused if its key was used with another one."""
        if key is None:
            return Claim(first_id, same=True, repeated=False)
        claim = self.keys.claim(key, first_id, self.now_ms() // 1000)
        if not claim.same:
            raise KeyReused(
                "this Idempotency-Key was used with another request within a day; "
                "use a new key for a new request",
            )
        return claim

    def _read_known(
        self, key: IdempotencyKey, claim: Claim, ids: Sequence[str]
    ) -> dict[str, SubmissionOutcome | Problem]:
        """Read the jobs of a request that was sent before; those not yet created are absent.

        An entry that was coalesced is answered by the same job as then.
        """
        there = [claim.coalesced.get(job_id, job_id) for job_id in ids]
        heads = {head.job_id: head for head in self.jobs.heads(ids, consistent=True)}
        others = {head.job_id: head for head in self.jobs.heads(there)} if claim.coalesced else {}
        deleted = claim.deleted
        if len(heads) < len(ids):  # deleted since the claim was read, or never created
            deleted = self.keys.read_deleted(key)
        gone = Conflict("the job that this key made has been deleted")
        lost = Conflict("the job that stood for this one has been deleted")
        coalesced = {
            job_id: SubmissionOutcome(others[other], "coalesced") if other in others else lost
            for job_id, other in claim.coalesced.items()
        }
        made = {job_id: SubmissionOutcome(head) for job_id, head in heads.items()}
        return {**dict.fromkeys(deleted, gone), **coalesced, **made}

    def make_head(
        self,
        by: Principal,
        spec: Submission,
        job_id: str,
        now_ms: int,
        trace: TraceContext | None,
        *,
        repeats: Head | None = None,
    ) -> Head:
        """Make the job of a submission. Raises Invalid, and LimitReached as `TypedAdmission`."""
        head = self.admission.head(by, spec, job_id, now_ms, trace, repeats=repeats)
        return self.keyed.name_key(head)

    def check_new(self, head: Head, now_ms: int) -> Head:
        """Check what depends on the present, not before a repeated request is answered.

        Raises Invalid for a job that would expire at once, and for a target that is a name alone
        and no agent's; the target of the job that is returned is written out.
        """
        _check_deadline(head, now_ms)
        (named,) = self._name_hosts([head])
        if isinstance(named, Problem):
            raise named
        return named

    def _name_hosts(self, entries: Sequence[E]) -> list[E | Head | Problem]:
        """Write out the targets of the jobs among these that are a name alone."""
        bare = [each for each in entries if isinstance(each, Head) and is_name(each.spec.target)]
        named = self.targets().name_hosts(bare) if bare else {}
        found: list[E | Head | Problem] = []
        for each in entries:
            name = named.get(each.job_id, each) if isinstance(each, Head) else each
            found.append(wrong("target", name) if isinstance(name, str) else name)
        return found

    def _assign(self, heads: list[Head], now_ms: int) -> list[Head]:
        """Assign the jobs among these that name their agent."""
        if all(head.spec.target is None for head in heads):
            return heads
        return self.targets().assign(heads, now_ms)

    def _put(self, head: Head, original: Head | None) -> Head:
        """Store one new job."""
        if head.resubmit_of is None:
            return self.jobs.put_new(head)
        return decide_again(lambda: self.jobs.put_resubmitted(head, original), passes=Refused)

    def _require_room(self, head: Head, jobs: int) -> None:
        """Raise LimitReached without room for so many jobs, and Invalid if there never is any."""
        if jobs > 1 and jobs > (most := self.limits.limits.of(head.tenant).jobs_waiting):
            field = "target" if head.spec.array is None else "array"
            raise wrong(
                field, f"makes {jobs} jobs; the limit jobs_waiting of the tenant allows {most}"
            )
        self.limits.require(head.tenant, jobs)

    def _broadcast(self, head: Head, now_ms: int, original: Head | None) -> Head:
        """Make the group of a broadcast: its roster, then its job, then its members."""
        targets = self.targets()
        try:
            choice = targets.choose(head, now_ms)
        except TooManyMembers as problem:
            raise wrong("target", str(problem)) from None
        self._require_room(head, max(1, len(choice.agents)))
        head = self.payloads.keep(head)
        if not choice.agents:
            empty = targets.make_empty_group(head, now_ms)
            return self._put(targets.skip(empty, choice.reason, now_ms), original)
        return self._begin(targets.group(head, choice.agents, now_ms), now_ms, original)

    def _array(self, head: Head, now_ms: int, original: Head | None) -> Head:
        """Make the group of an array: its values, then its job, then its members."""
        self._require_room(head, _jobs_of(head))
        head = self.payloads.keep(head)
        return self._begin(self.targets().array(head, now_ms), now_ms, original)

    def _begin(self, head: Head, now_ms: int, original: Head | None) -> Head:
        """Put a new group, and place its members."""
        targets = self.targets()
        head = targets.processing(head, now_ms)
        stored = self._put(head, original)
        # Of concurrent requests with the same Idempotency-Key the first puts its group, and all go
        # on with that one.
        return targets.expand(stored, fresh=stored is head)

    def _continue(self, found: SubmissionOutcome) -> SubmissionOutcome:
        """Place the members that an interrupted request has not placed."""
        if found.head.state is not State.PROCESSING:
            return found
        return replace(found, head=self.targets().expand(found.head, fresh=False))

    def _parse(
        self, by: Principal, job: object, job_id: str, now_ms: int, trace: TraceContext | None
    ) -> Head | Problem:
        try:
            spec = parse_model(Submission, json.dumps(job))
            if spec.array is not None:
                raise wrong("array", "not allowed in a batch; submit a group by itself")
            if spec.makes_group:
                raise wrong("target", "must name one agent in a batch; submit a group by itself")
            head = self.make_head(by, spec, job_id, now_ms, trace)
            _check_deadline(head, now_ms)
        except Problem as problem:
            return problem
        return head

    def _within_limits(
        self, tenant: str, entries: Sequence[Head | SubmissionOutcome | Problem]
    ) -> list[Head | SubmissionOutcome | Problem]:
        """Put a problem in place of jobs that the tenant's limits leave no room for, the last ones.

        Raises that problem if nothing else is left of the batch.
        """
        new = [entry.job_id for entry in entries if isinstance(entry, Head)]
        accepted, problem = self.limits.admit(tenant, len(new))
        if problem is None:
            return list(entries)
        if not accepted and len(new) == len(entries):
            raise problem
        refused = set(new[accepted:])
        return [problem if isinstance(e, Head) and e.job_id in refused else e for e in entries]

    def _keep(self, head: Head, key: IdempotencyKey | None) -> Head | Problem:
        head = replace(head, idempotency_row=key.row if key else None)
        try:
            return head if is_admitted_now(head) else self.payloads.keep(head)
        except Problem as problem:
            return problem
        except Unavailable:
            return _unavailable("was not accepted; submit it again")

    def _put_all(self, heads: Sequence[Head]) -> dict[str, SubmissionOutcome | Problem]:
        def put(head: Head) -> SubmissionOutcome | Problem:
            try:
                return SubmissionOutcome(self.jobs.put_new(head))
            except Unavailable:
                return _unavailable(_UNKNOWN)

        with self.pool(PUTS_AT_ONCE) as pool:
            return {
                head.job_id: stored
                for head, stored in zip(heads, pool.map(put, heads), strict=True)
            }

    def _admit(
        self,
        head: Head,
        key: IdempotencyKey | None,
        now_ms: int,
        original: Head | None = None,
    ) -> SubmissionOutcome:
        """Admit a job with a key. What stands for it is remembered for a repeated request."""
        result = self.keyed.submit(head, now_ms, self.payloads.keep, original)
        if key is not None and result.admission == "coalesced":
            self.keys.note_coalesced(key, head.job_id, result.head.job_id, now_ms // 1000)
        return result

    def _admit_all(
        self, heads: Sequence[Head], key: IdempotencyKey | None, now_ms: int
    ) -> dict[str, SubmissionOutcome | Problem]:
        """Admit jobs with keys: those of one key in their order, and keys side by side."""

        def admit(head: Head) -> SubmissionOutcome | Problem:
            try:
                return self._admit(head, key, now_ms)
            except Problem as problem:
                return problem
            except Unavailable:
                return _unavailable(_UNKNOWN)

        by_key: dict[object, list[Head]] = {}
        for head in heads:
            by_key.setdefault(head.key, []).append(head)
        with self.pool(PUTS_AT_ONCE) as pool:
            done = pool.map(lambda group: [(h.job_id, admit(h)) for h in group], by_key.values())
            return {job_id: answer for group in done for job_id, answer in group}

    def new_ids(self, now_ms: int) -> str:
        """Make the first of a block of consecutive ids, one for each job of a batch.

        It holds the time of the submission, equal to the job's `created_at`: the audit trail
        reads it from the id.
        """
        return block_of_ids(now_ms, self.random_bits(80))


def _check_deadline(head: Head, now_ms: int) -> None:
    if head.deadline_ms is not None and head.deadline_ms <= now_ms:
        raise wrong("deadline", f"must be in the future; it is {rfc3339(now_ms)} now")


def _jobs_of(head: Head) -> int:
    """How many jobs a submission makes, as far as that is known before its agents are chosen."""
    return 1 if head.spec.array is None else head.spec.array.jobs


def _is_group_now(head: Head) -> bool:
    """Whether a new job becomes a group at once, and not when it is due."""
    return head.state is State.PENDING and head.spec.makes_group


def _unavailable(detail: str) -> Problem:
    return TryAgain(f"the job {detail}")
