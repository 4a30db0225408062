"""Submit many jobs in one request, each by itself: some may be refused.

docs/decisions/0201 says why a batch is stored job by job. All messages are sent before the first
job is put; `joblane.service.job.submit` says why.
"""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, replace

from joblane.contract.principal import Principal
from joblane.contract.problems import Problem, TryAgain, parse_model, wrong
from joblane.errors import Unavailable
from joblane.formats.ids import nth_id
from joblane.job.head import Head
from joblane.job.idempotency import IdempotencyKey
from joblane.job.spec import Batch, Submission
from joblane.queue.gone import refusal_of_new
from joblane.service.job.submit import Submitter, check_deadline
from joblane.service.job.wake_up import message_delay_s, send_wake_ups
from joblane.service.key.admission import SubmissionOutcome, is_admitted_now
from joblane.state.trace import TraceContext

PUTS_AT_ONCE = 8
"""Threads that store a batch: each waits some milliseconds for DynamoDB, a hundred times."""

_UNKNOWN = "may have been accepted; list your jobs before you submit it again"


@dataclass(frozen=True)
class BatchSubmitter:
    """Accepts batches."""

    submitter: Submitter
    _: KW_ONLY
    pool: Callable[[int], Executor] = ThreadPoolExecutor
    """Makes an executor of that many workers."""

    def submit(
        self,
        by: Principal,
        batch: Batch,
        key: IdempotencyKey | None,
        trace: TraceContext | None = None,
    ) -> tuple[list[SubmissionOutcome | Problem], bool]:
        """Accept many jobs independently: answers and problems in the order of the batch.

        Also returns whether the batch had been accepted before. `trace` as in `Submitter.submit`.

        All messages are sent before the first job is put, so an answer that is an error as a
        whole (503) leaves messages without jobs, which agents discard, and no job. Jobs with a key
        follow: those of one key one after the other, in the order of the batch.

        Raises KeyReused for `key`, and LimitReached if a limit of the tenant leaves no room for
        any job; if it leaves room for some, these are the first ones.
        """
        submitter = self.submitter
        now_ms = submitter.now_ms()
        claim = submitter.claim(key, submitter.new_ids(now_ms))
        ids = [nth_id(claim.first_id, number) for number in range(len(batch.jobs))]
        known = submitter.read_known(key, claim, ids) if key and claim.repeated else {}
        if (closed := submitter.limits.explain_closed(by.tenant)) is not None and not known:
            raise closed
        submitter.serving.look()
        admitted = [
            known.get(job_id) or closed or self._parse(by, job, job_id, now_ms, trace)
            for job_id, job in zip(ids, batch.jobs, strict=True)
        ]
        admitted = [
            self._keep(entry, key) if isinstance(entry, Head) else entry
            for entry in self._within_limits(by.tenant, submitter.name_hosts(admitted))
        ]
        new = submitter.assign([entry for entry in admitted if isinstance(entry, Head)], now_ms)
        plain = [head for head in new if not is_admitted_now(head)]
        delays = [(head, message_delay_s(head, now_ms)) for head in plain]
        lost = send_wake_ups(
            submitter.lanes,
            [(head, delay_s) for head, delay_s in delays if delay_s is not None],
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
            submitter.with_warning(answer) if isinstance(answer, SubmissionOutcome) else answer
            for answer in answers
        ], claim.repeated

    def _parse(
        self, by: Principal, job: object, job_id: str, now_ms: int, trace: TraceContext | None
    ) -> Head | Problem:
        try:
            spec = parse_model(Submission, json.dumps(job))
            if spec.array is not None:
                raise wrong("array", "not allowed in a batch; submit a group by itself")
            if spec.makes_group:
                raise wrong("target", "must name one agent in a batch; submit a group by itself")
            head = self.submitter.make_head(by, spec, job_id, now_ms, trace)
            check_deadline(head, now_ms)
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
        accepted, problem = self.submitter.limits.admit(tenant, len(new))
        if problem is None:
            return list(entries)
        if not accepted and len(new) == len(entries):
            raise problem
        refused = set(new[accepted:])
        return [problem if isinstance(e, Head) and e.job_id in refused else e for e in entries]

    def _keep(self, head: Head, key: IdempotencyKey | None) -> Head | Problem:
        head = replace(head, idempotency_row=key.row if key else None)
        try:
            return head if is_admitted_now(head) else self.submitter.payloads.keep(head)
        except Problem as problem:
            return problem
        except Unavailable:
            return _unavailable("was not accepted; submit it again")

    def _put_all(self, heads: Sequence[Head]) -> dict[str, SubmissionOutcome | Problem]:
        def put(head: Head) -> SubmissionOutcome | Problem:
            try:
                return SubmissionOutcome(self.submitter.jobs.put_new(head))
            except Unavailable:
                return _unavailable(_UNKNOWN)

        with self.pool(PUTS_AT_ONCE) as pool:
            return {
                head.job_id: stored
                for head, stored in zip(heads, pool.map(put, heads), strict=True)
            }

    def _admit_all(
        self, heads: Sequence[Head], key: IdempotencyKey | None, now_ms: int
    ) -> dict[str, SubmissionOutcome | Problem]:
        """Admit jobs with keys: those of one key in their order, and keys side by side."""

        def admit(head: Head) -> SubmissionOutcome | Problem:
            try:
                return self.submitter.admit(head, key, now_ms)
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


def _unavailable(detail: str) -> Problem:
    return TryAgain(f"the job {detail}")
