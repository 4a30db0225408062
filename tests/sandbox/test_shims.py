"""A shim without a cloud: what it keeps, for how long, and what dies with it."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ec2_agent.attempt.adoption import Adoption
from ec2_agent.configuration import lock_state_directory
from ec2_agent.errors import CannotStart
from ec2_agent.jobs import reconnect as reconnecting
from ec2_agent.jobs.directory import JobDirectory
from ec2_agent.jobs.reconnect import ShimUnreachable, reconnect
from ec2_agent.jobs.running import RunningJob
from ec2_agent.jobs.shim_connection import ShimConnection
from ec2_agent.jobs.start import LeaseOver
from ec2_agent.presence.roster import Roster
from ec2_agent.processes import boottime, is_running, start_ticks
from ec2_agent.sandbox import uids
from ec2_agent.sandbox.model import Ending
from ec2_agent.shim import files
from tests.sandbox.running import REPOSITORY, STOPS, alive, go_on, marker
from tests.sandbox.shim_jobs import Room, output, records, wait_end, wait_end_or_loss, wait_for
from tests.support.pauses import replace_sleep

NOBODY: Any = None


def test_a_shim_writes_down_what_a_job_says_and_how_it_ends(room: Room):
    said = """echo '{"block": "app:x"}' >&3; read a <&3; echo "$a"; echo err >&2; exit 75"""
    directory, shim, sandbox = room.start(said)
    end = wait_end(directory, shim, sandbox)
    assert (75, "app:x", False) == (end.exit_code, end.condition, end.lease_lost)
    assert {("stdout", b'{"ok": true}\n'), ("stderr", b"err\n")} == {
        (stream, data) for _, stream, data in records(directory)
    }
    assert end.records == 2
    wait_for(lambda: not is_running(directory.read(files.SHIM) or {}))
    assert end == Ending.decode(directory.read(files.EXIT) or {})
    assert {"spec", "shim", "log", "exit"} == {entry.name for entry in directory.path.iterdir()}
    assert {0o600} == {entry.stat().st_mode & 0o777 for entry in directory.path.iterdir()}
    assert 0o700 == directory.path.stat().st_mode & 0o777


def test_a_job_that_nobody_renews_is_killed_in_time(room: Room):
    mark = marker()
    began = boottime()
    end = wait_end(*room.start(f"sleep {mark}", until_s=1.0))
    assert end.lease_lost
    assert boottime() >= began + 1.0
    assert [] == alive(mark)


def test_a_job_whose_time_is_over_before_it_starts_is_not_started(
    room: Room, monkeypatch: pytest.MonkeyPatch
):
    started: list[object] = []
    monkeypatch.setattr(room.launcher, "start", lambda *_, **__: started.append(1))
    with pytest.raises(LeaseOver):
        room.start("true", until_s=-0.001)
    assert [] == started


def test_a_job_that_is_renewed_goes_on(room: Room):
    mark = marker()
    directory, shim, sandbox = room.start(f"{STOPS} # {mark}", until_s=5)
    until = boottime() + 5

    async def renew() -> Ending | None:
        link = ShimConnection(shim)
        link.renew(boottime() + 300)
        await asyncio.sleep(until - boottime())
        go_on(mark)
        end = await RunningJob(directory, link, sandbox).end()
        await link.gone
        return end

    end = asyncio.run(renew())
    assert end is not None
    assert (False, 0) == (end.lease_lost, end.exit_code)


def test_a_killed_shim_takes_its_job_with_it(room: Room):
    mark = marker()
    directory, shim, sandbox = room.start(f"(setsid sleep {mark} &); sleep {mark}")
    wait_for(lambda: directory.read(files.SHIM) is not None and len(alive(mark)) >= 2)
    os.kill((directory.read(files.SHIM) or {})["pid"], signal.SIGKILL)
    assert None is wait_end_or_loss(directory, shim, sandbox)
    assert [] == alive(mark)
    assert None is reconnect(directory)


def test_a_dead_launcher_costs_no_kept_job(room: Room):
    mark = marker()
    directory, shim, sandbox = room.start(f"{STOPS} exit 7 # {mark}")
    os.kill(room.launcher.pid, signal.SIGKILL)
    go_on(mark)
    end = wait_end(directory, shim, sandbox)
    assert 7 == end.exit_code


def test_a_dead_zygote_is_replaced_and_costs_no_kept_job(room: Room):
    mark = marker()
    directory, shim, sandbox = room.start(f"{STOPS} exit 7 # {mark}")
    wait_for(lambda: directory.read(files.SHIM))
    for _ in range(2):
        zygote = room.shims.pid
        os.kill(zygote, signal.SIGKILL)
        wait_for(lambda pid=zygote: start_ticks(pid) is None)
        for _ in range(4):
            last = wait_end(*room.start("exit 3"))
            assert 3 == last.exit_code
    go_on(mark)
    end = wait_end(directory, shim, sandbox)
    assert 7 == end.exit_code


def test_an_agent_that_is_killed_leaves_its_job_to_the_next(tmp_path: Path):
    """Killed with launcher and zygote, in the middle of the job's output."""
    mark = marker()
    script = "for i in $(seq 60); do echo line $i; sleep 0.02; [ $i != 40 ] || kill -STOP $$; done"
    script += f"; exit 9 # {mark}"
    program = (
        "import os, signal, sys, time\n"
        "from pathlib import Path\n"
        "from tests.sandbox.shim_jobs import Room, output\n"
        f"room = Room(Path({str(tmp_path)!r}))\n"
        f"directory, *_ = room.start({script!r}, until_s=60)\n"
        "while b'line 10\\n' not in output(directory): time.sleep(0.01)\n"
        "for pid in (room.launcher.pid, room.shims.pid, os.getpid()):\n"
        "    os.kill(pid, signal.SIGKILL)\n"
    )
    subprocess.run(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY}/layers/core/python"},
        check=False,
        timeout=60,
    )
    (directory,) = JobDirectory.all(tmp_path)
    shim = reconnect(directory)
    assert shim is not None
    with shim:
        assert None is reach_by(directory, started=1)
        go_on(mark)
        end = wait_end(directory, shim, None)
    assert 9 == end.exit_code
    assert b"".join(b"line %d\n" % n for n in range(1, 61)) == output(directory)
    numbers = [seq for seq, *_ in records(directory)]
    assert list(range(1, (end.records or 0) + 1)) == numbers


