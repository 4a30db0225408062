"""A state service as a process: with its supervisor, or alone with raw connections."""

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from ec2_agent.state.files import StateFiles
from ec2_agent.state.records import StateRecord
from ec2_agent.state.settings import StateSettings
from ec2_agent.state.supervisor import StateLocation, StateSupervisor


@asynccontextmanager
async def service(files: StateFiles, **settings: Any) -> AsyncIterator[StateSupervisor]:
    """A service with its supervisor, as under an agent."""
    quick = {"reconnect": 0.2, "start_interval": 0.2, **settings}
    supervisor = StateSupervisor(
        StateLocation(files, "agent-1", "table"), StateSettings.model_validate(quick)
    )
    await supervisor.start()
    keeping = asyncio.create_task(supervisor.supervise())
    try:
        yield supervisor
    finally:
        keeping.cancel()
        await supervisor.stop()


@contextmanager
def process(files: StateFiles) -> Iterator[socket.socket]:
    """A service without a supervisor, and one raw connection to it."""
    command = [sys.executable, "-m", "ec2_agent.state", "--backend", "local"]
    with (
        files.log.open("ab") as words,
        subprocess.Popen(
            [*command, "--directory", str(files.directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
        ) as running,
    ):
        assert running.stdout is not None
        assert b"ready\n" == running.stdout.readline()
        with connected(files) as connection:
            yield connection
        assert running.poll() is None, "the service ended"
        assert running.stdin is not None
        running.stdin.close()
        assert 0 == running.wait(timeout=10)


@contextmanager
def connected(files: StateFiles) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(str(files.socket))
        yield connection


def answer(connection: socket.socket) -> dict[str, Any]:
    """One line, decoded; nothing at the end of the connection."""
    line = b""
    while not line.endswith(b"\n"):
        data = connection.recv(1)
        if not data:
            return {}
        line += data
    decoded: dict[str, Any] = json.loads(line)
    return decoded


def record(id_: str, version: int = 1, body: str = "x") -> StateRecord:
    return StateRecord("outcome", id_, version, body)


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for something that another process brings about."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await test()

    asyncio.run(main())
