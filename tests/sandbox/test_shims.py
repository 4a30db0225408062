"""A shim without a cloud: what it keeps, for how long, and what dies with it."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ec2_agent.adoption import Adoption
from ec2_agent.flight import Held
from ec2_agent.found import ShimSilent, reach
from ec2_agent.kept import (
    Exit,
    Folder,
    Keep,
    Kept,
    LeaseOver,
    Link,
    StateTaken,
    boottime,
    lock_state,
    start,
)
from ec2_agent.sandbox import Launcher, Limits, Spec, uids
from ec2_agent.shim import files
from ec2_agent.shim.pool import Shims
from joblane.aws.lanes import LaneQueue, Received
from joblane.head import submitted
from tests.sandbox.running import strongest
from tests.sandbox.test_endings import REPOSITORY, alive
from tests.support.jobs import JOB, submission

NOBODY: Any = None


class Room:
    """A launcher, shims, and a directory for jobs."""

    def __init__(self, jobs: Path) -> None:
        self.jobs = jobs
        self.launcher = Launcher(isolation=strongest(), slots=0)
        self.shims = Shims()
        self.epoch = 0

    def start(self, script: str, until_s: float = 60, **changes: Any) -> tuple[Folder, Any, Any]:
        """Start a shell script that may run for so long without a word from us."""
        self.epoch += 1
        folder = make_folder(self.jobs, self.epoch)
        keep = Keep(self.shims, self.jobs, lambda: boottime() + until_s, recovery=True)
        spec = Spec(("/bin/sh", "-c", script), {}, Limits(), **changes)
        return (folder, *start(keep, self.launcher, spec, folder))


def make_folder(jobs: Path, epoch: int) -> Folder:
    """The directory of a claim."""
    held = Held(
        LaneQueue(NOBODY, "lane"), LaneQueue(NOBODY, "dead"), "q", Received("{}", "r", 1, 2), 3.0
    )
    head = submitted(JOB, "acme", submission(), 0)
    return Folder.make(jobs, type(head)(**{**_fields(head), "epoch": epoch}), held)


def _fields(head: Any) -> dict[str, Any]:
    return {name: getattr(head, name) for name in head.__slots__}


@pytest.fixture(name="room")
def _room(tmp_path: Path) -> Iterator[Room]:
    room = Room(tmp_path)
    yield room
    for folder in Folder.all(tmp_path):
        if (who := folder.read(files.SHIM)) is not None and files.lives(who):
            os.kill(who["pid"], signal.SIGKILL)
    room.shims.close()
    room.launcher.close()


def ended(folder: Folder, shim: Any, sandbox: Any) -> Exit | None:
    """Wait for a job's end as an agent does."""

    async def wait() -> Exit | None:
        link = Link(shim)
        end = await asyncio.wait_for(Kept(folder, link, sandbox).end(), 20)
        await asyncio.wait_for(link.gone, 20)
        return end

    return asyncio.run(wait())


def output(folder: Folder) -> list[tuple[int, str, bytes]]:
    reader, found = folder.reader(), []
    while reader.unread:
        seq, stream, _, data = reader.read()
        found.append((seq, stream, data))
    return found


def wait_for(done: Any, timeout_s: float = 10) -> None:
    ends = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_a_shim_writes_down_what_a_job_says_and_how_it_ends(room: Room):
    said = """echo '{"block": "app:x"}' >&3; read a <&3; echo "$a"; echo err >&2; exit 75"""
    folder, shim, sandbox = room.start(said)
    end = ended(folder, shim, sandbox)
    assert end is not None
    assert (75, "app:x", False) == (end.ending.exit_code, end.condition, end.lease_lost)
    assert {("stdout", b'{"ok": true}\n'), ("stderr", b"err\n")} == {
        (stream, data) for _, stream, data in output(folder)
    }
    assert end.records == 2
    wait_for(lambda: not files.lives(folder.read(files.SHIM) or {}))
    assert end == Exit.of(folder.read(files.EXIT) or {})
    assert {"spec", "shim", "log", "exit"} == {entry.name for entry in folder.path.iterdir()}
    assert {0o600} == {entry.stat().st_mode & 0o777 for entry in folder.path.iterdir()}
    assert 0o700 == folder.path.stat().st_mode & 0o777


def test_a_job_that_nobody_renews_is_killed_in_time(room: Room):
    folder, shim, sandbox = room.start("sleep 4751.5", until_s=1.0)
    began = time.monotonic()
    end = ended(folder, shim, sandbox)
    assert end is not None
    assert end.lease_lost
    assert 0.5 < time.monotonic() - began < 4
    assert [] == alive("4751.5")


def test_a_job_whose_time_is_over_before_it_starts_is_not_started(
    room: Room, monkeypatch: pytest.MonkeyPatch
):
    started: list[object] = []
    monkeypatch.setattr(room.launcher, "start", lambda *_, **__: started.append(1))
    with pytest.raises(LeaseOver):
        room.start("true", until_s=-0.001)
    assert [] == started


