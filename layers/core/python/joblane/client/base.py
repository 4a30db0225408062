"""What `Client` and `AsyncClient` have in common: the calls, and the values of a job."""

from typing import Generic, Self, TypeVar

from joblane.client.answers import JobJson
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
