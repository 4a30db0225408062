"""The SDK: `Client` and `AsyncClient`.

    with Client(url, token) as client:
        job = client.submit(["make", "test"], timeout_s=300)
        for record in job.logs(follow=True):
            print(record.text, end="")
        print(job.wait().exit_code)

With `AsyncClient`, the same with `async with`, `await` and `async for`. Each method raises a
`joblane.JoblaneError`; reads have been retried before.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Required,
    Self,
    TypeAlias,
    TypeVar,
    Unpack,
    overload,
)

from joblane.client.answers import JobJson, is_array
from joblane.client.calls import Caller
from joblane.client.connection import AsyncConnection, Connection
from joblane.client.credentials import Credential, StaticToken
from joblane.client.deployment_calls import DeploymentCalls
from joblane.client.fan_out import WINDOW, Made, MapCalls, Mapped
from joblane.client.fields import Array, Command, JobFields, SubmissionFields
from joblane.client.files.calls import FileCalls, Files
from joblane.client.follow import FollowPolicy
from joblane.client.groups import Groups
from joblane.client.key_calls import KeyCalls
from joblane.client.profiles import Endpoint, find_endpoint
from joblane.client.refs import ArrayRef, AsyncArrayRef, AsyncJobRef, JobRef
from joblane.client.schedules import Schedules
from joblane.client.transport import Certificate
from joblane.client.type_calls import TypeCalls
from joblane.handler.job_type import JobType

if TYPE_CHECKING:
    from pydantic import BaseModel

J = TypeVar("J")
C = TypeVar("C", Connection, AsyncConnection)
Connect: TypeAlias = Callable[[str, Credential, Certificate | None], C]
P = TypeVar("P", bound="BaseModel")
R = TypeVar("R")
V = TypeVar("V")


class SubmitOptions(SubmissionFields, total=False):
    """Keywords of `submit`."""

    idempotency_key: str | None


class SingleOptions(JobFields, total=False):
    """Keywords of `submit` for a handler, and of `map`."""

    idempotency_key: str | None


class ArrayOptions(SingleOptions, total=False):
    """Keywords of `submit` for an array."""

    array: Required[Array]


class MapOptions(SingleOptions, total=False):
    """Keywords of `map`."""

    as_completed: bool
    window: int
    policy: FollowPolicy | None


class BaseClient(
    MapCalls[J], FileCalls, DeploymentCalls, KeyCalls, TypeCalls, Caller[C], Generic[J, C]
):
    """The calls of the API; J is the client's type of a job, C the connection that runs them."""

    _connect: Connect[C]

    def __init__(
        self,
        url: str,
        token: str | Credential | None = None,
        certificate: Certificate | None = None,
    ) -> None:
        super().__init__()
        credential = StaticToken(token) if token is None or isinstance(token, str) else token
        self._connection: C = self._connect(url, credential, certificate)

    @classmethod
    def from_env(cls) -> Self:
        """Use the environment or a profile, see `joblane.client.profiles`.

        Raises `ConfigError` when neither names an API.
        """
        return cls.from_endpoint(find_endpoint())

    @classmethod
    def from_endpoint(cls, endpoint: Endpoint) -> Self:
        """Use the API that `joblane.client.profiles.find_endpoint` has found."""
        return cls(endpoint.url, endpoint.credential, endpoint.certificate)

    @property
    def url(self) -> str:
        """Base URL of the API."""
        return self._connection.url

    @property
    def groups(self) -> Groups[J, C]:
        """The calls that concern groups: arrays, and jobs that became one job for each agent."""
        return Groups(self._connection, self._handle, self._policy)

    @property
    def schedules(self) -> Schedules[C]:
        """The calls that concern schedules: what starts by itself, when, and its results."""
        return Schedules(self._connection)

    @property
    def files(self) -> Files[C]:
        """The calls that upload input files."""
        return Files(self._connection)


