"""Submit ended jobs again under new ids: one, or those that filters select, a page at a time.

Changes are applied to the submission as it was made, and the result is a new submission in every
respect: fields, type, queue, limits and key are checked as they are today. So one that is no longer
acceptable is refused by the name of its field, and accepted with a change of that field.

A bulk operation submits a job again once. What has been resubmitted names the new job, by the write
that puts it (`JobStore.put_resubmitted`), and is left out. So a request that was interrupted may be
sent again:

    request                      table                      the same request
    job 1: put as job 7  ----->  job 7; job 1: as job 7
    (killed here)                job 1: as job 7    ----->  left out, and counted
                                 job 2              ----->  put as job 8
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, TypeVar

from joblane.aws.job.jobs import Refused
from joblane.aws.job.payload_store import PayloadLost
from joblane.contract.principal import Principal
from joblane.contract.problems import Problem, parse_model
from joblane.contract.queries import SelectJobs
from joblane.errors import Unavailable
from joblane.job.head import Head
from joblane.job.idempotency import IdempotencyKey
from joblane.job.moves import NotAllowed
from joblane.job.offers import check_resubmission
from joblane.job.spec import Submission
from joblane.service.job.bulk import AT_ONCE, BulkResult, not_now
from joblane.service.job.operations import Gone
from joblane.service.job.search import JobSearch
from joblane.service.job.submit import Submitter
from joblane.service.key.admission import SubmissionOutcome
from joblane.state.lifecycle import UNSUCCESSFUL
from joblane.typed.resubmission import as_changed, with_changes

MOST_MS = 5_000
"""Milliseconds after which a request begins no further job: those with many input files take long.
The function is stopped after 29 s."""

T = TypeVar("T")

Changes = Mapping[str, Any]
"""A JSON merge patch of a submission."""


@dataclass(frozen=True, slots=True)
class _Left:
    """A job that was not resubmitted."""

    why: str | None
    """Empty if it has changed since it was read; None if it was resubmitted meanwhile."""


@dataclass(frozen=True, slots=True)
class ResubmitResult(BulkResult):
    """Result of one page."""

    already: int = 0
    """Jobs that were left out because they had been resubmitted before."""
    made: dict[str, str] = field(default_factory=dict)
    """The new id of each job."""


@dataclass(frozen=True)
class Resubmitter:
    """Submits ended jobs again."""

    submitter: Submitter
    search: JobSearch
    _: KW_ONLY
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    def resubmit(
        self, by: Principal, head: Head, changes: Changes, key: IdempotencyKey | None
    ) -> tuple[SubmissionOutcome, bool]:
        """Submit an ended job again under a new id, in the same trace; as `Submitter.submit`.

        Of a group it makes another one, whose agents are chosen now.

        Raises NotAllowed for a job that has not ended, whose deadline has passed, or that is a
        member of a group, and Gone.
        """
        spec, repeats = self._read(head, changes, self.submitter.now_ms())
        try:
            trace = head.trace.under(head.span_id)
            return self.submitter.submit(by, spec, key, trace, repeats)
        except Refused as refusal:
            raise Gone from refusal

    def resubmit_selected(
        self, by: Principal, query: SelectJobs, changes: Changes, after: str | None
    ) -> ResubmitResult:
        """Submit a page of jobs again, each once. Without states: the `UNSUCCESSFUL` ones.

        Those are not what an earlier request made, once that is completed: it may be sent again.
        `after` is the `following` of an earlier request. A page ends with a group, which makes
        another one with all its jobs, and after some seconds.

        Raises LimitReached if the tenant's limits leave no room for one job.
        """
        submitter, began_ms = self.submitter, self.submitter.now_ms()
        if (closed := submitter.limits.explain_closed(by.tenant)) is not None:
            raise closed
        query = query.within(UNSUCCESSFUL)
        heads, following = self.search.page(by.tenant, query, after, consistent=True)
        told: dict[str, str | _Left] = {}
        with self.pool(AT_ONCE) as pool:
            for some in _together(heads):
                told |= self._resubmit_some(by, some, changes, began_ms, pool)
                late = submitter.now_ms() - began_ms > MOST_MS
                if some[-1] is not heads[-1] and (late or _makes_group(some[-1])):
                    following = some[-1].job_id
                    break
        left = {job_id: told for job_id, told in told.items() if isinstance(told, _Left)}
        made = {job_id: new for job_id, new in told.items() if isinstance(new, str)}
        refused = {job_id: each.why for job_id, each in left.items() if each.why}
        already = sum(each.why is None for each in left.values())
        return ResubmitResult(len(told), len(made), refused, following, already, made)

    def _resubmit_some(
        self, by: Principal, heads: Sequence[Head], changes: Changes, now_ms: int, pool: Executor
    ) -> dict[str, str | _Left]:
        """Submit some jobs again. Returns the new id of each, or why it was left."""

        def read(head: Head) -> tuple[Submission, Head] | _Left:
            return _left_or(lambda: self._read(head, changes, now_ms))

        def submit(seen: Head, new: Head) -> str | _Left:
            return _left_or(lambda: self._accept(new, now_ms, seen))

        told: dict[str, str | _Left] = {}
        open_heads = [head for head in heads if head.resubmitted_as is None]
        told |= {head.job_id: _Left(None) for head in heads if head.resubmitted_as is not None}
        new: list[tuple[Head, Head]] = []
        for head, found in zip(open_heads, pool.map(read, open_heads), strict=True):
            # One after the other: the check of typed jobs keeps what it has read and compiled.
            made = found if isinstance(found, _Left) else self._make(by, *found, now_ms)
            if isinstance(made, _Left):
                told[head.job_id] = made
            else:
                new.append((head, made))
        # Those with a key one after the other, as several may have the same.
        free = [pair for pair in new if pair[1].key is None]
        keyed = [pair for pair in new if pair[1].key is not None]
        answers = [*pool.map(lambda pair: submit(*pair), free), *(submit(*pair) for pair in keyed)]
        for (head, _), answer in zip([*free, *keyed], answers, strict=True):
            told[head.job_id] = answer
        return told

    def _read(self, head: Head, changes: Changes, now_ms: int) -> tuple[Submission, Head]:
        """Read the submission of an ended job, with changes, and the job as if it had had them.

        Raises NotAllowed, and Invalid.
        """
        check_resubmission(head, now_ms, new_deadline="deadline" in changes)
        try:
            whole = self.submitter.payloads.read_whole(head)
        except PayloadLost as lost:
            raise NotAllowed(f"the job's submission is lost: {lost}") from None
        if not changes:
            return whole.spec, head
        spec = parse_model(Submission, with_changes(whole, changes))
        return spec, as_changed(whole, spec, changes)

    def _make(self, by: Principal, spec: Submission, repeats: Head, now_ms: int) -> Head | _Left:
        """Make the new job of one that was read."""

        def make() -> Head:
            job_id = self.submitter.new_ids(now_ms)
            trace = repeats.trace.under(repeats.span_id)
            head = self.submitter.make_head(by, spec, job_id, now_ms, trace, repeats=repeats)
            return self.submitter.check_new(head, now_ms)

        return _left_or(make)

    def _accept(self, new: Head, now_ms: int, seen: Head) -> str | _Left:
        outcome = self.submitter.accept(new, None, now_ms, seen)
        if outcome.admission == "coalesced":
            return _Left(f"no job was made: job {outcome.head.job_id} of its key stands for it")
        return outcome.head.job_id


def _left_or(do: Callable[[], T]) -> T | _Left:
    """Do something for one job, or say why that is left: the others go on."""
    try:
        return do()
    except NotAllowed as refusal:
        return _Left(str(refusal))
    except Problem as problem:
        return _Left(problem.detail)
    except Refused as refusal:
        again = refusal.head is not None and refusal.head.resubmitted_as is not None
        return _Left(None if again else "")
    except Unavailable as error:
        return _Left(not_now(error))


def _makes_group(head: Head) -> bool:
    """Whether a group is made of a job, which takes as long as many jobs."""
    return head.spec.makes_group and head.resubmitted_as is None


def _together(heads: Sequence[Head]) -> Iterator[Sequence[Head]]:
    """Split jobs into those that are submitted together; a group ends its part."""
    some: list[Head] = []
    for head in heads:
        some.append(head)
        if len(some) == AT_ONCE or _makes_group(head):
            yield some
            some = []
    if some:
        yield some
