"""Calls that concern jobs: submit, read, follow, wait, cancel, retry."""

import builtins
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar, Unpack, cast

from joblane.client import models
from joblane.client.answers import (
    JobJson,
    JobPage,
    as_object,
    job_json,
    rows,
    unless_completed,
)
from joblane.client.batches import BatchEntry
from joblane.client.calls import (
    LIST_MAX,
    ApiCall,
    ApiStream,
    Call,
    Stream,
    act,
    answers,
    get,
    list_entries,
    restart_body,
    sweep,
)
from joblane.client.errors import InputError, WaitTimeoutError
from joblane.client.fields import (
    DeadFilters,
    EditFields,
    Filters,
    Seconds,
    Submission,
    SubmissionFields,
    encode_edit,
    encode_fields,
    encode_filters,
    seconds,
)
from joblane.client.files.calls import build_submission
from joblane.client.follow import FollowPolicy, News, RepeatedCall, Runtime
from joblane.client.log_calls import LogCalls, job_path
from joblane.client.tracing import trace_headers
from joblane.handler.job_type import JobType
from joblane.state.lifecycle import ENDED

WAIT = FollowPolicy(busy_s=0.2, idle_share=1.0, idle_max_s=5.0)
"""Intervals of waiting for a job's end: 0.2 s, then as long as it has waited so far, which doubles
them, up to 5 s."""

J = TypeVar("J")
T = TypeVar("T")
Entries: TypeAlias = list[dict[str, Any]]