def test_the_uids_of_a_job_are_taken_while_its_shim_lives(room: Room):
    """Its cgroup is named after them, and the shim reads that when the job is dead already."""
    directory, shim, sandbox = room.start("sleep 4753")
    block = int(Path(f"/proc/self/fd/{room.launcher.lock}").readlink().name)
    wait_for(lambda: directory.read(files.SHIM))
    who = directory.read(files.SHIM) or {}
    os.kill(who["pid"], signal.SIGSTOP)
    with Path(os.devnull).open() as null:
        os.dup2(null.fileno(), room.launcher.lock, inheritable=False)  # as if this process ended
    os.kill(room.launcher.pid, signal.SIGKILL)
    sandbox.kill()
    wait_for(lambda: not is_running(who["init"]))
    assert None is uids.try_block(block)
    os.kill(who["pid"], signal.SIGCONT)
    wait_end(directory, shim, sandbox)
    lock = uids.try_block(block)
    assert lock is not None
    os.close(lock)


def reach_by(directory: JobDirectory, **other: Any) -> Any:
    """Reach a shim whose file tells of another process with its number."""
    kept = directory.read(files.SHIM) or {}
    files.write(directory.fd, files.SHIM, {**kept, **other})
    try:
        return reconnect(directory)
    finally:
        files.write(directory.fd, files.SHIM, kept)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_another_user_does_not_reach_a_shim(room: Room):
    mark = marker()
    directory, shim, sandbox = room.start(f"{STOPS} # {mark}")
    wait_for((directory.path / "sock").exists)
    for path in (directory.path, *directory.path.parents[:4]):
        path.chmod(path.stat().st_mode | 0o055)  # one of them is the host's /tmp
    program = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        f"s.connect({str(directory.path / 'sock')!r})"
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
    (directory.path / "sock").chmod(0o666)
    program += '\ns.send(b\'{"do": "kill"}\')\nprint(s.recv(10))'
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-S", "-c", program],
        user=65534,
        capture_output=True,
        check=False,
        cwd="/",
    )
    assert b"kill" not in done.stdout
    go_on(mark)
    end = wait_end(directory, shim, sandbox)
    assert 0 == end.exit_code


