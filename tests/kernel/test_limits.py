"""Every limit of cgroup v2 by its effect, on a kernel that has it.

Natively where the host can isolate `full`; elsewhere test_machine.py runs this file in a machine
of its own.
"""

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ec2_agent.sandbox.handle import Sandbox
from ec2_agent.sandbox.launcher import DEFAULTS, Launcher
from ec2_agent.sandbox.model import SandboxLimits, SandboxRefused, Spec
from tests.sandbox.running import (
    TidyLauncher,
    python,
    room,
    run,
    shell,
    strongest,
    wait_until_ready,
)
from tests.sandbox.staged import Stage

pytestmark = [
    pytest.mark.cgroup_v2,
    pytest.mark.skipif(strongest() != "full", reason="needs cgroup v2; test_machine.py brings one"),
]

REPOSITORY = Path(__file__).parent.parent.parent
DISK = Path("/run/disk")
"""An ext4 disk of the test machine."""


@pytest.fixture(name="shared_launcher", scope="module")
def _shared_launcher() -> Iterator[TidyLauncher]:
    """A launcher whose state lies on the disk, where there is one, so that io.max applies."""
    state_dir = DISK if DISK.exists() else None
    with TidyLauncher(isolation="full", slots=2, state_dir=state_dir) as it:
        yield it


@pytest.fixture(name="bare", scope="module")
def _bare() -> Iterator[TidyLauncher]:
    """A launcher without a pool, for tests that change its cgroup; they put back what was there."""
    with TidyLauncher(isolation="full", slots=0) as it:
        yield it


@pytest.fixture
def launcher(shared_launcher: TidyLauncher) -> Iterator[TidyLauncher]:
    """The launcher; what a test leaves running ends with the test."""
    yield shared_launcher
    shared_launcher.end_jobs()


TOUCH = "x = bytearray({mb} << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint('touched')"


@contextlib.contextmanager
def beside(launcher: Launcher, script: str, asked: SandboxLimits) -> Iterator[Sandbox]:
    """Have a job run the script before the block, and live on until its end."""
    read, write = os.pipe()
    quiet = f"{script}\nimport os; os.read(3, 1); print('well')"
    spec = Spec(("/usr/bin/python3", "-u", "-c", quiet), {}, asked)
    ours, line = socket.socketpair()
    with os.fdopen(read, "rb") as said:
        with ours, line:
            job = launcher.start(spec, stdout=write, stderr=write, line=line.fileno())
            os.close(write)
            line.close()
            assert said.readline() == b"touched\n"
            yield job
        assert said.read() == b"well\n"


def test_memory_kills_the_job_and_not_its_neighbour(launcher: Launcher) -> None:
    with beside(launcher, TOUCH.format(mb=20), SandboxLimits(memory_mb=64)) as neighbour:
        kills_the_job(launcher)
    ending = neighbour.wait()
    assert (ending.exit_code, ending.oom_killed) == (0, False)
    assert 20 << 20 < (ending.usage.peak_memory_bytes or 0) < 64 << 20


def kills_the_job(launcher: Launcher) -> None:
    """Have a job need more memory than it may."""
    ran = python(launcher, TOUCH.format(mb=300), limits=SandboxLimits(memory_mb=64))
    assert ran.ending.oom_killed
    assert ran.ending.exit_code is None
    assert ran.ending.signal == 9
    assert ran.ending.error is None
    assert ran.out == b""
    assert 60 << 20 < (ran.ending.usage.peak_memory_bytes or 0) <= 64 << 20


FORKS = """
import os, time
children = []
for _ in range(120):
    child = os.fork()
    if not child:
        held = bytearray(12 << 20)
        for i in range(0, len(held), 4096): held[i] = 1
        time.sleep(600)
    children.append(child)
os.wait()
print('alive')
"""


def test_many_small_processes_do_not_take_the_memory_of_another_job(launcher: Launcher) -> None:
    """120 times 12 MB: as much as this machine has. No limit is asked for."""
    with beside(launcher, TOUCH.format(mb=100), SandboxLimits(memory_mb=200)) as neighbour:
        ran = python(launcher, FORKS)
    assert neighbour.wait().exit_code == 0
    assert ran.ending.oom_killed
    assert ran.out == b""
    assert DEFAULTS.memory_mb is not None
    assert (ran.ending.usage.peak_memory_bytes or 0) <= DEFAULTS.memory_mb << 20