class JobCalls(LogCalls, ABC, Generic[J]):
    """The calls; J is the client's type of a job."""

    @ApiCall
    def _submit(
        self,
        what: object,
        params: object,
        idempotency_key: str | None,
        fields: SubmissionFields,
    ) -> Call[J]:
        body = yield from build_submission(what, params, fields)
        answer = yield from act(
            "POST", "/v1/jobs", body, idempotency_key=idempotency_key, headers=trace_headers()
        )
        handler = what if isinstance(what, JobType) else None
        return self._handle(self._note_submitted(answer), handler)

    @ApiCall
    def submit_batch(
        self, jobs: Sequence[Submission], *, idempotency_key: str | None = None
    ) -> Call[builtins.list[BatchEntry[J]]]:
        """Submit up to 100 jobs, each a mapping of the fields of a submission; see `map` for more.

        Files must have been uploaded: `inputs` are `field()` of what `client.files.put` returns.

        Returns an entry for each, in order, with the `job` or the `error` of one that was refused;
        the others are not affected. With an `idempotency_key` it is sent again after a failure, and
        creates each job once.
        """
        entries = yield from send_batch(jobs, idempotency_key)
        return [BatchEntry.of(each, self._handle) for each in entries]

    @ApiCall
    def get(self, job_id: str) -> Call[J]:
        """Read a job. Raises `NotFoundError`."""
        return self._handle(job_json((yield from get(job_path(job_id)))))

    @answers(models.Why)
    def why(self, job_id: str, *, index: int | None = None) -> Call[dict[str, Any]]:
        """Explain why a job waits, runs on or has ended. Raises `NotFoundError`.

        `summary` is a sentence, `reasons` a list in which the one that decides comes first. Of a
        group, `index` names one of its members, which need not have begun.
        """
        answer = yield from get(f"{job_path(job_id)}/why", {"index": index})
        return as_object(answer, "why a job waits")

    @answers(models.JobPage)
    def list_page(
        self, *, limit: int = LIST_MAX, cursor: str | None = None, **filters: Unpack[Filters]
    ) -> Call[JobPage]:
        """Read one page of jobs, at most 100, from `cursor` (the `next` of the previous page).

        A page with filters may be short, even empty, and still have a `next`.
        """
        return _page("/v1/jobs", limit, cursor, encode_filters(filters))

    @ApiCall
    def wait(
        self,
        job_id: str,
        timeout_s: Seconds | None = None,
        *,
        check: bool = False,
        policy: FollowPolicy | None = None,
        runtime: Runtime | None = None,
    ) -> Call[J]:
        """Wait until a job has ended, in whatever state.

        With `check`, raises `JobFailedError` for any other state than completed.

        Asks after 0.2 s, and in doubling intervals of up to 5 s while the state does not change,
        unless `policy` says otherwise. Raises `WaitTimeoutError` after `timeout_s` seconds,
        `NotFoundError`, and `FollowError` when the API does not answer for `policy.give_up_s`.
        """
        runtime = runtime or Runtime(self._clock)
        policy = self._policy(job_id, policy or WAIT)
        until = None
        if timeout_s is not None:
            timeout_s = seconds("timeout_s", timeout_s)
            until = runtime.clock() + timeout_s
            policy = replace(policy, give_up_s=min(policy.give_up_s, timeout_s))
        state: str | None = None

        def ask() -> Call[JobJson]:
            return job_json((yield from get(job_path(job_id), retry=False)))

        def judge(job: JobJson) -> News:
            nonlocal state
            news = News(changed=job["state"] != state, done=job["state"] in ENDED)
            state = job["state"]
            return news

        poll = RepeatedCall(ask, judge, policy, runtime, until)
        while True:
            job = yield from poll.answer()
            if poll.done:
                if check and (failed := unless_completed(job)):
                    raise failed
                return self._handle(job)
            if until is not None and runtime.clock() >= until:
                raise WaitTimeoutError(f"job {job_id} is {job['state']} after {timeout_s} s")

    @ApiCall
    def cancel(self, job_id: str, *, reason: str | None = None) -> Call[J]:
        """Cancel a job; a running job is stopped. `note` says which.

        `reason`, here and below, goes into the audit trail. Raises `RequestError` (409) when the
        job has ended or is already being cancelled.
        """
        return self._action(f"{job_path(job_id)}/cancel", reason)

    @ApiCall
    def retry(
        self, job_id: str, *, same_version: bool = False, reason: str | None = None
    ) -> Call[J]:
        """Restart a failed or dead job with its attempts reset.

        A typed job takes the present version of its type, and its defaults for what was not given,
        unless `same_version`. Raises `RequestError` (409); `fields` are those that this version
        does not take.
        """
        return self._action(f"{job_path(job_id)}/retry", reason, restart_body(same_version))

    @ApiCall
    def edit(
        self, job_id: str, *, reason: str | None = None, **changes: Unpack[EditFields]
    ) -> Call[J]:
        """Change a job that waits: its queue, priority, deadline, labels, resources or time limit.

        What is left out stays, and None removes: `client.edit(id, priority="high",
        labels={"team": None}, deadline=None)`. `warning` of what is returned says why no live agent
        can serve the job now. Raises `RequestError` (400, 409). It is sent again after a failure:
        an edit that changes nothing writes nothing.
        """
        body = encode_edit(changes)
        answer = yield from act("PATCH", job_path(job_id), body, reason=reason, repeatable=True)
        return self._handle(job_json(answer))

    @ApiStream
    def cancel_jobs(
        self, *, reason: str | None = None, **filters: Unpack[Filters]
    ) -> Stream[models.JobsCancelled]:
        """Cancel all jobs that the filters select; running ones are stopped.

        One filter is required besides `until` and `hidden`. Without `state`, those that have not
        ended. Yields the answer for each page of jobs, with the numbers `examined` and `cancelled`,
        and in `refused` the jobs that cannot be cancelled; stop iterating to stop. With `until`,
        jobs that are submitted meanwhile are not cancelled.
        """
        return sweep("/v1/jobs/cancel", models.JobsCancelled, reason, encode_filters(filters))

    @ApiStream
    def retry_jobs(
        self,
        *,
        same_version: bool = False,
        reason: str | None = None,
        **filters: Unpack[Filters],
    ) -> Stream[models.JobsRetried]:
        """Restart all failed and dead jobs that the filters select: same ids, attempts reset.

        As `cancel_jobs`, with the number `retried`. Of groups, the members that failed.
        `same_version` as in `retry`; what does not fit is in `refused`, and stays.
        """
        body = restart_body(same_version)
        return sweep("/v1/jobs/retry", models.JobsRetried, reason, encode_filters(filters), body)

    @ApiStream
    def delete_jobs(
        self, *, reason: str | None = None, **filters: Unpack[Filters]
    ) -> Stream[models.JobsDeleted]:
        """Delete all jobs that the filters select, with their output.

        As `cancel_jobs`, with the number `deleted`. Without `state`, those that have ended. A group
        is deleted with its jobs and counts as one.
        """
        return sweep("/v1/jobs/delete", models.JobsDeleted, reason, encode_filters(filters))

    @ApiCall
    def resubmit(
        self,
        job_id: str,
        *,
        changes: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        reason: str | None = None,
    ) -> Call[J]:
        """Submit a job that has ended again, under a new id.

        `changes` are a JSON merge patch of its submission, such as `{"resources": {"memory_mb":
        2048}, "deadline": None}`: None removes a field. Raises `RequestError`: 409 for a job that
        has not ended, 400 that names the field which is not acceptable any more.
        """
        path, body = f"{job_path(job_id)}/resubmit", _changes(changes)
        answer = yield from act("POST", path, body, reason=reason, idempotency_key=idempotency_key)
        return self._handle(self._note_submitted(answer))

    @ApiStream
    def resubmit_jobs(
        self,
        *,
        changes: Mapping[str, Any] | None = None,
        reason: str | None = None,
        **filters: Unpack[Filters],
    ) -> Stream[models.JobsResubmitted]:
        """Submit all ended jobs that the filters select again, under new ids and each once.

        As `cancel_jobs`; without `state`, those that are not completed, dismissed or skipped. With
        the numbers `resubmitted` and `already`, of those that were left out because they have been
        resubmitted before, and in `jobs` the `id` of each and what it was `resubmitted_as`. It may
        be called again after a failure. `changes` as in `resubmit`.
        """
        path, given = "/v1/jobs/resubmit", encode_filters(filters)
        return sweep(path, models.JobsResubmitted, reason, given, _changes(changes))

    @ApiCall
    def hide(self, job_id: str, *, reason: str | None = None) -> Call[J]:
        """Exclude a job that has ended from lists. Raises `RequestError` (409)."""
        return self._action(f"{job_path(job_id)}/hide", reason)

    @ApiCall
    def unhide(self, job_id: str, *, reason: str | None = None) -> Call[J]:
        """Include a hidden job in lists again."""
        return self._action(f"{job_path(job_id)}/unhide", reason)

    @ApiCall
    def delete(self, job_id: str, *, reason: str | None = None) -> Call[None]:
        """Delete a job that is not running, and its output.

        Raises `RequestError` (409) for a running one, and `ServerError` (503) for one with more
        output than a request deletes: call it again.
        """
        yield from act("DELETE", job_path(job_id), reason=reason)

    @answers(models.JobPage)
    def dead_letters(self, *, limit: int = LIST_MAX, cursor: str | None = None) -> Call[JobPage]:
        """Read one page of dead jobs, newest first; see `list_page`."""
        return _page("/v1/dlq", limit, cursor, {})

    @ApiCall
    def replay(
        self, job_id: str, *, same_version: bool = False, reason: str | None = None
    ) -> Call[J]:
        """Restart a dead job with its attempts reset; `same_version` and errors as in `retry`."""
        path = f"{job_path(job_id, 'dlq')}/replay"
        return self._action(path, reason, restart_body(same_version))

    @ApiCall
    def dismiss(self, job_id: str, *, reason: str | None = None) -> Call[J]:
        """Remove a dead job from the list of dead jobs. Raises `RequestError` (409)."""
        return self._action(f"{job_path(job_id, 'dlq')}/dismiss", reason)

    @ApiStream
    def replay_jobs(
        self,
        *,
        same_version: bool = False,
        reason: str | None = None,
        **filters: Unpack[DeadFilters],
    ) -> Stream[models.DeadReplayed]:
        """Restart all dead jobs that the filters select: same ids, attempts reset.

        As `cancel_jobs`, with the number `replayed`. One filter is required besides `until` and
        `hidden`. `same_version` as in `retry_jobs`.
        """
        body = restart_body(same_version)
        return sweep("/v1/dlq/replay", models.DeadReplayed, reason, encode_filters(filters), body)

    @ApiStream
    def dismiss_jobs(
        self, *, reason: str | None = None, **filters: Unpack[DeadFilters]
    ) -> Stream[models.DeadDismissed]:
        """Remove all dead jobs that the filters select from the list of dead jobs.

        As `replay_jobs`, with the number `dismissed`.
        """
        return sweep("/v1/dlq/dismiss", models.DeadDismissed, reason, encode_filters(filters))

    @ApiStream
    def list(self, limit: int | None = None, **filters: Unpack[Filters]) -> Stream[J]:
        """Yield jobs, newest first, at most `limit`; pages are fetched as they are needed."""
        return list_entries(partial(JobCalls.list_page, self, **filters), limit, self._handle)

    @ApiStream
    def list_dead_letters(self, limit: int | None = None) -> Stream[J]:
        """Yield dead jobs, newest first, at most `limit`; see `list`."""
        return list_entries(partial(JobCalls.dead_letters, self), limit, self._handle)

    @abstractmethod
    def _handle(self, data: JobJson, handler: JobType[Any, Any] | None = None) -> J:
        """Make the client's object of a job, which `handler` may be the type of."""

    def _note_submitted(self, answer: object) -> JobJson:
        job = job_json(answer)
        self._newborns.add(job["id"])
        return job

    def _action(
        self, path: str, reason: str | None, body: Mapping[str, Any] | None = None
    ) -> Call[J]:
        return self._handle(job_json((yield from act("POST", path, body, reason=reason))))


