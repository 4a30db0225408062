"""The state service as a process: what it survives, whom it refuses, what it says."""

import asyncio
import json
import os
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ec2_agent.state import protocol
from ec2_agent.state.client import StateClient, StateRefused
from ec2_agent.state.files import Files
from ec2_agent.state.keeper import Keeper, Place, StateUnavailable
from ec2_agent.state.protocol import MAX_FRAME
from ec2_agent.state.records import BATCH, MAX_BODY, Record, Result
from ec2_agent.state.settings import StateSettings


@pytest.fixture(name="files")
def _files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("s"))


@asynccontextmanager
async def service(files: Files, **settings: Any) -> AsyncIterator[Keeper]:
    """A service with its keeper, as under an agent."""
    quick = {"reconnect": 0.2, "start_interval": 0.2, **settings}
    keeper = Keeper(Place(files, "agent-1", "table"), StateSettings.model_validate(quick))
    await keeper.start()
    keeping = asyncio.create_task(keeper.keep())
    try:
        yield keeper
    finally:
        keeping.cancel()
        await keeper.stop()


@contextmanager
def process(files: Files) -> Iterator[socket.socket]:
    """A service without a keeper, and one raw connection to it."""
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
        assert running.poll() is None, "the service died"
        assert running.stdin is not None
        running.stdin.close()
        assert 0 == running.wait(timeout=10)


@contextmanager
def connected(files: Files) -> Iterator[socket.socket]:
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


def record(id_: str, version: int = 1, body: str = "x") -> Record:
    return Record("outcome", id_, version, body)


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


def test_an_acknowledged_write_survives_a_kill_and_the_agent_gets_its_service_back(files: Files):
    async def test() -> None:
        async with service(files) as keeper:
            stored: list[str] = []

            async def write(name: str) -> None:
                for n in range(60):
                    assert [Result.DONE] == await keeper.client.create([record(f"{name}{n:02d}")])
                    stored.append(f"{name}{n:02d}")

            async def kill() -> None:
                for enough in (20, 60, 100):
                    await until(lambda enough=enough: len(stored) >= enough)  # type: ignore[misc]
                    victim = keeper.pid
                    assert victim is not None
                    os.kill(victim, signal.SIGKILL)
                    await until(lambda victim=victim: keeper.pid != victim)  # type: ignore[misc]

            await asyncio.gather(write("a"), write("b"), kill())
            found = {r.id async for r in keeper.client.list_all("outcome")}
            assert 120 == len(stored)
            assert set(stored) == found
            await until(lambda: keeper.trouble is None)

    run(test)


def test_a_service_without_memory_is_told_again(files: Files):
    async def test() -> None:
        async with service(files, backend="memory") as keeper:
            known = [record("a", version=3), record("b")]
            keeper.client.resync_from(lambda: known)
            await keeper.client.create(known)
            assert keeper.pid is not None
            victim = keeper.pid
            os.kill(victim, signal.SIGKILL)
            await until(lambda: keeper.pid != victim and keeper.trouble is None)
            assert known == await keeper.client.get("outcome", ["a", "b"])

    run(test)


def test_a_service_that_hangs_is_reported_killed_and_replaced(files: Files):
    async def test() -> None:
        async with service(files, read_timeout=0.2) as keeper:
            await keeper.client.create([record("a")])
            victim = keeper.pid
            assert victim is not None
            os.kill(victim, signal.SIGSTOP)
            await until(lambda: keeper.trouble is not None)
            assert "does not answer" in (keeper.trouble or "")
            await until(lambda: keeper.pid != victim and keeper.trouble is None)
            assert [record("a")] == await keeper.client.get("outcome", ["a"])

    run(test)


def test_it_ends_with_the_agent_however_that_ends(files: Files):
    code = """
import asyncio, sys
from pathlib import Path
from ec2_agent.state.files import Files
from ec2_agent.state.keeper import Keeper, Place
from ec2_agent.state.settings import StateSettings

async def main():
    keeper = Keeper(Place(Files(Path(sys.argv[1])), "a", "t"), StateSettings())
    await keeper.start()
    print(keeper.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""
    command = [sys.executable, "-c", code, str(files.directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as agent:
        assert agent.stdout is not None
        pid = int(agent.stdout.readline())
        agent.kill()
    run(lambda: until(lambda: not Path(f"/proc/{pid}").exists() or is_zombie(pid)))
    run(lambda: until(lambda: not files.socket.exists()))
    assert "ended with the agent" in files.log.read_text()


def is_zombie(pid: int) -> bool:
    return " Z " in Path(f"/proc/{pid}/stat").read_text()


def test_files_are_the_agents_own(files: Files):
    with process(files) as connection:
        for path in (files.socket, files.lock):
            assert 0o600 == stat.S_IMODE(path.stat().st_mode)
        assert (os.geteuid(), True) == (
            protocol.peer_of(connection)[1],
            protocol.is_ours(connection),
        )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user for a moment")
def test_a_process_of_another_user_gets_no_word(files: Files):
    with process(files) as ours:
        files.socket.chmod(0o666)  # what the mode keeps out, credentials must keep out as well
        for parent in (files.directory, *files.directory.parents[:3]):
            parent.chmod(parent.stat().st_mode | 0o011)
        stranger = f"""