def test_all_jobs_together_leave_the_host_its_memory(bare: TidyLauncher) -> None:
    """A job with a limit above the host's memory is killed by the limit of all jobs."""
    limit = room(bare) / "memory.max"
    assert bare.memory_mb is not None
    assert int(limit.read_text()) == bare.memory_mb << 20
    limit.write_text(str(96 << 20))  # so that it is soon reached
    before = global_ooms()
    ran = python(bare, TOUCH.format(mb=300), limits=SandboxLimits(memory_mb=1 << 20))
    limit.write_text(str(bare.memory_mb << 20))
    assert ran.ending.oom_killed
    assert ran.out == b""
    assert global_ooms() == before


def global_ooms() -> int:
    """How often this machine itself was short of memory, by the kernel's log."""
    log = subprocess.run(["dmesg"], stdout=subprocess.PIPE, check=True).stdout
    return log.count(b"constraint=CONSTRAINT_NONE")


@pytest.mark.parametrize(
    "asked",
    [pytest.param(SandboxLimits(), marks=pytest.mark.deep), SandboxLimits(memory_mb=48)],
    ids=str,
)
def test_a_full_tmp_says_no_space_and_kills_nothing(
    launcher: Launcher, asked: SandboxLimits
) -> None:
    """Its files are memory of the job, and by default they take at most half of it."""
    script = "head -c 300000000 /dev/zero >/tmp/x; head -c 1000000 /dev/zero >/work/x; echo alive"
    ran = shell(launcher, script, limits=asked)
    assert b"No space left" in ran.err
    assert ran.out == b"alive\n"


def test_many_processes_get_no_more_cpu_than_one_of_another_job(launcher: TidyLauncher) -> None:
    """Two jobs share a core; one has twenty processes that want all of it."""
    spin = "echo ready; while :; do :; done"
    many = f"for i in $(seq 20); do (while :; do :; done) & done; {spin}"
    leaves = []
    for script in (spin, many):
        spec = Spec(("/bin/sh", "-c", script), {}, SandboxLimits(cores="0"))
        read, write = os.pipe()
        sandbox = launcher.start(spec, stdout=write, stderr=write)
        os.close(write)
        with os.fdopen(read, "rb") as said:
            assert said.readline() == b"ready\n"
        assert sandbox.leaf is not None
        leaves.append(sandbox.leaf)
    before = [cpu_stat(leaf)["usage_usec"] for leaf in leaves]
    one = twenty = 0
    while one + twenty < 500_000:  # of CPU time, which a busy host does not change
        time.sleep(0.05)
        one, twenty = (
            cpu_stat(leaf)["usage_usec"] - began for leaf, began in zip(leaves, before, strict=True)
        )
    assert twenty < 2 * one


def test_oom_of_a_child_ends_the_whole_job(launcher: Launcher) -> None:
    child = TOUCH.format(mb=300)
    script = f"import os\nif os.fork(): os.wait(); print('survived')\nelse:\n exec({child!r})"
    ran = python(launcher, script, limits=SandboxLimits(memory_mb=64))
    assert ran.ending.oom_killed
    assert ran.out == b""


def test_the_agents_protection_does_not_protect_its_jobs() -> None:
    """As under systemd's OOMScoreAdjust=-1000; the kernel spares such processes everywhere."""
    score = Path("/proc/self/oom_score_adj")
    old = score.read_text()
    score.write_text("-1000")
    try:
        with TidyLauncher(isolation="full", slots=0) as launcher:
            ran = python(launcher, TOUCH.format(mb=300), limits=SandboxLimits(memory_mb=64))
    finally:
        score.write_text(old)
    assert ran.ending.oom_killed
    assert ran.out == b""


def test_files_in_tmp_count_as_memory(launcher: Launcher) -> None:
    script = "head -c 100000000 /dev/zero >/tmp/x; echo written"
    ran = shell(launcher, script, limits=SandboxLimits(memory_mb=48, tmp_mb=200))
    assert ran.ending.oom_killed
    ran = shell(launcher, "head -c 100000000 /dev/zero >/tmp/x", limits=SandboxLimits(tmp_mb=40))
    assert b"No space left" in ran.err
    assert not ran.ending.oom_killed