def send_batch(jobs: Sequence[Submission], idempotency_key: str | None) -> Call[Entries]:
    """Submit up to 100 jobs; returns the entries of the answer. Raises `InputError`."""
    if not _are_mappings(jobs):
        raise InputError('jobs must be a list of mappings, such as [{"command": ["echo", "hi"]}]')
    answer = yield from act(
        "POST",
        "/v1/jobs/batch",
        {"jobs": [encode_fields(job) for job in jobs]},
        idempotency_key=idempotency_key,
        headers=trace_headers(),
    )
    return rows(answer)


def _are_mappings(jobs: object) -> bool:
    return isinstance(jobs, Sequence) and all(isinstance(job, Mapping) for job in jobs)


def _changes(changes: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The body of a resubmission. Raises `InputError`."""
    if not isinstance(changes, Mapping | None):
        raise InputError('changes must be a mapping, such as {"queue": "bulk"}')
    return {"changes": dict(changes)} if changes else None


def _page(
    path: str, limit: int, cursor: str | None, filters: Mapping[str, str | Sequence[str]]
) -> Call[JobPage]:
    params = {"limit": min(limit, LIST_MAX), "next": cursor or None, **filters}
    page = as_object((yield from get(path, params)), "a list of jobs")
    page["entries"] = [job_json(row) for row in rows(page)]
    return cast("JobPage", page)
