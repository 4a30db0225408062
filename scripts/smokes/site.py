"""The deployment that the smoke test works with: in an AWS account, or on the local AWS."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from joblane import Client
from joblane.client.refs import JobRef
from joblane.contract.access import AnyRole
from joblane.deployment.names import PLATFORM

POLL_S = 0.2
TOKEN_S = 1800
"""How long a token is used; it lasts for an hour."""

LABEL = "smoke"
"""Key and value of the label that the agents of the smoke test have."""


@dataclass(frozen=True)
class Load:
    """Jobs a second, and for how many seconds."""

    rate: int
    seconds: int


class Site(ABC):
    """A deployment with a machine for each role, and two agents on the default queue."""

    local: bool
    name: str
    tenant: str
    account: str
    region: str
    url: str
    """Of the API, without a slash at its end."""
    load: Load
    patience_s: float
    """How long a job may take to start and end that does nothing."""

    def __init__(self) -> None:
        self.tokens: dict[AnyRole, tuple[str, float]] = {}
        """By role, with the time at which each was fetched."""

    @abstractmethod
    def check(self) -> str | None:
        """Raise Failure when this is no place for a deployment."""

    @abstractmethod
    def deploy(self) -> str | None:
        """Deploy, and return when both agents are there."""

    @abstractmethod
    def remove(self) -> str | None:
        """Remove everything that any step has left; raise Failure when something stays."""

    @abstractmethod
    def aws(self, service: str) -> Any:
        """Return a client with the permissions of whoever runs this."""

    @abstractmethod
    def new_token(self, role: AnyRole) -> str:
        """Return a token of the machine with a role."""

    @abstractmethod
    def end_instance(self, agent: str) -> None:
        """Terminate the instance of an agent, without notice."""

    @abstractmethod
    def upgrade(self, agent: str) -> None:
        """Bring a new release to an agent, and return when it runs that."""

    @abstractmethod
    def refusals(self) -> list[str]:
        """Return what AWS has refused to the deployment's roles, as far as it is known now."""

    def token(self, role: AnyRole = "developer") -> str:
        """Return a token that was fetched less than half of its life ago."""
        known = self.tokens.get(role)
        if known is None or time.monotonic() - known[1] > TOKEN_S:
            known = self.tokens[role] = self.new_token(role), time.monotonic()
        return known[0]

    @contextmanager
    def client(self, role: AnyRole = "developer") -> Iterator[Client]:
        """Use the SDK as the machine with a role."""
        with Client(self.url, self.token(role)) as client:
            yield client

    @contextmanager
    def http(self, role: AnyRole | None = "developer") -> Iterator[httpx.Client]:
        """Use the API as any HTTP client; None: without a token."""
        headers = {"Authorization": f"Bearer {self.token(role)}"} if role else {}
        with httpx.Client(base_url=self.url, headers=headers, timeout=35) as client:
            yield client

    def agents(self) -> dict[str, dict[str, Any]]:
        """Return the living agents by name."""
        with self.client(PLATFORM) as client:
            rows = client.agents().model_dump()["entries"]
        return {row["name"]: row for row in rows if row["alive"]}


def wait_until(what: str, holds: Callable[[], bool], timeout_s: float) -> None:
    """Return when a condition holds. Raises TimeoutError with what was waited for."""
    ends = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > ends:
            raise TimeoutError(f"not within {timeout_s:.0f} s: {what}")
        time.sleep(POLL_S)


def wait_for(job: JobRef, *states: str, timeout_s: float) -> JobRef:
    """Return a job when it is in one of these states."""

    def there() -> bool:
        return job.refresh().state in states

    try:
        wait_until(f"job {job.id} is {' or '.join(states)}", there, timeout_s)
    except TimeoutError as error:
        raise TimeoutError(f"{error}; it is {job.state}: {job.reason}") from None
    return job
