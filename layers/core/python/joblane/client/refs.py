"""Handles of jobs: the job as it was when it was last read, and the calls that concern it.

A handle knows the job's type if it was submitted as a handler: `wait()` of a `JobRef[SyncResult]`
returns a SyncResult. Of any other job, `wait()` returns the handle itself.
"""

from collections.abc import Sequence
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Unpack, cast

from joblane.client.answers import JobJson, LogRecord, is_group, json_of, unless_completed
from joblane.client.calls import ApiCall, ApiStream, C, Call, Caller, Stream
from joblane.client.connection import AsyncConnection, Connection
from joblane.client.errors import ResultError
from joblane.client.fields import EditFields, Seconds
from joblane.client.files.calls import FileCalls
from joblane.client.group_results import MemberResult, load_result, read_results
from joblane.client.groups import Groups
from joblane.client.job_calls import JobCalls
from joblane.client.log_calls import LogCalls
from joblane.client.models import Job, Why
from joblane.formats.levels import Level
from joblane.handler.job_type import JobType
from joblane.state.lifecycle import ENDED

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # of mypy: the one of typing has defaults since 3.13

    from joblane.client.clients import BaseClient
    from joblane.client.files.models import Outputs

    J = TypeVar("J")
    # Covariant: an ArrayRef, whose `wait` returns itself, is a JobRef.
    T = TypeVar("T", covariant=True)  # noqa: PLC0105 - as the others are named
    S = TypeVar("S")
    M = TypeVar("M")

    R = TypeVar("R", default="JobRef[Any]", covariant=True)  # noqa: PLC0105
    A = TypeVar("A", default="AsyncJobRef[Any]", covariant=True)  # noqa: PLC0105
else:
    from typing import TypeVar

    J = TypeVar("J")
    T = TypeVar("T")
    S = TypeVar("S")
    M = TypeVar("M")
    R = TypeVar("R")
    A = TypeVar("A")


class JobValues(Caller[C], Generic[C, J, T]):
    """A job as it was when it was last read, with the calls that concern it.

    C is the connection, J the handle itself, and T what `wait` returns.
    """

    _client: "BaseClient[Any, Any]"
    _is_array: ClassVar[bool] = False
    """Whether `wait` returns the handle of a handler's job, too."""

    def __init__(
        self,
        client: "BaseClient[Any, Any]",
        data: JobJson,
        job_type: JobType[Any, Any] | None = None,
    ) -> None:
        self._client = client
        self._connection = client._connection  # noqa: SLF001 - it is the client's handle
        self._job_type = job_type
        self._json = data
        self.admission = data.get("admission")
        """What became of its submission, None of a job that was read: `accepted`; `coalesced`, it
        is an earlier job with the same key; `replaced`, the job `replaced` is skipped for it."""
        self.replaced = data.get("replaced")
        """Id of the job that was skipped for it when it was submitted."""
        self.warning = data.get("warning")
        """Why no live agent could serve it when it was submitted or edited, in a sentence; None if
        one could, and of a job that was read."""
        self.note = data.get("note")
        """What a cancel did, in a sentence; None of a job that was read."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.state}>"

    @property
    def data(self) -> Job:
        """All fields of the job as the API answered them."""
        return Job(self._json)

    @property
    def id(self) -> str:
        """The job's ULID."""
        return self._json["id"]

    @property
    def state(self) -> str:
        """A `joblane.state.lifecycle.State`, or a state that is newer than this version."""
        return self._json["state"]

    @property
    def ended(self) -> bool:
        """Whether the job is in a final state."""
        return self.state in ENDED

    @property
    def is_group(self) -> bool:
        """Whether it is a group: an array, or a broadcast with a job for each agent."""
        return is_group(self._json)

    @property
    def reason(self) -> str:
        """Why the job waits or how it ended: a sentence."""
        return str(self._json.get("reason") or "")

    @property
    def exit_code(self) -> int | None:
        """Exit code of the last attempt; None before its end and when a signal ended it."""
        return self._json.get("exit_code")

    @property
    def name(self) -> str | None:
        """The name that it was submitted with."""
        return self._json.get("name")

    @property
    def labels(self) -> dict[str, str]:
        """The labels that it was submitted with, or was given by an edit."""
        return dict(self._json.get("labels") or {})

    @property
    def agent(self) -> str | None:
        """Name of the agent of its last attempt; None before the first."""
        return self._json.get("agent")

    @property
    def created_at(self) -> str:
        """When it was submitted: RFC 3339, UTC."""
        return self._json.get("created_at", "")

    @ApiCall
    def refresh(self) -> Call[J]:
        """Read the job again. Returns itself."""
        return self._become((yield from JobCalls.get(self._client, self.id)))

    @ApiCall
    def cancel(self, *, reason: str | None = None) -> Call[J]:
        """Cancel the job; a running job is stopped. Returns itself; see `Client.cancel`."""
        cancelled: Any = yield from JobCalls.cancel(self._client, self.id, reason=reason)
        self.note = cancelled.note
        return self._become(cancelled)

    @ApiCall
    def retry(self, *, same_version: bool = False, reason: str | None = None) -> Call[J]:
        """Restart the failed or dead job, see `Client.retry`. Returns itself."""
        call = JobCalls.retry(self._client, self.id, same_version=same_version, reason=reason)
        return self._become((yield from call))

    @ApiCall
    def why(self, *, index: int | None = None) -> Call[Why]:
        """Explain why the job waits, runs on or has ended, see `Client.why`."""
        return Why((yield from JobCalls.why(self._client, self.id, index=index)))

    @ApiCall
    def edit(self, *, reason: str | None = None, **changes: Unpack[EditFields]) -> Call[J]:
        """Change the job while it waits, see `Client.edit`. Returns itself."""
        edited: Any = yield from JobCalls.edit(self._client, self.id, reason=reason, **changes)
        self.warning = edited.warning
        return self._become(edited)

    @ApiCall
    def wait(self, timeout_s: Seconds | None = None, *, check: bool = False) -> Call[T]:
        """Wait until the job has ended, in whatever state, and return itself.

        With `check`, raises `JobFailedError` for any other state than completed.

        Of a handler's job, returns the result, and raises `JobFailedError` with or without `check`,
        since there is no result then; `ResultError` if it is not the declared model. Raises
        `WaitTimeoutError` after `timeout_s` seconds; see `Client.wait`.
        """
        self._become((yield from JobCalls.wait(self._client, self.id, timeout_s)))
        if self._job_type is not None and not self._is_array:
            return cast("T", result_of(self._job_type, self._json))
        if check and (failed := unless_completed(self._json)):
            raise failed
        return cast("T", self)

    @ApiStream
    def logs(
        self, *, follow: bool = False, tail: int | None = None, level: Level | None = None
    ) -> Stream[LogRecord]:
        """Yield the records of the job's output, see `Client.logs`."""
        return LogCalls.logs(self._client, self.id, follow=follow, tail=tail, level=level)

    @ApiCall
    def outputs(self) -> "Call[Outputs]":
        """Read the list of the job's output files, see `Client.outputs`."""
        return FileCalls.outputs(self._client, self.id)

    @ApiCall
    def download(
        self, to: str | PathLike[str], paths: Sequence[str] = (), *, replace: bool = False
    ) -> "Call[Outputs]":
        """Write output files of the job below a directory, see `Client.download`."""
        return FileCalls.download(self._client, self.id, to, paths, replace=replace)

    def _become(self, read: Any) -> J:
        """Take what was just read of the same job."""
        self._json = json_of(read)
        return cast("J", self)