def test_a_job_that_is_renewed_goes_on(room: Room):
    folder, shim, sandbox = room.start("sleep 1.5", until_s=1.0)

    async def renew() -> Exit | None:
        link = Link(shim)
        link.renew(boottime() + 30)
        end = await Kept(folder, link, sandbox).end()
        await link.gone
        return end

    end = asyncio.run(renew())
    assert end is not None
    assert (False, 0) == (end.lease_lost, end.ending.exit_code)


def test_a_killed_shim_takes_its_job_with_it(room: Room):
    folder, shim, sandbox = room.start("(setsid sleep 4752.5 &); sleep 4752.5")
    wait_for(lambda: folder.read(files.SHIM) is not None and len(alive("4752.5")) >= 2)
    os.kill((folder.read(files.SHIM) or {})["pid"], signal.SIGKILL)
    assert None is ended(folder, shim, sandbox)
    assert [] == alive("4752.5")
    assert None is reach(folder)


def test_a_dead_launcher_costs_no_kept_job(room: Room):
    folder, shim, sandbox = room.start("sleep 0.5; exit 7")
    os.kill(room.launcher.pid, signal.SIGKILL)
    end = ended(folder, shim, sandbox)
    assert end is not None
    assert 7 == end.ending.exit_code


def test_a_dead_zygote_is_replaced_and_costs_no_kept_job(room: Room):
    folder, shim, sandbox = room.start("sleep 0.5; exit 7")
    wait_for(lambda: folder.read(files.SHIM))
    for _ in range(2):
        zygote = room.shims.pid
        os.kill(zygote, signal.SIGKILL)
        wait_for(lambda pid=zygote: files.started(pid) is None)
        for _ in range(4):
            last = ended(*room.start("exit 3"))
            assert last is not None
            assert 3 == last.ending.exit_code
    end = ended(folder, shim, sandbox)
    assert end is not None
    assert 7 == end.ending.exit_code


def test_an_agent_that_is_killed_leaves_its_job_to_the_next(tmp_path: Path):
    """Killed with launcher and zygote, in the middle of the job's output."""
    script = "for i in $(seq 60); do echo line $i; sleep 0.02; done; exit 9"
    program = (
        "import os, signal, sys, time\n"
        "from pathlib import Path\n"
        "from tests.sandbox.test_shims import Room\n"
        f"room = Room(Path({str(tmp_path)!r}))\n"
        f"room.start({script!r})\n"
        "time.sleep(0.5)\n"
        "for pid in (room.launcher.pid, room.shims.pid, os.getpid()):\n"
        "    os.kill(pid, signal.SIGKILL)\n"
    )
    subprocess.run(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY}/layers/core/python"},
        check=False,
        timeout=30,
    )
    (folder,) = Folder.all(tmp_path)
    shim = reach(folder)
    assert shim is not None
    assert None is reach_by(folder, started=1)
    end = ended(folder, shim, None)
    assert end is not None
    assert (9, 60) == (
        end.ending.exit_code,
        len(b"".join(d for *_, d in output(folder)).split(b"\n")) - 1,
    )
    assert b"".join(b"line %d\n" % n for n in range(1, 61)) == b"".join(
        data for *_, data in output(folder)
    )
    numbers = [seq for seq, *_ in output(folder)]
    assert list(range(1, end.records + 1)) == numbers


def test_the_uids_of_a_job_are_taken_while_its_shim_lives(room: Room):
    """Its cgroup is named after them, and the shim reads that when the job is dead already."""
    folder, shim, sandbox = room.start("sleep 4753.5")
    block = int(Path(f"/proc/self/fd/{room.launcher.lock}").readlink().name)
    wait_for(lambda: folder.read(files.SHIM))
    who = folder.read(files.SHIM) or {}
    os.kill(who["pid"], signal.SIGSTOP)
    with Path(os.devnull).open() as null:
        os.dup2(null.fileno(), room.launcher.lock, inheritable=False)  # as if this process ended
    os.kill(room.launcher.pid, signal.SIGKILL)
    sandbox.kill()
    wait_for(lambda: not files.lives(who["init"]))
    assert None is uids.try_block(block)
    os.kill(who["pid"], signal.SIGCONT)
    assert None is not ended(folder, shim, sandbox)
    lock = uids.try_block(block)
    assert lock is not None
    os.close(lock)