def test_input_files_count_as_memory(launcher: Launcher, tmp_path: Path) -> None:
    """They are copied within the job's cgroup, and in memory they stay there."""
    staged = Stage(tmp_path)
    staged.add("big", bytes(100 << 20))
    with staged.opened() as stage:
        with pytest.raises(SandboxRefused, match=r"memory_mb \(48 MiB\)"):
            shell(launcher, "true", stage=stage, limits=SandboxLimits(memory_mb=48, tmp_mb=200))
        ran = shell(launcher, "true", stage=stage, limits=SandboxLimits(memory_mb=256))
    assert (ran.ending.usage.peak_memory_bytes or 0) > 100 << 20
    while len([entry for entry in room(launcher).iterdir() if entry.is_dir()]) > 2:
        time.sleep(0.02)  # the pool's two; pytest's time limit ends what never comes


def test_half_a_core_is_half_a_core(launcher: Launcher) -> None:
    """In periods of 0.1 s, which the kernel counts: what a busy host does to time changes nothing.

    A machine that stands still charges a job for that, and it has less in the periods after.
    """
    spec = Spec(("/usr/bin/python3", "-c", "while True: pass"), {}, SandboxLimits(cpus=0.5))
    with Path(os.devnull).open("wb") as null:
        sandbox = launcher.start(spec, stdout=null.fileno(), stderr=null.fileno())
    leaf = sandbox.leaf
    assert leaf is not None
    assert (leaf / "cpu.max").read_text() == "50000 100000\n"
    stat = cpu_stat(leaf)
    # pytest's time limit ends what never comes
    while stat["nr_throttled"] < 5 or stat["usage_usec"] > 60_000 * stat["nr_periods"]:
        time.sleep(0.05)
        stat = cpu_stat(leaf)
    sandbox.stop(0)
    assert sandbox.wait().stopped


def cpu_stat(leaf: Path) -> dict[str, int]:
    """The kernel's figures of a cgroup."""
    lines = (leaf / "cpu.stat").read_text().splitlines()
    return {name: int(value) for name, value in map(str.split, lines)}


def test_a_thousand_forks_under_64_pids(launcher: Launcher) -> None:
    script = (
        "import os, time\nn = 0\nwhile n < 1000:\n"
        " try: pid = os.fork()\n"
        " except OSError as full: print(n, full.errno); break\n"
        " if not pid: time.sleep(600); os._exit(0)\n"
        " n += 1"
    )
    ran = python(launcher, script, limits=SandboxLimits(pids=64))
    assert ran.out == b"63 11\n"  # with the first process 64, and EAGAIN
    assert ran.ending.usage.pids_peak in (64, None)
    assert shell(launcher, "echo well").out == b"well\n"


def test_a_bomb_with_little_cpu_still_ends_in_time(launcher: Launcher) -> None:
    """The init shares the job's cgroup, so a job could try to starve it of CPU.

    Only the init ends this job, and at its time limit.
    """
    script = "for i in $(seq 60); do (while :; do :; done) & done; wait"
    limits = SandboxLimits(cpus=0.1, pids=64)
    ran = shell(launcher, script, limits=limits, timeout_s=2, grace_s=0.2)
    assert ran.ending.timed_out
    assert ran.ending.exit_code is None
    assert ran.ending.error is None


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core only")
def test_a_job_stays_on_its_cores(launcher: Launcher) -> None:
    script = "import os; os.sched_setaffinity(0, {0, 1}); print(os.sched_getaffinity(0))"
    ran = python(launcher, script, limits=SandboxLimits(cores="1"))
    assert ran.out == b"{1}\n"


@pytest.mark.parametrize("cores", ["3-1", "0,0", "99", "", "a", "1,0", "0-", "-1", "0-1-2"])
def test_cores_that_are_none_are_refused(launcher: Launcher, cores: str) -> None:
    with pytest.raises(SandboxRefused, match="cores"):
        shell(launcher, "true", limits=SandboxLimits(cores=cores))