class Client(BaseClient[JobRef, Connection]):
    """A client of the API at `url`, such as `https://abc.execute-api.eu-west-1.amazonaws.com`.

    `token` is a bearer token or a source of tokens. Raises `ConfigError` when the URL, the token
    or the certificate is invalid. Threads may share a client, but not one handle of a job.
    """

    _connect: Connect[Connection] = Connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that are kept open."""
        self._connection.close()

    def _handle(self, data: JobJson, handler: JobType[Any, Any] | None = None) -> JobRef:
        made: type[JobRef[Any]] = ArrayRef if is_array(data) else JobRef
        return made(self, data, handler)

    @overload
    def submit(
        self, command: JobType[P, R], params: P | None = None, **options: Unpack[ArrayOptions]
    ) -> ArrayRef[R]: ...
    @overload
    def submit(
        self,
        command: Command | str,
        params: Mapping[str, Any] | None = None,
        **options: Unpack[ArrayOptions],
    ) -> ArrayRef[Any]: ...
    @overload
    def submit(self, command: Command, **options: Unpack[SubmitOptions]) -> JobRef: ...
    @overload
    def submit(
        self, command: str, params: Mapping[str, Any], **options: Unpack[SubmitOptions]
    ) -> JobRef: ...
    @overload
    def submit(
        self, command: JobType[P, R], params: P, **options: Unpack[SingleOptions]
    ) -> JobRef[R]: ...
    def submit(
        self,
        command: Command | str | JobType[Any, Any],
        params: Any = None,
        *,
        idempotency_key: str | None = None,
        **fields: Unpack[SubmissionFields],
    ) -> JobRef[Any]:
        """Submit a command, or a job of a type, its handler or its name, with its params.

        The API sets the default of each field that is None or missing.
        `run_at` and `deadline` are datetimes with a time zone, or RFC 3339 in UTC; durations are
        seconds or a timedelta; `secret_env` names secrets, such as `ssm:/joblane/main/db`, whose
        values the agent reads when the job starts. Raises `RequestError` with one entry in
        `fields` for each field, and each param of a type, that the API refused.

        `inputs` are files and directories here, or (path here, path of the job): they are uploaded
        unless they are there, and placed in the work directory. `outputs` are globs of files to
        collect, such as `out/**`, for `job.download(to)`. `stdin` is text, bytes, the path of a
        file or an open file, which is read to its end. Raises `FileError`, before anything is
        submitted, for a file that cannot be read or that changes meanwhile; below a directory,
        links that lead to no file of it and special files are left out, each with a warning.

        `wait()` of a handler's job returns its result. By its name a type needs no handler here:
        params are a mapping, and the result of a completed job is `job.data.result`.

        With `array` it makes a group of jobs, and returns an `ArrayRef`: `results()` has what
        became of each. With `values` those of a type are its params, and `params` are left out.

        If the key of a job, by its type or its `concurrency`, is full, raises `KeyFullError`, or
        returns an earlier job or one that replaced another: see `job.admission`. `job.warning` says
        why no live agent can serve it now; it waits then.

        The job belongs to the caller's trace: to the current span if the program uses
        OpenTelemetry, else to the variables TRACEPARENT and TRACESTATE if they are set.

        Sent once: after `UnreachableError` or `ServerError` look at `list()` before submitting
        again. With an `idempotency_key` (one for each job, such as a UUID; it costs one write
        unit) it is sent until it is answered, and creates one job.
        """
        return self._submit(command, params, idempotency_key, fields)

    @overload
    def map(
        self, command: JobType[P, R], values: Iterable[P], /, **options: Unpack[MapOptions]
    ) -> Iterator[Mapped[P, JobRef[R], R]]: ...
    @overload
    def map(
        self,
        command: Command | Callable[[V], Made],
        values: Iterable[V],
        /,
        **options: Unpack[MapOptions],
    ) -> Iterator[Mapped[V, JobRef, JobRef]]: ...
    def map(
        self,
        command: object,
        values: Iterable[Any],
        /,
        *,
        as_completed: bool = False,
        window: int = WINDOW,
        idempotency_key: str | None = None,
        policy: FollowPolicy | None = None,
        **fields: Unpack[SubmissionFields],
    ) -> Iterator[Mapped[Any, Any, Any]]:
        """Submit a job for each value, wait for all, and yield what became of each.

        `command` is a list in which `{}` stands for the value; or a function that makes a command
        or a `Submission` of the value, in which `fields` are the defaults; or a handler, whose
        params are the values. Results come in the order of the values, or with `as_completed` as
        jobs end. Nothing is sent before the first is asked for. A job that is refused, fails or is
        deleted is a `Mapped` with an `error`, and does not affect the others.

        Params of a handler in a list or tuple, at most 10,000, become an array, one request and
        one group, unless `idempotency_key`, `target` or `concurrency` is given, or the API refuses
        it, as of a type with a key. At most `window` of its jobs run at once; a `job` has what its
        group shows, and `job.refresh()` reads the rest. Else each value is a job of its own.

        At most `window` values are held at once, those whose results wait for an earlier one
        included, so `values` may be endless. A request submits up to 100 jobs, and is repeated
        until it is answered, without a second job; with an `idempotency_key` so does another run
        with the same key, values and window, and gets the jobs of the first. Jobs continue if the
        program stops iterating. Raises `FollowError` when the API does not answer for
        `policy.give_up_s`, and what `values` or the function raise.
        """
        return self._map(command, values, as_completed, window, idempotency_key, policy, fields)


class AsyncClient(BaseClient[AsyncJobRef, AsyncConnection]):
    """A client of the API for asyncio: the methods of `Client`, to be awaited.

    Methods that yield (`list`, `logs`, `map`, `follow`, `requeue`, `restart_failed`) are used with
    `async for`. Tasks may share a client. A cancelled call sends nothing more; the API may have
    acted on a request that was already sent, as with `UnreachableError`.
    """

    _connect: Connect[AsyncConnection] = AsyncConnection

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections that are kept open."""
        await self._connection.close()

    def _handle(self, data: JobJson, handler: JobType[Any, Any] | None = None) -> AsyncJobRef:
        made: type[AsyncJobRef[Any]] = AsyncArrayRef if is_array(data) else AsyncJobRef
        return made(self, data, handler)

    @overload
    async def submit(
        self, command: JobType[P, R], params: P | None = None, **options: Unpack[ArrayOptions]
    ) -> AsyncArrayRef[R]: ...
    @overload
    async def submit(
        self,
        command: Command | str,
        params: Mapping[str, Any] | None = None,
        **options: Unpack[ArrayOptions],
    ) -> AsyncArrayRef[Any]: ...
    @overload
    async def submit(self, command: Command, **options: Unpack[SubmitOptions]) -> AsyncJobRef: ...
    @overload
    async def submit(
        self, command: str, params: Mapping[str, Any], **options: Unpack[SubmitOptions]
    ) -> AsyncJobRef: ...
    @overload
    async def submit(
        self, command: JobType[P, R], params: P, **options: Unpack[SingleOptions]
    ) -> AsyncJobRef[R]: ...
    async def submit(
        self,
        command: Command | str | JobType[Any, Any],
        params: Any = None,
        *,
        idempotency_key: str | None = None,
        **fields: Unpack[SubmissionFields],
    ) -> AsyncJobRef[Any]:
        """Submit a command, or a job of a type with its params; see `Client.submit`."""
        return await self._submit(command, params, idempotency_key, fields)

    @overload
    def map(
        self, command: JobType[P, R], values: Iterable[P], /, **options: Unpack[MapOptions]
    ) -> AsyncGenerator[Mapped[P, AsyncJobRef[R], R], None]: ...
    @overload
    def map(
        self,
        command: Command | Callable[[V], Made],
        values: Iterable[V],
        /,
        **options: Unpack[MapOptions],
    ) -> AsyncGenerator[Mapped[V, AsyncJobRef, AsyncJobRef], None]: ...
    def map(
        self,
        command: object,
        values: Iterable[Any],
        /,
        *,
        as_completed: bool = False,
        window: int = WINDOW,
        idempotency_key: str | None = None,
        policy: FollowPolicy | None = None,
        **fields: Unpack[SubmissionFields],
    ) -> AsyncGenerator[Mapped[Any, Any, Any], None]:
        """Submit a job for each value, wait for all, and yield what became of each.

        See `Client.map`; `values` and the function are called in the event loop.
        """
        return self._map(command, values, as_completed, window, idempotency_key, policy, fields)
