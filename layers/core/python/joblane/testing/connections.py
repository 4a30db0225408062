"""The SDK over a deployment in memory: a pause of a call lets its time pass."""

from collections.abc import Callable

from joblane.client.clients import AsyncClient, Client
from joblane.client.connection import AsyncConnection, Connection
from joblane.client.credentials import StaticToken
from joblane.testing.api import URL, Api, AsyncTransport, Transport

Pause = Callable[[float], None]
"""Lets seconds pass."""


class MemoryConnection(Connection):
    """The connection of a `Client`."""

    def __init__(self, api: Api, client_id: str, pause: Pause) -> None:
        super().__init__(URL, StaticToken(client_id), over=Transport(api, client_id))
        self._pause = pause

    def sleep(self, seconds: float) -> None:
        """Let time pass in the deployment."""
        self._pause(seconds)


class AsyncMemoryConnection(AsyncConnection):
    """The connection of an `AsyncClient`."""

    def __init__(self, api: Api, client_id: str, pause: Pause) -> None:
        super().__init__(URL, StaticToken(client_id), over=AsyncTransport(api, client_id))
        self._pause = pause

    async def sleep(self, seconds: float) -> None:
        """Let time pass in the deployment."""
        self._pause(seconds)


class MemoryClient(Client):
    """A `Client` that waits by a clock of the deployment."""

    def __init__(self, connection: MemoryConnection, clock: Callable[[], float]) -> None:
        self._connect = lambda *_: connection
        super().__init__(URL)
        self._clock = clock


class AsyncMemoryClient(AsyncClient):
    """An `AsyncClient` that waits by a clock of the deployment."""

    def __init__(self, connection: AsyncMemoryConnection, clock: Callable[[], float]) -> None:
        self._connect = lambda *_: connection
        super().__init__(URL)
        self._clock = clock