import os, socket
os.setuid(65534)
s = socket.socket(socket.AF_UNIX)
s.connect({str(files.socket)!r})
try:
    s.sendall(b'{{"id": 1, "op": "health"}}\\n')
    print(s.recv(100))
except (BrokenPipeError, ConnectionResetError):
    print(b"")
"""
        said = subprocess.run(
            [sys.executable, "-c", stranger], capture_output=True, text=True, check=True
        )
        assert "b''" == said.stdout.strip()
        ours.sendall(b'{"id": 1, "op": "health"}\n')
        assert "ok" == answer(ours)["status"]
    assert "a connection of user 65534 was refused" in files.log.read_text()


def test_the_client_says_nothing_to_another_users_service(files: Files, monkeypatch: Any):
    monkeypatch.setattr("os.geteuid", lambda: 12345)

    async def test() -> None:
        client = StateClient(files.socket, StateSettings(retries=0))
        with pytest.raises(Exception, match="belongs to another user"):
            await client.health()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(files.socket))
        listener.listen()
        run(test)
        listener.settimeout(5)
        accepted, _ = listener.accept()
        with accepted:
            assert b"" == accepted.recv(100)


BAD = [
    (b"}{", None, "bad_request", "not JSON"),
    (b"\xff\xfe", None, "bad_request", "not JSON"),
    (b"[" * 100_000, None, "bad_request", "not JSON"),
    (b"[]", None, "bad_request", "must be an object"),
    (b"{}", None, "bad_request", "id must be a whole number"),
    (b'{"id": true, "op": "health"}', None, "bad_request", "id must be"),
    (b'{"id": 1}', 1, "bad_request", "op must be one of create, update, delete, sync, get"),
    (b'{"id": 1, "op": "drop"}', 1, "bad_request", "op must be one of"),
    (b'{"id": 1, "op": ["get"]}', 1, "bad_request", "op must be one of"),
    (b'{"id": 1, "op": "health", "x\\ud800": 1}', 1, "bad_request", "has no field 'x\\ud800'"),
    (b'{"id": 1, "op": "get", "kind": "k"}', 1, "bad_request", "ids must be a list"),
    (b'{"id": 1, "op": "get", "kind": "k", "ids": [7]}', 1, "bad_request", "ids must be 1 to 200"),
    (b'{"id": 1, "op": "list", "kind": "k", "limit": 26}', 1, "bad_request", "limit must be"),
    (b'{"id": 1, "op": "create", "records": [{}]}', 1, "bad_request", "kind must be"),
    (
        b'{"id": 1, "op": "create", "records": [{"kind": "k", "id": "i", "version": 1}]}',
        1,
        "bad_request",
        "create needs a body",
    ),
    (
        b'{"id": 1, "op": "sync", "records": [{"kind":"k","id":"i","version":1,"body":"\\ud800"}]}',
        1,
        "bad_request",
        "half of a surrogate",
    ),
]


@pytest.mark.parametrize(("line", "request_id", "code", "words"), BAD)
def test_a_bad_frame_is_answered_and_the_next_one_served(
    files: Files, line: bytes, request_id: int | None, code: str, words: str
):
    with process(files) as connection:
        connection.sendall(line + b"\n" + b'{"id": 2, "op": "health"}\n')
        said = answer(connection)
        assert (request_id, code) == (said["id"], said["error"]["code"])
        assert words in said["error"]["message"]
        assert 2 == answer(connection)["id"]


def test_what_is_too_large_is_refused(files: Files):
    with process(files) as connection:
        big = {"kind": "k", "id": "i", "version": 1, "body": "x" * (MAX_BODY + 1)}
        connection.sendall(protocol.frame({"id": 1, "op": "create", "records": [big]}))
        assert "too_large" == answer(connection)["error"]["code"]
        many = [{"kind": "k", "id": str(n), "version": 1, "body": "x"} for n in range(BATCH + 1)]
        connection.sendall(protocol.frame({"id": 2, "op": "create", "records": many}))
        assert "too_large" == answer(connection)["error"]["code"]
        with connected(files) as endless:
            endless.sendall(b"x" * (MAX_FRAME + 1))
            assert "too_large" == answer(endless)["error"]["code"]
            assert {} == answer(endless)


def test_half_a_frame_is_waited_for_and_forgotten_when_its_writer_goes(files: Files):
    with process(files) as connection:
        whole = b'{"id": 1, "op": "health"}\n'
        connection.sendall(whole[:9])
        with connected(files) as other:
            other.sendall(whole[:-4])
        connection.sendall(whole[9:])
        assert "ok" == answer(connection)["status"]


def test_requests_of_one_connection_may_overlap(files: Files):
    with process(files) as connection:
        asked = b"".join(
            protocol.frame({"id": n, "op": "list", "kind": "k"}) for n in range(200)
        ) + protocol.frame({"id": 200, "op": "health"})
        connection.sendall(asked)
        assert set(range(201)) == {answer(connection)["id"] for _ in range(201)}


def test_a_crowd_of_connections_is_turned_away_and_the_service_stays(files: Files):
    with process(files) as connection:
        crowd = [socket.socket(socket.AF_UNIX) for _ in range(100)]
        for one in crowd:
            one.settimeout(10)
            one.connect(str(files.socket))
        for one in crowd:
            one.close()
        connection.sendall(b'{"id": 1, "op": "health"}\n')
        assert "ok" == answer(connection)["status"]


def test_a_disk_that_takes_nothing_is_a_defined_error_and_trouble_until_it_does(files: Files):
    async def test() -> None:
        async with service(files) as keeper:
            client = keeper.client
            await client.create([record("before")])
            assert keeper.pid is not None
            size = files.database.with_name("state.db-wal").stat().st_size
            was = resource.prlimit(keeper.pid, resource.RLIMIT_FSIZE, (size, -1))
            with pytest.raises(StateRefused) as caught:
                await client.create([record("during", body="x" * 50_000)])
            assert caught.value.code in ("storage_full", "storage_failed")
            await until(lambda: keeper.trouble is not None)
            assert "storage_" in (keeper.trouble or "")
            assert [record("before")] == await client.get("outcome", ["before", "during"])
            resource.prlimit(keeper.pid, resource.RLIMIT_FSIZE, was)
            await until(lambda: keeper.trouble is None)
            assert [Result.DONE] == await client.create([record("after", body="x" * 50_000)])

    run(test)


def test_two_services_do_not_share_a_directory_and_the_second_agent_says_why(files: Files):
    async def test() -> None:
        async with service(files):
            with pytest.raises(
                StateUnavailable, match=r"another state service holds .*state\.lock"
            ):
                async with service(files, start_tries=2):
                    pass

    # The second keeper reaches the first one's socket: only the lock tells them apart.
    run(test)


def test_a_service_that_cannot_have_its_files_keeps_the_agent_from_starting(files: Files):
    files.database.write_bytes(b"somebody else's file, surely" * 100)

    async def test() -> None:
        async with service(files):
            pass

    with pytest.raises(StateUnavailable) as caught:
        run(test)
    said = str(caught.value)
    assert "is damaged" in said
    for place in (files.log, files.socket, "the disk"):
        assert str(place) in said


def test_a_socket_path_that_the_kernel_cannot_take_is_refused_at_once(tmp_path: Path):
    with pytest.raises(StateUnavailable, match="name a shorter state directory"):
        run(lambda: Keeper(Place(Files(tmp_path / ("x" * 100)), "a", "t"), StateSettings()).start())


def test_thirty_tries_are_made_a_second_apart():
    settings = StateSettings()
    assert (30, 1.0) == (settings.start_tries, settings.start_interval)


def test_the_service_stays_small():
    """An agent and its service have 80 MB; each of these would add 8 to 25."""
    code = """
import sys
import ec2_agent.state.__main__, ec2_agent.state.local, ec2_agent.state.memory
print(sorted({"asyncio", "botocore", "pydantic", "ssl", "urllib3"} & sys.modules.keys()))
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "[]" == said.stdout.strip()


def test_every_error_code_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "PROTOCOL.md").read_text()
    listed = re.findall(r"^\| `([a-z_]+)` \| .* \| (?:yes|no) \|$", page, re.MULTILINE)
    assert list(protocol.CODES) == listed
