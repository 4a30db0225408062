"""Handles of jobs: the job as it was when it was last read, and the calls that concern it.

A handle knows the job's type if it was submitted as a handler: `wait()` of a `JobRef[SyncResult]`
returns a SyncResult. Of any other job, `wait()` returns the handle itself.
"""

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, Unpack, cast

from joblane.client.answers import JobJson, LogRecord, is_group
from joblane.client.calls import ApiCall, ApiStream, C, Call, Caller, Stream
from joblane.client.connection import AsyncConnection, Connection
from joblane.client.errors import JobFailedError, ResultError
from joblane.client.fields import EditFields, Seconds
from joblane.client.files.calls import FileCalls
from joblane.client.job_calls import JobCalls
from joblane.client.log_calls import LogCalls
from joblane.formats.levels import Level
from joblane.handler.job_type import JobType
from joblane.state.lifecycle import ENDED, State

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # of mypy: the one of typing has defaults since 3.13

    from joblane.client.clients import BaseClient
    from joblane.client.files.models import Outputs

    J = TypeVar("J")
    T = TypeVar("T")
    S = TypeVar("S")

    R = TypeVar("R", default="JobRef[Any]")
    A = TypeVar("A", default="AsyncJobRef[Any]")
else:
    from typing import TypeVar

    J = TypeVar("J")
    T = TypeVar("T")
    S = TypeVar("S")
    R = TypeVar("R")
    A = TypeVar("A")


class JobValues(Caller[C], Generic[C, J, T]):
    """A job as it was when it was last read, with the calls that concern it.

    C is the connection, J the handle itself, and T what `wait` returns.
    """

    _client: "BaseClient[Any, Any]"

    def __init__(
        self,
        client: "BaseClient[Any, Any]",
        data: JobJson,
        job_type: JobType[Any, Any] | None = None,
    ) -> None:
        self._client = client
        self._connection = client._connection  # noqa: SLF001 - it is the client's handle
        self._job_type = job_type
        self.data = data
        """The API's answer, unknown fields included."""
        self.admission = data.get("admission")
        """What became of its submission, None of a job that was read: `accepted`; `coalesced`, it
        is an earlier job with the same key; `replaced`, the job `replaced` is skipped for it."""
        self.replaced = data.get("replaced")
        """Id of the job that was skipped for it when it was submitted."""
        self.warning = data.get("warning")
        """Why no live agent could serve it when it was submitted or edited, in a sentence; None if
        one could, and of a job that was read."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.state}>"

    @property
    def id(self) -> str:
        """The job's ULID."""
        return self.data["id"]

    @property
    def state(self) -> str:
        """A `joblane.state.lifecycle.State`, or a state that is newer than this version."""
        return self.data["state"]

    @property
    def ended(self) -> bool:
        """Whether the job is in a final state."""
        return self.state in ENDED

    @property
    def reason(self) -> str:
        """Why the job waits or how it ended: a sentence."""
        return str(self.data.get("reason") or "")

    @property
    def exit_code(self) -> int | None:
        """Exit code of the last attempt; None before its end and when a signal ended it."""
        return self.data.get("exit_code")

    @ApiCall
    def refresh(self) -> Call[J]:
        """Read the job again. Returns itself."""
        read: Any = yield from JobCalls.get(self._client, self.id)
        self.data = read.data
        return cast("J", self)

    @ApiCall
    def edit(self, *, reason: str | None = None, **changes: Unpack[EditFields]) -> Call[J]:
        """Change the job while it waits, see `Client.edit`. Returns itself."""
        edited: Any = yield from JobCalls.edit(self._client, self.id, reason=reason, **changes)
        self.data, self.warning = edited.data, edited.warning
        return cast("J", self)

    @ApiCall
    def wait(self, timeout_s: Seconds | None = None) -> Call[T]:
        """Wait until the job has ended, see `Client.wait`.

        Of a handler's job, returns the result, and raises `JobFailedError` if the job ended in
        another state than completed, `ResultError` if the result is not the declared model. Of any
        other job, returns itself, in whatever state.
        """
        read: Any = yield from JobCalls.wait(self._client, self.id, timeout_s)
        self.data = read.data
        job_type = self._job_type
        return cast("T", self if job_type is None else result_of(job_type, self.data))

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


class JobRef(JobValues[Connection, "JobRef[Any]", R], Generic[R]):
    """A job as it was when it was last read, with the calls that concern it.

    R is what `wait` returns: the result of a handler, or the `JobRef` itself.
    """

    def of(self, handler: JobType[Any, S]) -> "JobRef[S]":
        """Return a handle of the same job, which a program has submitted as `handler` before."""
        return JobRef(self._client, self.data, handler)


class AsyncJobRef(JobValues[AsyncConnection, "AsyncJobRef[Any]", A], Generic[A]):
    """The `JobRef` of an `AsyncClient`: its calls are awaited."""

    def of(self, handler: JobType[Any, S]) -> "AsyncJobRef[S]":
        """Return a handle of the same job, which a program has submitted as `handler` before."""
        return AsyncJobRef(self._client, self.data, handler)


def unless_completed(data: JobJson) -> JobFailedError | None:
    """Make the error of a job that ended in another state than completed."""
    if data["state"] == State.COMPLETED:
        return None
    reason = data.get("reason") or "no reason given"
    return JobFailedError(f"job {data['id']} is {data['state']}: {reason}", job=dict(data))


def result_of(handler: JobType[Any, S], data: JobJson) -> S:
    """Return the result of a job that has ended. Raises `JobFailedError`, `ResultError`."""
    if failed := unless_completed(data):
        raise failed
    if is_group(data):
        raise ResultError(
            f"group {data['id']} has no result; its members have, see client.groups.members"
        )
    from pydantic import ValidationError  # most commands need no models

    if not handler.has_result:
        return cast("S", None)
    try:
        return handler.load_result(data.get("result"))
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(["result", *map(str, found["loc"])])
        raise ResultError(
            f"the result of job {data['id']} is not what {handler.name} declares here: "
            f"{where}: {found['msg']}"
        ) from error
