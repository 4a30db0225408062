"""Many sandboxes leave nothing: no process, mount, cgroup, descriptor, file or link."""

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
from tests.sandbox.running import NO_LIMITS, TidyLauncher, is_emulated, room, strongest
from tests.support.depth import budget
from tests.support.threads import run_all

JOBS = budget(10, 60) if is_emulated() else budget(300, 2000)

SLOTS = 4

SETTLED_S = 20
"""What is not at rest by then never is."""

NAMES = {*os.listdir("/"), "work", "shm", "x"}
"""Of files in /tmp that a sandbox could have made."""

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
    found = []
    for entry in Path("/tmp").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if entry.name in NAMES or FIRST <= entry.lstat().st_uid < FIRST + 64 * EACH:
                found.append(entry.name)
    return sorted(found)


def _mounts(process: object) -> list[str]:
    """Where a process has mounts that a sandbox could have made: see `_left_in_tmp`.

    Other programs of the host mount elsewhere.
    """
    found = []
    for line in Path(f"/proc/{process}/mountinfo").read_text().splitlines():
        point = line.split()[4]
        _, top, *below = point.split("/")
        if top in {"", "dev", "etc", "proc", "usr", "work"} or (
            top == "tmp" and (not below or below[0] in NAMES)
        ):
            found.append(point)
    return sorted(found)


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _state(launcher: Launcher) -> dict[str, object]:
    return {
        "the launcher's descriptors": len(os.listdir(f"/proc/{launcher.pid}/fd")),
        "mounts": _mounts("self"),
        "the launcher's mounts": _mounts(launcher.pid),
        "cgroups": len(list(room(launcher).iterdir())) if strongest() == "full" else 0,
        "files": _left_in_tmp(),
        "interfaces": [name for _, name in socket.if_nameindex() if name.startswith("jl")],
        "threads": threading.active_count(),
    }


@pytest.mark.cgroup_v2
@pytest.mark.timeout(240)
def test_hundreds_of_sandboxes_leave_nothing() -> None:
    with (
        Path(os.devnull).open("r+b") as null,
        TidyLauncher(isolation=strongest(), slots=SLOTS) as launcher,
    ):

        def work(jobs: range) -> None:
            for number in jobs:
                spec = Spec(ENDS[number % 10], {}, NO_LIMITS, timeout_s=500)
                sandbox = launcher.start(spec, stdout=null.fileno(), stderr=null.fileno())
                if number % 10 == 9:
                    sandbox.stop(0)
                sandbox.wait()

        work(range(10))
        _settle(launcher)
        before, held = _state(launcher), _descriptors()
        threads = [threading.Thread(target=work, args=(range(n, JOBS, 2),)) for n in range(2)]
        run_all(threads)
        _settle(launcher)
        ends, after = time.monotonic() + SETTLED_S, _state(launcher)
        while after != before and time.monotonic() < ends:  # it takes away cgroups at its leisure
            time.sleep(0.02)
            after = _state(launcher)
        assert after == before
        assert _descriptors() == held
        rss = _kib(launcher.pid)
    assert rss < 20_000
    ends = time.monotonic() + SETTLED_S
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
    seen, ends = "", time.monotonic() + SETTLED_S
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