class JobRef(JobValues[Connection, "JobRef[Any]", R], Generic[R]):
    """A job as it was when it was last read, with the calls that concern it.

    R is what `wait` returns: the result of a handler, or the `JobRef` itself.
    """

    def of(self, handler: JobType[Any, S]) -> "JobRef[S]":
        """Return a handle of the same job, which a program has submitted as `handler` before."""
        return JobRef(self._client, self._json, handler)


class AsyncJobRef(JobValues[AsyncConnection, "AsyncJobRef[Any]", A], Generic[A]):
    """The `JobRef` of an `AsyncClient`: its calls are awaited."""

    def of(self, handler: JobType[Any, S]) -> "AsyncJobRef[S]":
        """Return a handle of the same job, which a program has submitted as `handler` before."""
        return AsyncJobRef(self._client, self._json, handler)


class ArrayRef(JobRef["ArrayRef[Any]"], Generic[M]):
    """An array as it was when it was last read: the job that `submit` with `array` returned.

    M is the result of a member: what a handler declares, JSON of any other. `wait` returns the
    `ArrayRef`, in state completed, partial_failure, failed or skipped.
    """

    _is_array = True

    @ApiStream
    def results(self, *, indices: str | None = None) -> Stream[MemberResult[M]]:
        """Yield what became of each member, in the order of their indices, a hundred a request.

        Of all, or of those with `indices`, such as `3,5-9`. What has not ended has an `error`;
        `wait` first. See `MemberResult`.
        """
        read = partial(Groups.page, self._client.groups)
        return read_results(read, self.id, self._job_type, indices)

    def of(self, handler: JobType[Any, S]) -> "ArrayRef[S]":  # type: ignore[override]  # of members
        """Return a handle of the same array, which a program has submitted as `handler` before."""
        return ArrayRef(self._client, self._json, handler)


class AsyncArrayRef(AsyncJobRef["AsyncArrayRef[Any]"], Generic[M]):
    """The `ArrayRef` of an `AsyncClient`: its calls are awaited."""

    _is_array = True

    @ApiStream
    def results(self, *, indices: str | None = None) -> Stream[MemberResult[M]]:
        """Yield what became of each member, see `ArrayRef.results`."""
        read = partial(Groups.page, self._client.groups)
        return read_results(read, self.id, self._job_type, indices)

    def of(self, handler: JobType[Any, S]) -> "AsyncArrayRef[S]":  # type: ignore[override]  # of members
        """Return a handle of the same array, which a program has submitted as `handler` before."""
        return AsyncArrayRef(self._client, self._json, handler)


def result_of(handler: JobType[Any, S], data: JobJson) -> S:
    """Return the result of a job that has ended. Raises `JobFailedError`, `ResultError`."""
    if failed := unless_completed(data):
        raise failed
    if is_group(data):
        raise ResultError(
            f"group {data['id']} has no result; its members have, see client.groups.results"
        )
    return load_result(handler, data.get("result"), f"job {data['id']}")
