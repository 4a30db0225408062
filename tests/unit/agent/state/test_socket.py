"""The state service's socket: who may connect, bad frames, limits."""

import os
import socket
import stat
import subprocess
import sys

import pytest

from ec2_agent import processes
from ec2_agent.state import protocol
from ec2_agent.state.client import StateClient
from ec2_agent.state.files import StateFiles
from ec2_agent.state.protocol import MAX_FRAME
from ec2_agent.state.records import BATCH, MAX_BODY
from ec2_agent.state.settings import StateSettings
from tests.support.state_service import answer, connected, process, run


@pytest.fixture(name="files")
def _files(tmp_path_factory: pytest.TempPathFactory) -> StateFiles:
    return StateFiles(tmp_path_factory.mktemp("s"))


def test_files_are_the_agents_own(files: StateFiles):
    with process(files) as connection:
        for path in (files.socket, files.lock):
            assert 0o600 == stat.S_IMODE(path.stat().st_mode)
        assert (os.geteuid(), True) == (
            processes.peer_of(connection)[1],
            processes.is_ours(connection),
        )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user for a moment")
def test_a_process_of_another_user_gets_no_word(files: StateFiles):
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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user for a moment")
def test_the_client_says_nothing_to_another_users_service(files: StateFiles):
    async def test() -> None:
        client = StateClient(files.socket, StateSettings(retries=0))
        with pytest.raises(Exception, match="belongs to another user"):
            await client.health()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(files.socket))
        os.seteuid(65534)
        try:
            listener.listen()  # the kernel keeps the credentials of this moment
        finally:
            os.seteuid(0)
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
        "an unpaired surrogate",
    ),
]


@pytest.mark.parametrize(("line", "request_id", "code", "words"), BAD)
def test_a_bad_frame_is_answered_and_the_next_one_served(
    files: StateFiles, line: bytes, request_id: int | None, code: str, words: str
):
    with process(files) as connection:
        connection.sendall(line + b"\n" + b'{"id": 2, "op": "health"}\n')
        said = answer(connection)
        assert (request_id, code) == (said["id"], said["error"]["code"])
        assert words in said["error"]["message"]
        assert 2 == answer(connection)["id"]


def test_what_is_too_large_is_refused(files: StateFiles):
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


def test_half_a_frame_is_waited_for_and_forgotten_when_its_writer_goes(files: StateFiles):
    with process(files) as connection:
        whole = b'{"id": 1, "op": "health"}\n'
        connection.sendall(whole[:9])
        with connected(files) as other:
            other.sendall(whole[:-4])
        connection.sendall(whole[9:])
        assert "ok" == answer(connection)["status"]


def test_requests_of_one_connection_may_overlap(files: StateFiles):
    with process(files) as connection:
        asked = b"".join(
            protocol.frame({"id": n, "op": "list", "kind": "k"}) for n in range(200)
        ) + protocol.frame({"id": 200, "op": "health"})
        connection.sendall(asked)
        assert set(range(201)) == {answer(connection)["id"] for _ in range(201)}


def test_a_crowd_of_connections_is_turned_away_and_the_service_stays(files: StateFiles):
    with process(files) as connection:
        crowd = [socket.socket(socket.AF_UNIX) for _ in range(100)]
        for one in crowd:
            one.settimeout(10)
            one.connect(str(files.socket))
        for one in crowd:
            one.close()
        connection.sendall(b'{"id": 1, "op": "health"}\n')
        assert "ok" == answer(connection)["status"]
