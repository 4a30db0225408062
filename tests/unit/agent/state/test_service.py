"""The state service as a process: what it survives, whom it refuses, what it says."""

import asyncio
import os
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from ec2_agent.errors import CannotStart
from ec2_agent.processes import start_ticks
from ec2_agent.state import protocol
from ec2_agent.state.client import NotReached, StateRefused
from ec2_agent.state.files import StateFiles
from ec2_agent.state.records import WriteResult
from ec2_agent.state.settings import StateSettings
from ec2_agent.state.supervisor import StateLocation, StateSupervisor
from tests.support.state_service import record, run, service, until


@pytest.fixture(name="files")
def _files(tmp_path_factory: pytest.TempPathFactory) -> StateFiles:
    return StateFiles(tmp_path_factory.mktemp("s"))


def test_an_acknowledged_write_survives_a_kill_and_the_agent_gets_its_service_back(
    files: StateFiles,
):
    async def test() -> None:
        async with service(files) as supervisor:
            stored: list[str] = []

            async def write(name: str) -> None:
                for n in range(60):
                    while True:  # a client gives up when the service is away for long
                        with suppress(NotReached):
                            found = await supervisor.client.create([record(f"{name}{n:02d}")])
                            break
                    assert found == [WriteResult.DONE]
                    stored.append(f"{name}{n:02d}")

            async def kill() -> None:
                for enough in (20, 60, 100):
                    await until(lambda enough=enough: len(stored) >= enough)  # type: ignore[misc]
                    victim = supervisor.pid
                    assert victim is not None
                    os.kill(victim, signal.SIGKILL)
                    await until(lambda victim=victim: supervisor.pid != victim)  # type: ignore[misc]

            await asyncio.gather(write("a"), write("b"), kill())
            found = {r.id async for r in supervisor.client.list_all("outcome")}
            assert 120 == len(stored)
            assert set(stored) == found
            await until(lambda: supervisor.trouble is None)

    run(test)


def test_a_service_without_memory_is_told_again(files: StateFiles):
    async def test() -> None:
        async with service(files, backend="memory") as supervisor:
            known = [record("a", version=3), record("b")]
            supervisor.client.resync_from(lambda: known)
            await supervisor.client.create(known)
            assert supervisor.pid is not None
            victim = supervisor.pid
            os.kill(victim, signal.SIGKILL)
            await until(lambda: supervisor.pid != victim and supervisor.trouble is None)
            assert known == await supervisor.client.get("outcome", ["a", "b"])

    run(test)


def test_a_service_that_hangs_is_reported_killed_and_replaced(files: StateFiles):
    async def test() -> None:
        async with service(files, read_timeout=0.2) as supervisor:
            await supervisor.client.create([record("a")])
            victim = supervisor.pid
            assert victim is not None
            os.kill(victim, signal.SIGSTOP)
            await until(lambda: supervisor.trouble is not None)
            assert "does not answer" in (supervisor.trouble or "")
            await until(lambda: supervisor.pid != victim and supervisor.trouble is None)
            assert [record("a")] == await supervisor.client.get("outcome", ["a"])

    run(test)