def reach_by(folder: Folder, **other: Any) -> Any:
    """Reach a shim whose file tells of another process with its number."""
    kept = folder.read(files.SHIM) or {}
    files.write(folder.fd, files.SHIM, {**kept, **other})
    try:
        return reach(folder)
    finally:
        files.write(folder.fd, files.SHIM, kept)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_another_user_does_not_reach_a_shim(room: Room):
    folder, shim, sandbox = room.start("sleep 0.5")
    wait_for((folder.path / "sock").exists)
    for path in (folder.path, *folder.path.parents[:4]):
        path.chmod(path.stat().st_mode | 0o055)  # one of them is the host's /tmp
    program = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        f"s.connect({str(folder.path / 'sock')!r})"
    )
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-S", "-c", program],
        user=65534,
        capture_output=True,
        check=False,
        cwd="/",
    )
    assert b"Permission" in done.stderr
    # And were it let in by a careless chmod, it would not be listened to.
    (folder.path / "sock").chmod(0o666)
    program += '\ns.send(b\'{"do": "kill"}\')\nprint(s.recv(10))'
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-S", "-c", program],
        user=65534,
        capture_output=True,
        check=False,
        cwd="/",
    )
    assert b"kill" not in done.stdout
    end = ended(folder, shim, sandbox)
    assert end is not None
    assert 0 == end.ending.exit_code


def test_a_state_directory_has_one_agent(tmp_path: Path):
    lock = lock_state(tmp_path / "a")
    with pytest.raises(StateTaken, match="runs already"):
        lock_state(tmp_path / "a")
    os.close(lock)
    os.close(lock_state(tmp_path / "a"))


def cuts(path: Path) -> Iterator[int]:
    """Cut a file at every byte, the last one first, and in the end take it away."""
    whole = path.read_bytes()
    for size in reversed(range(len(whole))):
        path.write_bytes(whole[:size])
        yield size
    path.unlink()
    yield 0


def find(jobs: Path) -> list[Exit | None]:
    """Find what lies there as an agent that starts does, kill it, and tell of its end."""

    async def adopt() -> list[Exit | None]:
        adoption = Adoption(jobs, NOBODY, NOBODY)
        adoption.find()
        ends = []
        for orphan in adoption.orphans:
            orphan.kill()
            ends.append(await asyncio.wait_for(orphan.kept.end(), 20))
            await orphan.kept.gone(20)
            orphan.kept.folder.close()
        return ends

    return asyncio.run(adopt())


def left(room: Room, script: str) -> Folder:
    """Start a job, and leave it as an agent that was killed does."""
    folder, shim, _ = room.start(script)
    wait_for(lambda: folder.read(files.SHIM))
    shim.close()
    folder.close()
    return Folder(folder.path)


def test_files_of_an_ended_job_are_read_without_harm_wherever_they_are_cut(room: Room):
    folder = left(room, "echo one; sleep 0.3; echo two; exit 7")
    wait_for(lambda: not files.lives(folder.read(files.SHIM) or {}))
    end = Exit.of(folder.read(files.EXIT) or {})
    printed = output(folder)
    folder.note_shipped(1)
    for _ in cuts(folder.path / files.SHIPPED):
        assert [end] == find(room.jobs)
        assert printed in (output(folder), [printed[0], *output(folder)])
    for _ in cuts(folder.path / files.SHIM):
        assert [end] == find(room.jobs)
    for _ in cuts(folder.path / files.LOG):
        assert [end] == find(room.jobs)
        assert output(folder) in (printed, printed[:1], [])
    for _ in cuts(folder.path / files.EXIT):
        assert [None] == find(room.jobs)  # lost: it runs again, if it may
    spec = (folder.path / files.SPEC).read_bytes()
    for size in range(len(spec)):
        folder.path.mkdir(exist_ok=True)
        (folder.path / files.SPEC).write_bytes(spec[:size])
        assert [] == find(room.jobs)  # its message comes back by itself
        assert not folder.path.exists()


def test_a_job_that_runs_and_has_lost_its_name_is_killed(room: Room):
    folder = left(room, "sleep 4753.5")
    wait_for(lambda: alive("4753.5"))
    (folder.path / files.SPEC).write_bytes(b'{"job_id"')
    assert [] == find(room.jobs)
    assert [] == alive("4753.5")
    assert not folder.path.exists()


def test_a_shim_that_has_not_said_yet_who_it_is_is_waited_for(room: Room):
    folder = left(room, "sleep 4754.5")
    told, aside = folder.path / files.SHIM, folder.path / "aside"
    told.rename(aside)
    later = threading.Timer(0.3, aside.rename, (told,))
    later.start()
    (end,) = find(room.jobs)
    assert end is not None
    assert [] == alive("4754.5")
    later.join()


def test_a_shim_that_never_says_who_it_is_keeps_the_agent_from_starting(
    room: Room, monkeypatch: pytest.MonkeyPatch
):
    folder = left(room, "sleep 4755.5")
    told, aside = folder.path / files.SHIM, folder.path / "aside"
    told.rename(aside)
    monkeypatch.setattr("ec2_agent.found.ENDING_S", 0.1)
    with pytest.raises(ShimSilent, match="does not say who it is"):
        find(room.jobs)
    aside.rename(told)
    assert [None] != find(room.jobs)
