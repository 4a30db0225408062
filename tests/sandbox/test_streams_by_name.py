"""The streams of a job, which it opens by name, are open to nobody else on its host."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ec2_agent.files import stdin
from ec2_agent.shim import files
from tests.sandbox.running import alive, marker
from tests.sandbox.shim_jobs import Room, wait_end, wait_for

NOBODY = 65534


@pytest.fixture(name="given")
def _given(tmp_path: Path) -> Iterator[int]:
    """A file of the cache as standard input."""
    closed = tmp_path / "cache"
    closed.mkdir(mode=0o700)
    (closed / "file").write_bytes(b"secret")
    (closed / "file").chmod(0o600)
    fd = os.open(closed / "file", os.O_RDONLY)
    stdin.let_jobs_open(fd)
    yield fd
    os.close(fd)


@pytest.mark.skipif(os.geteuid() != 0, reason="all jobs have this user")
def test_no_other_user_opens_what_a_job_reads_and_writes(room: Room, given: int, tmp_path: Path):
    mark = marker()
    directory, shim, sandbox = room.start(f"exec sleep {mark}", stdin=given)
    wait_for(lambda: alive(mark) and directory.read(files.SHIM))
    (job,) = alive(mark)
    keeper = int((directory.read(files.SHIM) or {})["pid"])
    held = [path for pid in (job, keeper) for path in Path(f"/proc/{pid}/fd").iterdir()]
    names = [*map(str, held), str(tmp_path / "cache" / "file")]
    own = os.stat(f"/proc/{job}").st_uid
    assert own not in (0, NOBODY)
    assert {"job's 0: opened", "job's 1: opened", "job's 2: opened"} <= set(_tried(own, job))
    assert [] == [name for name in names if _opens(NOBODY, name)]
    assert [] == [name for name in names if _opens(own + 1, name)]  # the user of another slot
    sandbox.kill()
    assert 9 == wait_end(directory, shim, sandbox).signal


def _tried(uid: int, job: int) -> Iterator[str]:
    for fd in range(3):
        opened = _opens(uid, f"/proc/{job}/fd/{fd}")
        yield f"job's {fd}: {'opened' if opened else 'refused'}"


def _opens(uid: int, path: str) -> bool:
    """Whether a process of this user, without groups, opens a file for reading or for writing."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    try:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        for flags in (os.O_RDONLY, os.O_WRONLY):
            try:
                os.open(path, flags | os.O_NONBLOCK)
            except OSError:
                continue
            os._exit(0)
    finally:
        os._exit(1)
