"""The SDK: a client of one Joblane API, and a handle on each job.

    with Client(url, token) as joblane:
        job = joblane.submit(["make", "test"], timeout_s=300)
        for record in job.logs(follow=True):
            print(record.text, end="")
        print(job.wait().exit_code)

Every call raises a `client.errors.JoblaneError`; reads have been retried before they do. A
client is not for two threads at once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, Self, Unpack, cast

from client.connection import Connection
from client.credentials import Credential, Given
from client.deployment import LIST_MAX, Deployment
from client.errors import InputError, WaitTimeoutError
from client.follow import Edge, News, Policy, drive, follow_log
from client.moves import Filters, Moves, because, job_path, parameters
from client.profiles import Asked, Target, target
from client.queues import QueueCalls
from client.transport import Certificate
from client.wire import JobJson, JobPage, LogPage, LogRecord, as_object, job_json, log_page
from client.wire import record as read_record
from client.wire import rows as read_rows
from joblane.lifecycle import ENDED

LOG_MAX = 1000
"""Most records in one answer of the API."""

NEWBORN_S = 3.0
"""How long a job that was just submitted may be unknown: DynamoDB's reads are eventual."""


class Job:
    """A job, as it was when last asked."""

    def __init__(self, client: "Client", data: JobJson) -> None:
        self._client = client
        self.data = data
        """All that the API said, unknown fields included."""

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.state}>"

    @property
    def id(self) -> str:
        """The job's ULID."""
        return self.data["id"]

    @property
    def state(self) -> str:
        """One of the states of `joblane.lifecycle.State`, or one that is newer than this code."""
        return self.data["state"]

    @property
    def ended(self) -> bool:
        """Nothing runs and nothing will by itself."""
        return self.state in ENDED

    @property
    def reason(self) -> str:
        """What the job waits for, or why it ended: a sentence."""
        return str(self.data.get("reason") or "")

    @property
    def exit_code(self) -> int | None:
        """Exit code of the last attempt; None before its end and when a signal ended it."""
        return self.data.get("exit_code")

    def refresh(self) -> Self:
        """Ask again. Returns itself."""
        self.data = self._client.get(self.id).data
        return self

    def wait(self, timeout_s: float | None = None) -> Self:
        """Block until the job has ended, however it ended. Returns itself.

        Raises `WaitTimeoutError` after `timeout_s` seconds; the job goes on.
        """
        self.data = self._client.wait(self.id, timeout_s).data
        return self

    def logs(self, *, follow: bool = False) -> Iterator[LogRecord]:
        """Yield the records of the job's output, see `Client.logs`."""
        return self._client.logs(self.id, follow=follow)