def test_it_ends_with_the_agent_however_that_ends(files: StateFiles):
    code = """
import asyncio, sys
from pathlib import Path
from ec2_agent.state.files import StateFiles
from ec2_agent.state.supervisor import StateSupervisor, StateLocation
from ec2_agent.state.settings import StateSettings

async def main():
    location = StateLocation(StateFiles(Path(sys.argv[1])), "a", "t")
    supervisor = StateSupervisor(location, StateSettings())
    await supervisor.start()
    print(supervisor.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""
    command = [sys.executable, "-c", code, str(files.directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as agent:
        assert agent.stdout is not None
        pid = int(agent.stdout.readline())
        agent.kill()
    run(lambda: until(lambda: start_ticks(pid) is None))
    run(lambda: until(lambda: not files.socket.exists()))
    assert "ended with the agent" in files.log.read_text()


def test_a_disk_that_takes_nothing_is_a_defined_error_and_trouble_until_it_does(files: StateFiles):
    async def test() -> None:
        async with service(files) as supervisor:
            client = supervisor.client
            await client.create([record("before")])
            assert supervisor.pid is not None
            size = files.database.with_name("state.db-wal").stat().st_size
            was = resource.prlimit(supervisor.pid, resource.RLIMIT_FSIZE, (size, -1))
            with pytest.raises(StateRefused) as caught:
                await client.create([record("during", body="x" * 50_000)])
            assert caught.value.code in ("storage_full", "storage_failed")
            await until(lambda: supervisor.trouble is not None)
            assert "storage_" in (supervisor.trouble or "")
            assert [record("before")] == await client.get("outcome", ["before", "during"])
            resource.prlimit(supervisor.pid, resource.RLIMIT_FSIZE, was)
            await until(lambda: supervisor.trouble is None)
            assert [WriteResult.DONE] == await client.create([record("after", body="x" * 50_000)])

    run(test)


def test_two_services_do_not_share_a_directory_and_the_second_agent_says_why(files: StateFiles):
    async def test() -> None:
        async with service(files):
            with pytest.raises(CannotStart, match=r"another state service holds .*state\.lock"):
                async with service(files, start_tries=2):
                    pass

    # The second supervisor reaches the first one's socket: only the lock tells them apart.
    run(test)


def test_a_service_that_cannot_have_its_files_keeps_the_agent_from_starting(files: StateFiles):
    files.database.write_bytes(b"somebody else's file, surely" * 100)

    async def test() -> None:
        async with service(files):
            pass

    with pytest.raises(CannotStart) as caught:
        run(test)
    said = str(caught.value)
    assert "the end of its log: 'the state service cannot start: " in said
    assert "is damaged" in said
    assert "other agents take over their jobs when the leases end'; check its log" in said
    assert '{"' not in said
    for place in (files.log, files.socket, "the disk"):
        assert str(place) in said


def test_a_locked_database_is_waited_for(files: StateFiles):
    """SQLite waits 5 s for a lock by itself; the service then ends, and is started again."""
    began, locked_s = time.monotonic(), 6.0
    with sqlite3.connect(files.database, check_same_thread=False) as other:
        other.execute("BEGIN EXCLUSIVE")
        threading.Timer(locked_s, other.execute, ("COMMIT",)).start()

        async def test() -> None:
            async with service(files, start_interval=0.5) as supervisor:
                assert supervisor.trouble is None

        run(test)
    other.close()
    assert time.monotonic() - began >= locked_s
    assert "is locked by another process" in files.log.read_text()


def test_a_database_that_stays_locked_is_tried_as_often_as_is_promised(files: StateFiles):
    with sqlite3.connect(files.database) as other:
        other.execute("BEGIN EXCLUSIVE")
        settings = StateSettings(start_tries=16, start_interval=0.5)
        supervisor = StateSupervisor(StateLocation(files, "a", "t"), settings)
        began = time.monotonic()
        with pytest.raises(CannotStart, match="is locked by another process"):
            run(supervisor.start)
        assert time.monotonic() - began >= 15 * 0.5
    other.close()


def test_a_socket_path_that_the_kernel_cannot_take_is_refused_at_once(tmp_path: Path):
    with pytest.raises(CannotStart, match="name a shorter state directory"):
        run(
            lambda: StateSupervisor(
                StateLocation(StateFiles(tmp_path / ("x" * 100)), "a", "t"), StateSettings()
            ).start()
        )


def test_thirty_tries_are_made_a_second_apart():
    settings = StateSettings()
    assert (30, 1.0) == (settings.start_tries, settings.start_interval)


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["--directory", "/nowhere"], "--directory and --backend memory|local|dynamodb are needed"),
        (["--directory", "/nowhere", "--backend", "disk"], "are needed"),
        (["--directory", "/nowhere", "--backend", "local", "--sync-interval", "soon"], "soon"),
        (["--unknown"], "--unknown not recognized"),
    ],
)
def test_a_wrong_command_line_is_one_line(argv: list[str], reason: str):
    command = [sys.executable, "-m", "ec2_agent.state", *argv]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert reason in line


HEAVY = {
    *("asyncio", "botocore", "pydantic", "ssl", "urllib3"),  # 8 to 25 MB each
    *("argparse", "shutil"),  # 1 MB together
    *("dataclasses", "inspect", "logging", "pathlib", "queue", "threading"),  # 3 MB together
}


def test_the_service_stays_small():
    """Each host has one, beside its agent (decision 1767)."""
    code = """
import sys
import ec2_agent.state.__main__, ec2_agent.state.local, ec2_agent.state.memory
print(*sys.modules)
"""
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path += {sys.path}\n{code}"]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    found = set(said.stdout.split())
    assert {"json", "sqlite3"} <= found
    assert set() == HEAVY & found


def test_every_error_code_is_documented():
    page = (Path(__file__).parents[4] / "docs" / "reference" / "agent-protocol.md").read_text()
    listed = re.findall(r"^\| `([a-z_]+)` \| .* \| (?:yes|no) \|$", page, re.MULTILINE)
    assert list(protocol.CODES) == listed
