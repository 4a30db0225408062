"""The SDK: `Client` and `AsyncClient`, and their handles of a job.

    with Client(url, token) as client:
        job = client.submit(["make", "test"], timeout_s=300)
        for record in job.logs(follow=True):
            print(record.text, end="")
        print(job.wait().exit_code)

With `AsyncClient`, the same with `async with`, `await` and `async for`. Each method raises a
`joblane.JoblaneError`; reads have been retried before.
"""

from collections.abc import AsyncGenerator, Iterator
from typing import Generic, Self, TypeVar

from joblane.client.answers import JobJson, LogRecord
from joblane.client.connection import AsyncConnection, Connection
from joblane.client.credentials import Credential, StaticToken
from joblane.client.deployment_calls import DeploymentCalls
from joblane.client.job_calls import JobCalls
from joblane.client.profiles import Endpoint, find_endpoint
from joblane.client.transport import Certificate
from joblane.job.lifecycle import ENDED

J = TypeVar("J")
C = TypeVar("C", Connection, AsyncConnection)
K = TypeVar("K")


class BaseClient(JobCalls[J], DeploymentCalls, Generic[J, C]):
    """The calls of the API; J is the client's type of a job, C the connection that runs them."""

    _connect: type[C]

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


class JobValues(Generic[K]):
    """A job as it was when it was last read."""

    def __init__(self, client: K, data: JobJson) -> None:
        self._client = client
        self.data = data
        """The API's answer, unknown fields included."""

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


class JobRef(JobValues["Client"]):
    """A job as it was when it was last read, with the calls that concern it."""

    def refresh(self) -> Self:
        """Read the job again. Returns itself."""
        self.data = self._client.get(self.id).data
        return self

    def wait(self, timeout_s: float | None = None) -> Self:
        """Wait until the job has ended, see `Client.wait`. Returns itself."""
        self.data = self._client.wait(self.id, timeout_s).data
        return self

    def logs(self, *, follow: bool = False, tail: int | None = None) -> Iterator[LogRecord]:
        """Yield the records of the job's output, see `Client.logs`."""
        return self._client.logs(self.id, follow=follow, tail=tail)


class Client(BaseClient[JobRef, Connection]):
    """A client of the API at `url`, such as `https://abc.execute-api.eu-west-1.amazonaws.com`.

    `token` is a bearer token or a source of tokens. Raises `ConfigError` when the URL, the token
    or the certificate is invalid. Not safe for several threads at once.
    """

    _connect = Connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that are kept open."""
        self._connection.close()

    def _handle(self, data: JobJson) -> JobRef:
        return JobRef(self, data)


class AsyncJobRef(JobValues["AsyncClient"]):
    """A job as it was when it was last read, with the calls that concern it."""

    async def refresh(self) -> Self:
        """Read the job again. Returns itself."""
        self.data = (await self._client.get(self.id)).data
        return self

    async def wait(self, timeout_s: float | None = None) -> Self:
        """Wait until the job has ended, see `Client.wait`. Returns itself."""
        self.data = (await self._client.wait(self.id, timeout_s)).data
        return self

    def logs(
        self, *, follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[LogRecord, None]:
        """Yield the records of the job's output, see `Client.logs`."""
        return self._client.logs(self.id, follow=follow, tail=tail)


class AsyncClient(BaseClient[AsyncJobRef, AsyncConnection]):
    """A client of the API for asyncio: the methods of `Client`, to be awaited.

    Methods that yield (`list`, `logs`, `follow`, `requeue`, `restart_failed`) are used with
    `async for`. Tasks may share a client. A cancelled call sends nothing more; the API may have
    acted on a request that was already sent, as with `UnreachableError`.
    """

    _connect = AsyncConnection

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections that are kept open."""
        await self._connection.close()

    def _handle(self, data: JobJson) -> AsyncJobRef:
        return AsyncJobRef(self, data)