class Client(Moves, QueueCalls, Deployment):
    """Talks to the API at `url`, such as `https://abc.execute-api.eu-west-1.amazonaws.com`.

    `token` is the bearer token, or where one comes from. Raises `ConfigError` when either cannot
    be one.
    """

    def __init__(
        self,
        url: str,
        token: str | Credential | None = None,
        certificate: Certificate | None = None,
    ) -> None:
        credential = Given(token) if token is None or isinstance(token, str) else token
        self._connection = Connection(url, credential, certificate)
        self._newborn: set[str] = set()

    @classmethod
    def from_env(cls) -> "Client":
        """Use what the environment or a profile says, see `client.profiles`.

        Raises `ConfigError` when neither names an API.
        """
        return cls.of(target(Asked()))

    @classmethod
    def of(cls, found: Target) -> "Client":
        """Use an API that `client.profiles.target` has found."""
        return cls(found.url, found.credential, found.certificate)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that are kept open."""
        self._connection.close()

    @property
    def url(self) -> str:
        """Base URL of the API."""
        return self._connection.url

    def submit(  # noqa: PLR0913 - the fields of a submission (DESIGN.md section 11)
        self,
        command: Sequence[str],
        *,
        queue: str | None = None,
        priority: Literal["high", "default", "low"] | None = None,
        resources: Mapping[str, Any] | None = None,
        network: Literal["none", "egress", "host"] | None = None,
        env: Mapping[str, str] | None = None,
        secret_env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        restartable: bool | None = None,
        retry: Mapping[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
        items: int | None = None,
        run_at: str | None = None,
        deadline: str | None = None,
        idempotency_key: str | None = None,
    ) -> Job:
        """Submit a job. What is None is left to the API's defaults.

        `resources` has `cpus`, `memory_mb`, `pids`, `cores`, `io_bps`, `tmp_mb`; `retry` has
        `max_attempts` and `backoff_s`; `run_at` and `deadline` are RFC 3339 in UTC, such as
        `2026-11-21T02:00:00Z`; `secret_env` names secrets, such as `ssm:/joblane/main/db`, whose
        values the agent reads when the job starts. Raises `RequestError` with one entry in
        `fields` for each field that the API refused. Sent once: after `UnreachableError` or
        `ServerError` look at `list()` before submitting again. With an `idempotency_key` (one
        for each job, such as a UUID; it costs one write unit) it is sent again until it is
        answered, and makes one job.
        """
        if isinstance(command, str):
            raise InputError('the command must be a list of words, such as ["echo", "hello"]')
        fields = {
            "queue": queue,
            "priority": priority,
            "resources": resources,
            "network": network,
            "env": env,
            "secret_env": secret_env,
            "timeout_s": timeout_s,
            "restartable": restartable,
            "retry": retry,
            "labels": labels,
            "items": items,
            "run_at": run_at,
            "deadline": deadline,
        }
        body = {name: value for name, value in fields.items() if value is not None}
        job = Job(
            self,
            job_json(
                self._connection.post(
                    "/v1/jobs", {"command": list(command), **body}, idempotency_key=idempotency_key
                )
            ),
        )
        self._newborn.add(job.id)
        return job

    def get(self, job_id: str) -> Job:
        """Read one job. Raises `NotFoundError`."""
        return Job(self, job_json(self._connection.get(job_path(job_id))))

    def list(self, limit: int | None = None, **filters: Unpack[Filters]) -> Iterator[Job]:
        """Yield the newest jobs first, at most `limit`; pages are fetched as they are needed."""
        cursor: str | None = None
        left = limit
        while left is None or left > 0:
            page = self.list_page(
                limit=LIST_MAX if left is None else left, cursor=cursor, **filters
            )
            entries = page["entries"][:left]
            yield from (Job(self, entry) for entry in entries)
            left = None if left is None else left - len(entries)
            cursor = page.get("next")
            if not cursor:
                return

    def list_page(
        self, *, limit: int = LIST_MAX, cursor: str | None = None, **filters: Unpack[Filters]
    ) -> JobPage:
        """Read one page of jobs, at most 100, from `cursor` (the `next` of the page before).

        A page with filters may be short, even empty, and still have a `next`.
        """
        return self._page("/v1/jobs", limit, cursor, parameters(filters))

    def _page(
        self, path: str, limit: int, cursor: str | None, more: Mapping[str, str] | None = None
    ) -> JobPage:
        params: dict[str, str | int] = {"limit": min(limit, LIST_MAX), **(more or {})}
        if cursor:
            params["next"] = cursor
        page = as_object(self._connection.get(path, params), "a list of jobs")
        page["entries"] = [job_json(row) for row in read_rows(page)]
        return cast("JobPage", page)

    def logs(
        self, job_id: str, *, follow: bool = False, policy: Policy | None = None
    ) -> Iterator[LogRecord]:
        """Yield the records of a job's output, in order, every one once.

        Without `follow` it ends with what is there now. With it, it ends when nothing more can
        come, and survives an API that is away for up to `policy.give_up_s` (300 s).
        Raises `NotFoundError`, and `FollowError` when the API stays away.
        """
        pages = self.follow(job_id, policy=policy) if follow else self._log_pages(job_id)
        for page in pages:
            yield from map(read_record, page["entries"])

    def follow(
        self,
        job_id: str,
        *,
        cursor: str | None = None,
        policy: Policy | None = None,
        edge: Edge | None = None,
    ) -> Iterator[LogPage]:
        """Yield the pages of a log as they come, empty ones too, see `client.follow`."""

        def fetch(after: str | None) -> LogPage:
            return self.log_page(job_id, cursor=after, retry=False)

        if job_id in self._newborn:
            policy = replace(policy or Policy(), newborn_s=NEWBORN_S)
        return follow_log(fetch, cursor=cursor, policy=policy, edge=edge)

    def log_page(
        self, job_id: str, *, cursor: str | None = None, limit: int = LOG_MAX, retry: bool = True
    ) -> LogPage:
        """Read one page of a log, from `cursor` (the `next` of the page before)."""
        params: dict[str, str | int] = {"limit": limit}
        if cursor:
            params["next"] = cursor
        return log_page(self._connection.get(f"{job_path(job_id)}/logs", params, retry=retry))

    def _log_pages(self, job_id: str) -> Iterator[LogPage]:
        cursor: str | None = None
        while True:
            page = self.log_page(job_id, cursor=cursor)
            yield page
            after = page.get("next")
            if page.get("complete") or not page["entries"] or not after or after == cursor:
                return
            cursor = after

    def wait(
        self,
        job_id: str,
        timeout_s: float | None = None,
        *,
        policy: Policy | None = None,
        edge: Edge | None = None,
    ) -> Job:
        """Block until a job has ended, however it ended.

        Raises `WaitTimeoutError` after `timeout_s` seconds, `NotFoundError`, and `FollowError`
        when the API stays away.
        """
        edge = edge or Edge()
        policy = policy or Policy()
        if job_id in self._newborn:
            policy = replace(policy, newborn_s=NEWBORN_S)
        until = None
        if timeout_s is not None:
            until = edge.clock() + timeout_s
            policy = replace(policy, give_up_s=min(policy.give_up_s, timeout_s))
        state: str | None = None

        def ask() -> Job:
            path = job_path(job_id)
            return Job(self, job_json(self._connection.get(path, retry=False)))

        def judge(job: Job) -> News:
            nonlocal state
            news = News(changed=job.state != state, done=job.ended)
            state = job.state
            return news

        for job in drive(ask, judge, policy, edge):
            if job.ended:
                return job
            if until is not None and edge.clock() >= until:
                raise WaitTimeoutError(f"job {job_id} is {job.state} after {timeout_s} s")
        raise AssertionError("drive() ends with an ended job or an error")

    def cancel(self, job_id: str, *, reason: str | None = None) -> Job:
        """Cancel a job that waits, or have the one that runs ended; `data["note"]` says which.

        `reason`, here and below, goes into the audit trail.
        Raises `RequestError` (409) when it has ended, or was asked to end before.
        """
        return self._move(f"{job_path(job_id)}/cancel", reason)

    def retry(self, job_id: str, *, reason: str | None = None) -> Job:
        """Start a failed or dead job again, counters reset. Raises `RequestError` (409)."""
        return self._move(f"{job_path(job_id)}/retry", reason)

    def resubmit(
        self, job_id: str, *, idempotency_key: str | None = None, reason: str | None = None
    ) -> Job:
        """Submit a job that has ended again, under a new id. Raises `RequestError` (409)."""
        job = Job(self, self.resubmit_json(job_id, idempotency_key, reason))
        self._newborn.add(job.id)
        return job

    def hide(self, job_id: str, *, reason: str | None = None) -> Job:
        """Leave a job that has ended out of lists. Raises `RequestError` (409)."""
        return self._move(f"{job_path(job_id)}/hide", reason)

    def unhide(self, job_id: str, *, reason: str | None = None) -> Job:
        """Show a hidden job in lists again."""
        return self._move(f"{job_path(job_id)}/unhide", reason)

    def delete(self, job_id: str, *, reason: str | None = None) -> None:
        """Delete a job that is not running. Raises `RequestError` (409) for one that is."""
        self._connection.act("DELETE", job_path(job_id), because(reason))

    def dead_letters(self, *, limit: int = LIST_MAX, cursor: str | None = None) -> JobPage:
        """Read one page of dead jobs, newest first; as `list_page`."""
        return self._page("/v1/dlq", limit, cursor)

    def replay(self, job_id: str, *, reason: str | None = None) -> Job:
        """Start a dead job again, counters reset. Raises `RequestError` (409)."""
        return self._move(f"{job_path(job_id, 'dlq')}/replay", reason)

    def dismiss(self, job_id: str, *, reason: str | None = None) -> Job:
        """Take a dead job off the list for good. Raises `RequestError` (409)."""
        return self._move(f"{job_path(job_id, 'dlq')}/dismiss", reason)

    def _move(self, path: str, reason: str | None) -> Job:
        return Job(self, job_json(self._connection.act("POST", path, because(reason))))
