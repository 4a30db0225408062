"""Two thousand sandboxes leave nothing: no process, mount, cgroup, descriptor, file or link."""

import contextlib
import os
import socket
import threading
import time
from pathlib import Path

import pytest

from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import Spec
from ec2_agent.sandbox.uids import EACH, FIRST
from tests.sandbox.running import NO_LIMITS, emulated, room, strongest

JOBS = 60 if emulated() else 2000

SLOTS = 4

ENDS = (  # of every ten jobs
    *[("true",)] * 5,
    ("sh", "-c", "exit 3"),
    ("sh", "-c", "sleep 30 >/dev/null 2>&1 & setsid sleep 30 & exit 0"),
    ("no-such-command",),
    ("sh", "-c", "kill -9 $$"),
    ("sh", "-c", "echo x >/tmp/x; ln -s /proc/1 /work/y; sleep 60"),
)


def _slot_processes() -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if FIRST <= entry.stat().st_uid < FIRST + 64 * EACH:
                found.append(entry.name)
        except OSError:
            continue
    return found


def _left_in_tmp() -> list[str]:
    """What a sandbox could have made there: its root is put together on a /tmp of its own.

    Other programs of the host write to /tmp, too.
    """
    names = {*os.listdir("/"), "work", "shm", "x"}  # noqa: PTH208
    found = []
    for entry in Path("/tmp").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if entry.name in names or FIRST <= entry.lstat().st_uid < FIRST + 64 * EACH:
                found.append(entry.name)
    return sorted(found)


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def _state(launcher: Launcher) -> dict[str, object]:
    return {
        "the launcher's descriptors": len(os.listdir(f"/proc/{launcher.pid}/fd")),  # noqa: PTH208
        "mounts": len(Path("/proc/self/mountinfo").read_text().splitlines()),
        "the launcher's mounts": len(
            Path(f"/proc/{launcher.pid}/mountinfo").read_text().splitlines()
        ),
        "cgroups": len(list(room(launcher).iterdir())) if strongest() == "full" else 0,
        "files": _left_in_tmp(),
        "interfaces": socket.if_nameindex(),
        "threads": threading.active_count(),
    }


@pytest.mark.timeout(240)
def test_thousands_of_sandboxes_leave_nothing() -> None:
    with (
        Path(os.devnull).open("r+b") as null,
        Launcher(isolation=strongest(), slots=SLOTS) as launcher,
    ):

        def work(jobs: range) -> None:
            for number in jobs:
                spec = Spec(ENDS[number % 10], {}, NO_LIMITS, timeout_s=50)
                sandbox = launcher.start(spec, stdout=null.fileno(), stderr=null.fileno())
                if number % 10 == 9:
                    sandbox.stop(0)
                sandbox.wait(60)

        work(range(20))
        _settle(launcher)
        before, held = _state(launcher), _descriptors()
        threads = [threading.Thread(target=work, args=(range(n, JOBS, 2),)) for n in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        _settle(launcher)
        assert _state(launcher) == before
        assert _descriptors() == held
        rss = _kib(launcher.pid)
    assert rss < 20_000
    ends = time.monotonic() + 2
    while _own(os.getpid()) and time.monotonic() < ends:
        time.sleep(0.02)
    assert _own(os.getpid()) == []


def _own(pid: int) -> list[str]:
    children = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that has just ended
            children += (task / "children").read_text().split()
    return [child for child in children if child in _slot_processes()]


def _settle(launcher: Launcher) -> None:
    """Wait until the pool is full and at rest: the same number of slots, twice in a row."""
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")
    seen, ends = "", time.monotonic() + 20
    while time.monotonic() < ends:
        now = children.read_text()
        if now == seen and len(now.split()) == SLOTS:
            return
        seen = now
        time.sleep(0.3)
    raise AssertionError(f"slots do not come to rest: {seen}")


def _kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])
