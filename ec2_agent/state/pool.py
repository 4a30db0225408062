"""Connection pool for the state service, for one event loop."""

import asyncio
import errno
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from ec2_agent.processes import is_ours
from ec2_agent.state.protocol import frame
from ec2_agent.state.settings import StateSettings


class NotReached(Exception):
    """The service did not answer; whether it carried out the request is unknown."""


class NoDescriptor(NotReached):
    """This process has no descriptor to connect with; the service may be healthy."""


@dataclass(slots=True)
class Stats:
    """Counters of a pool."""

    pool_size: int
    """Maximum number of connections."""
    active: int = 0
    """In use now."""
    available: int = 0
    """Open and idle now."""
    acquisitions: int = 0
    """Connections lent."""
    creations: int = 0
    """Connections opened."""
    errors: int = 0
    """Connections that could not be opened or broke, timeouts not included."""
    timeouts: int = 0
    """Connections that could not be opened, or did not answer, in time."""
    health_checks: int = 0
    """Idle connections that were tested before use."""


class StateConnection(asyncio.Protocol):
    """One connection; requests may overlap, and are matched to responses by their ids."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._unread = bytearray()
        self._ids = count(1)
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - what asyncio promises
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._unread += data
        while (end := self._unread.find(b"\n")) >= 0:
            line = bytes(self._unread[:end])
            del self._unread[: end + 1]
            try:
                answer = json.loads(line)
                future = self._asked.get(answer["id"])
            except (ValueError, KeyError, TypeError):
                self.close()  # not the state service
                return
            if future is not None and not future.done():
                future.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._transport = None
        for future in self._asked.values():
            if not future.done():
                future.set_exception(NotReached(f"the connection was lost: {exc or 'closed'}"))

    @property
    def open(self) -> bool:
        """Whether it can be used."""
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, op: str, fields: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send a request and return its answer. Raises NotReached or TimeoutError."""
        transport = self._transport
        if transport is None or transport.is_closing():
            raise NotReached("the connection was lost")
        number = next(self._ids)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._asked[number] = future
        transport.write(frame({"id": number, "op": op, **fields}))
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        finally:
            del self._asked[number]

    def close(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()


async def dial(path: Path, timeout_s: float) -> StateConnection:
    """Connect, and check that this user's process answers. Raises NotReached or TimeoutError."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            transport, connection = await loop.create_unix_connection(StateConnection, str(path))
    except TimeoutError:
        raise
    except OSError as error:
        ours = error.errno in (errno.EMFILE, errno.ENFILE)
        raise (NoDescriptor if ours else NotReached)(f"{path}: {error}") from None
    if not is_ours(transport.get_extra_info("socket")):
        connection.close()
        raise NotReached(f"{path} belongs to another user's process")
    return connection


def _now() -> float:
    return asyncio.get_running_loop().time()


class Pool:
    """Up to `pool_size` connections, opened when needed."""

    def __init__(self, path: Path, settings: StateSettings) -> None:
        self._path = path
        self._settings = settings
        self._permits = asyncio.Semaphore(settings.pool_size)
        self._idle: list[StateConnection] = []
        self._active: set[StateConnection] = set()
        self._stats = Stats(settings.pool_size)

    async def ask(self, op: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Send one request over one connection. Raises NotReached or TimeoutError."""
        async with self.connection() as connection:
            return await connection.ask(op, fields, self._settings.read_timeout)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[StateConnection]:
        """Lend a connection; it is closed if the caller fails."""
        async with self._permits:
            try:
                connection = await self._take()
                self._stats.acquisitions += 1
                self._active.add(connection)
                try:
                    yield connection
                except BaseException:
                    # A late response must not reach the next request.
                    connection.close()
                    raise
                finally:
                    self._active.discard(connection)
                    self._give_back(connection)
            except TimeoutError:
                self._stats.timeouts += 1
                raise
            except NotReached:
                self._stats.errors += 1
                raise

    async def _take(self) -> StateConnection:
        while self._idle:
            connection = self._idle.pop()
            if await self._still_good(connection):
                return connection
        connection = await dial(self._path, self._settings.dial_timeout)
        self._stats.creations += 1
        return connection

    async def _still_good(self, connection: StateConnection) -> bool:
        if not connection.open:
            return False
        if _now() - connection.idle_since < self._settings.idle_after:
            return True
        self._stats.health_checks += 1
        try:
            await connection.ask("health", {}, self._settings.idle_timeout)
        except (NotReached, TimeoutError):
            connection.close()
            return False
        return True

    def _give_back(self, connection: StateConnection) -> None:
        if connection.open:
            connection.idle_since = _now()
            self._idle.append(connection)

    def stats(self) -> Stats:
        """Return the counters."""
        return replace(
            self._stats,
            active=len(self._active),
            available=sum(connection.open for connection in self._idle),
        )

    def close_spare(self) -> None:
        """Close idle connections except the one used last."""
        while len(self._idle) > 1:
            self._idle.pop(0).close()

    def close(self) -> None:
        """Close every connection, in use or not."""
        for connection in (*self._idle, *self._active):
            connection.close()
        self._idle.clear()