@pytest.mark.skipif(not DISK.exists(), reason="needs the test machine's disk")
def test_a_slow_disk_is_slow(launcher: Launcher) -> None:
    """8 MiB at 1 MiB/s, written directly to a file on the disk that was opened for the job."""
    path = DISK / "out"
    script = (
        "import fcntl, mmap, os\n"
        "fcntl.fcntl(1, fcntl.F_SETFL, os.O_DIRECT)\n"
        "page = mmap.mmap(-1, 1 << 18)\n"
        "for _ in range(32): os.write(1, page)"
    )
    took = {}
    for rate in (1 << 20, None):
        with path.open("wb") as file:
            spec = Spec(("/usr/bin/python3", "-c", script), {}, SandboxLimits(io_bps=rate))
            ending = launcher.start(spec, stdout=file.fileno(), stderr=2).wait()
        assert ending.exit_code == 0
        assert path.stat().st_size == 8 << 20
        assert (ending.usage.io_write_bytes or 0) >= 8 << 20
        took[rate] = ending.usage.wall_s
    assert took[1 << 20] >= 6
    assert took[None] < took[1 << 20]


def test_not_one_instruction_runs_outside(bare: TidyLauncher) -> None:
    """The process is made in its cgroup: one that was moved later would not count as new there."""
    most = room(bare) / "pids.max"
    most.write_text("0")
    with pytest.raises(SandboxRefused, match="clone3: Resource temporarily unavailable"):
        shell(bare, "true")
    most.write_text("max")
    assert shell(bare, "exit 3").ending.exit_code == 3


def test_the_job_sees_no_cgroup_but_its_own(launcher: Launcher) -> None:
    ran = shell(launcher, "cat /proc/self/cgroup; find /sys -type d")
    assert ran.out == b"0::/\n/sys\n/sys/fs\n/sys/fs/cgroup\n"


def test_cgroups_are_gone_soon_after_the_job(launcher: Launcher) -> None:
    spec = Spec(("sh", "-c", "sleep 1 & setsid sleep 60 & exit 0"), {}, SandboxLimits())
    with Path(os.devnull).open("wb") as null:
        sandbox = launcher.start(spec, stdout=null.fileno(), stderr=null.fileno())
    leaf = sandbox.leaf
    assert leaf is not None
    assert leaf.exists()
    assert sandbox.wait().exit_code == 0
    while leaf.exists():  # pytest's time limit ends what never comes
        time.sleep(0.02)


def test_a_closed_launcher_leaves_no_cgroup() -> None:
    with TidyLauncher(isolation="full", slots=2) as launcher:
        place = room(launcher)
        with Path(os.devnull).open("wb") as null:
            spec = Spec(("sleep", "60"), {}, SandboxLimits())
            sandbox = launcher.start(spec, stdout=null.fileno(), stderr=null.fileno())
        assert place.exists()
    assert not place.exists()
    assert sandbox.wait().signal == 9


def test_usage_is_told(launcher: Launcher) -> None:
    """Eight processes work at the same time, and each waits for those that it has started."""
    script = (
        "import os, time\n"
        "first, (told, tell), (go, start) = os.getpid(), os.pipe(), os.pipe()\n"
        "for _ in range(3): os.fork()\n"
        "os.write(tell, b'x')\n"
        "if os.getpid() == first:\n"
        " there = 0\n"
        " while there < 8: there += len(os.read(told, 8))\n"
        " os.write(start, bytes(8))\n"
        "os.read(go, 1)\n"
        "x = bytearray(30 << 20)\n"
        "end = time.process_time() + 0.2\n"
        "while time.process_time() < end: pass\n"
        "try:\n"
        " while True: os.wait()\n"
        "except ChildProcessError: pass"
    )
    usage = python(launcher, script).ending.usage
    assert usage.cpu_s >= 8 * 0.2 * 0.9
    assert usage.wall_s >= 0.2
    assert (usage.peak_memory_bytes or 0) > 30 << 20
    assert usage.pids_peak in (8, None)
    assert usage.io_read_bytes is not None


def test_limits_of_a_ready_slot_are_changed_before_the_job(launcher: Launcher) -> None:
    wait_until_ready(launcher)
    ran = run(launcher, Spec(("nproc",), {}, SandboxLimits(cores="0", memory_mb=32, pids=20)))
    assert ran.out == b"1\n"


def test_a_limit_that_the_kernel_refuses_fails_the_job(launcher: Launcher) -> None:
    with pytest.raises(SandboxRefused, match="cpus"):
        shell(launcher, "true", limits=SandboxLimits(cpus=0.001))
    with pytest.raises(SandboxRefused, match="memory_mb"):
        shell(launcher, "true", limits=SandboxLimits(memory_mb=1))
