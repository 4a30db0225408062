"""Handles of jobs: the job as it was when it was last read, and the calls that concern it.

A handle knows the job's type if it was submitted as a handler: `wait()` of a `JobRef[SyncResult]`
returns a SyncResult. Of any other job, `wait()` returns the handle itself.
"""

from collections.abc import AsyncGenerator, Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, Self, cast

from joblane.client.answers import JobJson, LogRecord, is_group
from joblane.client.errors import JobFailedError, ResultError
from joblane.client.fields import Seconds
from joblane.handler.job_type import JobType
from joblane.job.lifecycle import ENDED, State

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # of mypy: the one of typing has defaults since 3.13

    from joblane.client.clients import AsyncClient, Client  # noqa: F401 - named as strings
    from joblane.client.files.models import Outputs

    R = TypeVar("R", default="JobRef[Any]")
    A = TypeVar("A", default="AsyncJobRef[Any]")
else:
    from typing import TypeVar

    R = TypeVar("R")
    A = TypeVar("A")

K = TypeVar("K")
S = TypeVar("S")


class JobValues(Generic[K]):
    """A job as it was when it was last read."""

    def __init__(self, client: K, data: JobJson, job_type: JobType[Any, Any] | None = None) -> None:
        self._client = client
        self._job_type = job_type
        self.data = data
        """The API's answer, unknown fields included."""
        self.admission = data.get("admission")
        """What became of its submission, None of a job that was read: `accepted`; `coalesced`, it
        is an earlier job with the same key; `replaced`, the job `replaced` is skipped for it."""
        self.replaced = data.get("replaced")
        """Id of the job that was skipped for it when it was submitted."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.state}>"

    @property
    def id(self) -> str:
        """The job's ULID."""
        return self.data["id"]

    @property
    def state(self) -> str:
        """A `joblane.job.lifecycle.State`, or a state that is newer than this version."""
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

    def _waited(self) -> Any:
        """Return what `wait` returns."""
        return self if self._job_type is None else result_of(self._job_type, self.data)


class JobRef(JobValues["Client"], Generic[R]):
    """A job as it was when it was last read, with the calls that concern it.

    R is what `wait` returns: the result of a handler, or the `JobRef` itself.
    """

    def refresh(self) -> Self:
        """Read the job again. Returns itself."""
        self.data = self._client.get(self.id).data
        return self

    def wait(self, timeout_s: Seconds | None = None) -> R:
        """Wait until the job has ended, see `Client.wait`.

        Of a handler's job, returns the result, and raises `JobFailedError` if the job ended in
        another state than completed, `ResultError` if the result is not the declared model. Of any
        other job, returns itself, in whatever state.
        """
        self.data = self._client.wait(self.id, timeout_s).data
        return cast("R", self._waited())

    def logs(self, *, follow: bool = False, tail: int | None = None) -> Iterator[LogRecord]:
        """Yield the records of the job's output, see `Client.logs`."""
        return self._client.logs(self.id, follow=follow, tail=tail)

    def outputs(self) -> "Outputs":
        """Read the list of the job's output files, see `Client.outputs`."""
        return self._client.outputs(self.id)

    def download(
        self, to: str | PathLike[str], paths: Sequence[str] = (), *, replace: bool = False
    ) -> "Outputs":
        """Write output files of the job below a directory, see `Client.download`."""
        return self._client.download(self.id, to, paths, replace=replace)

    def of(self, handler: JobType[Any, S]) -> "JobRef[S]":
        """Return a handle of the same job, which a program has submitted as `handler` before."""
        return JobRef(self._client, self.data, handler)


class AsyncJobRef(JobValues["AsyncClient"], Generic[A]):
    """A job as it was when it was last read, with the calls that concern it; see `JobRef`."""

    async def refresh(self) -> Self:
        """Read the job again. Returns itself."""
        self.data = (await self._client.get(self.id)).data
        return self

    async def wait(self, timeout_s: Seconds | None = None) -> A:
        """Wait until the job has ended, see `JobRef.wait`."""
        self.data = (await self._client.wait(self.id, timeout_s)).data
        return cast("A", self._waited())

    def logs(
        self, *, follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[LogRecord, None]:
        """Yield the records of the job's output, see `Client.logs`."""
        return self._client.logs(self.id, follow=follow, tail=tail)

    async def outputs(self) -> "Outputs":
        """Read the list of the job's output files, see `Client.outputs`."""
        return await self._client.outputs(self.id)

    async def download(
        self, to: str | PathLike[str], paths: Sequence[str] = (), *, replace: bool = False
    ) -> "Outputs":
        """Write output files of the job below a directory, see `Client.download`."""
        return await self._client.download(self.id, to, paths, replace=replace)

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
