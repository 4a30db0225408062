"""Submit a job or a group; `joblane.service.job.submit_batch` submits many jobs in one request.

`joblane.service.job.resubmit` submits ended ones again.

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
and its row in the index `wake` brings it to its lane in time. A submission too large for the table
is in S3 before its message is sent (`joblane.aws.job.payload_store`).

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

import secrets
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from joblane.aws.job.idempotency import IdempotencyStore
from joblane.aws.job.jobs import JobStore, Refused
from joblane.aws.job.payload_store import PayloadStore
from joblane.aws.queue.lanes import Lanes
from joblane.contract.principal import Principal
from joblane.contract.problems import Conflict, KeyReused, Problem, wrong
from joblane.formats.ids import block_of_ids
from joblane.formats.times import rfc3339
from joblane.job.head import Head
from joblane.job.idempotency import Claim, IdempotencyKey
from joblane.job.spec import Submission
from joblane.queue.gone import refusal_of_new
from joblane.service.decide_again import decide_again
from joblane.service.deployment.limit_check import LimitCheck
from joblane.service.fleet.serving_check import ServingCheck
from joblane.service.job.admit import Admission
from joblane.service.job.wake_up import message_delay_s, send_wake_up
from joblane.service.key.admission import KeyAdmission, SubmissionOutcome, is_admitted_now
from joblane.state.lifecycle import State
from joblane.state.trace import TraceContext
from joblane.target.match import TooManyMembers, is_name

if TYPE_CHECKING:
    from joblane.service.target.targets import Targets

E = TypeVar("E")


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
        claim = self.claim(key, head.job_id)
        if key is not None and claim.repeated:
            known = self.read_known(key, claim, [claim.first_id])
            if (found := known.get(claim.first_id)) is not None:
                if isinstance(found, Problem):
                    raise found
                return self.with_warning(self._continue(found)), True
        head = self.check_new(head, now_ms)
        head = replace(head, job_id=claim.first_id, idempotency_row=key.row if key else None)
        return self.with_warning(self.accept(head, key, now_ms)), claim.repeated

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
            return self.admit(head, key, now_ms, original)
        (head,) = self.assign([head], now_ms)
        head = self.payloads.keep(head)
        if (delay_s := message_delay_s(head, now_ms)) is not None and not send_wake_up(
            self.lanes, head, delay_s
        ):
            raise wrong("queue", refusal_of_new(head.queue))
        return SubmissionOutcome(self._put(head, original))

    def with_warning(self, outcome: SubmissionOutcome) -> SubmissionOutcome:
        """Add the warning of a job that no live agent can serve now."""
        warning = self.serving.warning(outcome.head)
        return outcome if warning is None else replace(outcome, warning=warning)

    def claim(self, key: IdempotencyKey | None, first_id: str) -> Claim:
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

    def read_known(
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
        check_deadline(head, now_ms)
        (named,) = self.name_hosts([head])
        if isinstance(named, Problem):
            raise named
        return named

    def name_hosts(self, entries: Sequence[E]) -> list[E | Head | Problem]:
        """Write out the targets of the jobs among these that are a name alone."""
        bare = [each for each in entries if isinstance(each, Head) and is_name(each.spec.target)]
        named = self.targets().name_hosts(bare) if bare else {}
        found: list[E | Head | Problem] = []
        for each in entries:
            name = named.get(each.job_id, each) if isinstance(each, Head) else each
            found.append(wrong("target", name) if isinstance(name, str) else name)
        return found

    def assign(self, heads: list[Head], now_ms: int) -> list[Head]:
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

    def admit(
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

    def new_ids(self, now_ms: int) -> str:
        """Make the first of a block of consecutive ids, one for each job of a batch.

        It holds the time of the submission, equal to the job's `created_at`: the audit trail
        reads it from the id.
        """
        return block_of_ids(now_ms, self.random_bits(80))


def check_deadline(head: Head, now_ms: int) -> None:
    """Raise Invalid for a job that would expire at once."""
    if head.deadline_ms is not None and head.deadline_ms <= now_ms:
        raise wrong("deadline", f"must be in the future; it is {rfc3339(now_ms)} now")


def _jobs_of(head: Head) -> int:
    """How many jobs a submission makes, as far as that is known before its agents are chosen."""
    return 1 if head.spec.array is None else head.spec.array.jobs


def _is_group_now(head: Head) -> bool:
    """Whether a new job becomes a group at once, and not when it is due."""
    return head.state is State.PENDING and head.spec.makes_group
