"""A server in this loop that answers HTTP requests as a script says, byte for byte."""

import asyncio
import json
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from socket import SO_LINGER, SOL_SOCKET
from typing import Any


class Then(Enum):
    """What a server does with a connection in place of a next answer."""

    CLOSE = "closes it"
    RESET = "resets it"
    HANG = "says nothing more"


@dataclass(frozen=True)
class Asked:
    """A request that came."""

    line: str
    headers: dict[str, str]
    """By name in lower case."""
    body: bytes
    connection: int
    """Number of its connection, from 1."""

    @property
    def operation(self) -> str:
        """What is called, without the service's name."""
        return self.headers["x-amz-target"].rpartition(".")[2]

    @property
    def json(self) -> Any:
        """Content of the body."""
        return json.loads(self.body)


Part = bytes | Then
Script = Callable[[Asked], list[Part]]
"""Gives what follows a request: bytes, each sent by itself, and what is done then."""


def answer(body: object = None, status: str = "200 OK", **headers: str) -> bytes:
    """An answer; headers replace those that AWS sends, and an empty one leaves its own out."""
    content = body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()
    given = {
        "content-type": "application/x-amz-json-1.0",
        "content-length": str(len(content)),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items() if value)
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode("latin-1") + content


@dataclass
class Server:
    """See the module."""

    script: Script
    port: int = 0
    came: list[Asked] = field(default_factory=list)
    opened: int = 0
    """Connections so far."""
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def wait_asked(self, requests: int) -> None:
        """Wait until so many requests came."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.came) >= requests)

    async def all_closed(self, but: int = 0) -> None:
        """Wait until no more connections are open than that."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._open) <= but)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.opened += 1
        number = self.opened
        self._open.add(writer)
        try:
            while await self._answer(number, reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the other side, or the test, has ended
        finally:
            writer.close()
            self._open.discard(writer)
            await self._tell()

    async def _answer(
        self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *lines = head[:-4].split("\r\n")
        headers = {
            name.lower(): value for name, _, value in (each.partition(": ") for each in lines)
        }
        body = await reader.readexactly(int(headers["content-length"]))
        self.came.append(Asked(line, headers, body, number))
        await self._tell()
        for part in self.script(self.came[-1]):
            match part:
                case bytes():
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(0)
                case Then.CLOSE:
                    return False
                case Then.RESET:
                    linger = struct.pack("ii", 1, 0)
                    writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, linger)
                    writer.transport.abort()
                    return False
                case Then.HANG:
                    await reader.read()
                    return False
        return True

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


@asynccontextmanager
async def serving(script: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """Serve on a port of this host."""
    server = Server(script)
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(server.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listening = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