def test_a_state_directory_has_one_agent(tmp_path: Path):
    lock = lock_state_directory(tmp_path / "a")
    with pytest.raises(CannotStart, match="is running"):
        lock_state_directory(tmp_path / "a")
    os.close(lock)
    os.close(lock_state_directory(tmp_path / "a"))


def cuts(path: Path) -> Iterator[int]:
    """Cut a file at every byte, the last one first, and in the end take it away."""
    whole = path.read_bytes()
    for size in reversed(range(len(whole))):
        path.write_bytes(whole[:size])
        yield size
    path.unlink()
    yield 0


def find(jobs: Path) -> list[Ending | None]:
    """Find what lies there as an agent that starts does, kill it, and tell of its end."""

    async def adopt() -> list[Ending | None]:
        adoption = Adoption(jobs, NOBODY, Roster(NOBODY))
        ends = []
        for found in adoption.find():
            found.job.shim.kill()
            ends.append(await asyncio.wait_for(found.job.end(), 20))
            await found.job.let_shim_end(20)
            found.job.directory.close()
        return ends

    return asyncio.run(adopt())


def leave_job(room: Room, script: str) -> JobDirectory:
    """Start a job, and leave it as an agent that was killed does."""
    directory, shim, _ = room.start(script)
    wait_for(lambda: directory.read(files.SHIM))
    shim.close()
    directory.close()
    return JobDirectory(directory.path)


def test_files_of_an_ended_job_are_read_without_harm_wherever_they_are_cut(room: Room):
    directory = leave_job(room, "echo one; sleep 0.3; echo two; exit 7")
    wait_for(lambda: not is_running(directory.read(files.SHIM) or {}))
    end = Ending.decode(directory.read(files.EXIT) or {})
    printed = records(directory)
    directory.note_stored(1)
    for _ in cuts(directory.path / files.STORED):
        assert [end] == find(room.jobs)
        assert printed in (records(directory), [printed[0], *records(directory)])
    for _ in cuts(directory.path / files.SHIM):
        assert [end] == find(room.jobs)
    for _ in cuts(directory.path / files.LOG):
        assert [end] == find(room.jobs)
        assert records(directory) in (printed, printed[:1], [])
    for _ in cuts(directory.path / files.EXIT):
        assert [None] == find(room.jobs)  # lost: it runs again, if it may
    spec = (directory.path / files.SPEC).read_bytes()
    for size in range(len(spec)):
        directory.path.mkdir(exist_ok=True)
        (directory.path / files.SPEC).write_bytes(spec[:size])
        assert [] == find(room.jobs)  # its message comes back by itself
        assert not directory.path.exists()


def test_a_job_that_runs_and_has_lost_its_name_is_killed(room: Room):
    mark = marker()
    directory = leave_job(room, f"sleep {mark}")
    wait_for(lambda: alive(mark))
    (directory.path / files.SPEC).write_bytes(b'{"job_id"')
    assert [] == find(room.jobs)
    assert [] == alive(mark)
    assert not directory.path.exists()


def test_a_shim_that_has_not_said_yet_who_it_is_is_waited_for(
    room: Room, monkeypatch: pytest.MonkeyPatch
):
    mark = marker()
    directory = leave_job(room, f"sleep {mark}")
    told, aside = directory.path / files.SHIM, directory.path / "aside"
    told.rename(aside)
    pauses = []

    def pause(seconds: float) -> None:
        """Pass the time until the third look, which finds the file."""
        pauses.append(seconds)
        if len(pauses) == 3:
            aside.rename(told)

    replace_sleep(monkeypatch, reconnecting, pause)
    (end,) = find(room.jobs)
    assert end is not None
    assert 3 == len(pauses)
    assert [] == alive(mark)


def test_a_shim_that_never_says_who_it_is_keeps_the_agent_from_starting(
    room: Room, monkeypatch: pytest.MonkeyPatch
):
    directory = leave_job(room, "sleep 4755")
    told, aside = directory.path / files.SHIM, directory.path / "aside"
    told.rename(aside)
    monkeypatch.setattr(reconnecting, "ENDING_S", 0.1)
    with pytest.raises(ShimUnreachable, match="has not written its identity"):
        find(room.jobs)
    aside.rename(told)
    assert [None] != find(room.jobs)
