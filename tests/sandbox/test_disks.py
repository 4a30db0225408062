"""Work directories on the disk, by loop devices: bounded in bytes and inodes, gone with the job.

tests/kernel/test_disks.py has project quotas, and the limits of cgroup v2.
"""

import ast
import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ec2_agent.sandbox.disk.loop import LoopDisks, image_bytes
from ec2_agent.sandbox.disk.model import inodes_of
from ec2_agent.sandbox.disk.space import MIB, DiskSpace
from ec2_agent.sandbox.disk.work_disks import WorkDisks, find
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import DiskShort, SandboxLimits, SandboxRefused, Spec
from tests.sandbox.running import (
    REPOSITORY,
    TidyLauncher,
    fork,
    python,
    shell,
    started,
    strongest,
)
from tests.sandbox.staged import Stage, content, run_and_keep, stdin_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

DISK = Path("/run/disk")
"""An ext4 disk of the test machine (tests/kernel/vm.py)."""

FILL = """
import errno, os
def fill(path):
    total = 0
    try:
        with open(path, "wb", 0) as file:
            while True: total += file.write(bytes(1 << 20))
    except OSError as full: return errno.errorcode[full.errno], total
def many():
    made = 0
    try:
        while True:
            os.mkdir(f"d{made}")
            made += 1
    except OSError as full: return errno.errorcode[full.errno], made
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory with room: the test machine's /tmp is a part of its memory."""
    if not DISK.is_mount():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=DISK) as name:
        yield Path(name)


@pytest.fixture(name="launcher")
def _launcher(place: Path) -> Iterator[Launcher]:
    disks = WorkDisks(place)
    with TidyLauncher(isolation=strongest(), slots=0, disks=disks) as launcher:
        yield launcher


def backing_files(place: Path) -> list[str]:
    """The loop devices that have a file below this directory."""
    found = []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            if str(place) in backing.read_text():
                found.append(backing.parts[3])
    return found


def wait_until_free(place: Path) -> None:
    """Return when no disk is left there; pytest's time limit ends what never comes."""
    while backing_files(place):
        time.sleep(0.02)


@pytest.mark.parametrize("size_mb", [1, 16, 600, 3000])
def test_a_disk_has_what_was_asked_for_and_hardly_more(place: Path, size_mb: int) -> None:
    with LoopDisks(place, DiskSpace(place)).make(size_mb) as disk:
        found = os.fstatvfs(disk.mount)
        free = found.f_bavail * found.f_frsize
        assert size_mb * MIB <= free <= (size_mb + 4) * MIB + size_mb * MIB // 200
        assert inodes_of(size_mb) <= found.f_favail <= inodes_of(size_mb) * 1.02
        root = os.open(".", os.O_RDONLY, dir_fd=disk.mount)
        assert os.listdir(root) == []
        os.close(root)


def test_a_job_may_write_what_it_asked_for_and_no_more(launcher: Launcher) -> None:
    script = FILL + "print([fill('/work/x'), fill('/work/y'), fill('/tmp/z')])"
    ran = python(launcher, script, limits=SandboxLimits(disk_mb=100, tmp_mb=8))
    first, second, other = ast.literal_eval(ran.out.decode())
    assert first[0] == second[0] == "ENOSPC", ran
    assert 100 * MIB <= first[1] + second[1] <= 104 * MIB
    assert other == ("ENOSPC", 8 * MIB)


def test_inodes_are_bounded(launcher: Launcher) -> None:
    script = FILL + "print(many())"
    ran = python(launcher, script, limits=SandboxLimits(disk_mb=16))
    code, made = ast.literal_eval(ran.out.decode())
    assert code == "ENOSPC", ran
    assert 0.95 * inodes_of(16) <= made <= inodes_of(16) + 16


def test_a_full_disk_of_one_job_is_not_another_jobs(launcher: Launcher) -> None:
    asked = SandboxLimits(disk_mb=20)
    fill = FILL + "print(fill('x')); import os; os.read(3, 1)"
    with started(launcher, "/usr/bin/python3", "-c", fill, limits=asked):
        ran = python(launcher, FILL + "print(fill('x'))", limits=asked)
    assert ast.literal_eval(ran.out.decode())[1] >= 20 * MIB


def test_a_disk_is_the_jobs_own_and_has_no_rights(launcher: Launcher, tmp_path: Path) -> None:
    staged = Stage(tmp_path)
    staged.add("dir/in", b"given")
    script = (
        "cat dir/in; stat -c '%a %u' . dir dir/in; ls -A; cp /usr/bin/id i; chmod 6755 i; ./i -u; "
        "mknod null c 1 3 || mkfifo fifo && ls fifo; grep ' /work ' /proc/self/mountinfo"
    )
    with staged.opened() as stage:
        ran, work = run_and_keep(launcher, script, stage=stage, limits=SandboxLimits(disk_mb=32))
    lines = ran.out.decode().splitlines()
    assert lines[:5] == ["given700 1000", "755 1000", "644 1000", "dir", "1000"], lines
    assert lines[-2] == "fifo"
    assert {"rw", "nosuid", "nodev"} <= set(lines[-1].split()[5].split(","))
    assert "/dev/loop" not in ran.out.decode() or "ext4" in lines[-1]
    assert content(work, "dir/in") == b"given"
    os.close(work)


def test_a_disk_ends_with_the_last_descriptor_of_its_work_directory(
    launcher: Launcher, place: Path
) -> None:
    _, work = run_and_keep(launcher, "echo out >f", limits=SandboxLimits(disk_mb=32))
    assert backing_files(place)
    assert content(work, "f") == b"out\n"
    os.close(work)
    wait_until_free(place)


def test_input_files_that_do_not_fit_on_the_disk_are_refused(
    launcher: Launcher, place: Path, tmp_path: Path
) -> None:
    staged = Stage(tmp_path)
    staged.add("big", bytes(24 << 20))
    with staged.opened() as stage:
        with pytest.raises(SandboxRefused, match="raise disk_mb"):
            shell(launcher, "true", stage=stage, limits=SandboxLimits(disk_mb=16))
        ran = shell(
            launcher, "stat -c %s big", stage=stage, limits=SandboxLimits(disk_mb=32, tmp_mb=1)
        )
    assert ran.out == b"25165824\n"
    wait_until_free(place)


def test_the_job_has_no_descriptor_of_its_disk(launcher: Launcher) -> None:
    stdin = stdin_of(b"")
    script = (
        "import os; print([os.readlink(f'/proc/self/fd/{fd}') for fd in range(100) "
        "if os.path.exists(f'/proc/self/fd/{fd}')])"
    )
    ran = python(launcher, script, limits=SandboxLimits(disk_mb=16), stdin=stdin)
    os.close(stdin)
    names = [name.partition(":")[0] for name in ast.literal_eval(ran.out.decode())]
    assert names == ["/memfd", "pipe", "pipe", "socket"]


def test_space_is_reserved_and_refused_when_it_is_not_there(place: Path) -> None:
    """A file system of 200 MiB in a disk of its own."""
    with LoopDisks(place, DiskSpace(place)).make(200) as host:
        small = Path(f"/proc/self/fd/{host.mount}")
        disks = LoopDisks(small, DiskSpace(small))
        with disks.make(100):
            with pytest.raises(DiskShort, match="MiB left"):
                disks.make(90)
            with pytest.raises(SandboxRefused, match=r"has room for 1[89]. MiB") as refused:
                disks.make(2000)
            assert not isinstance(refused.value, DiskShort)
        wait_until_free(place / "nowhere")
        while os.fstatvfs(host.mount).f_bavail * 4096 < 150 * MIB:
            time.sleep(0.02)
        disks.make(90).close()
    wait_until_free(place)


@contextlib.contextmanager
def agent_with_a_job(place: Path) -> Iterator[None]:
    """An agent whose job has written 20 MB; it is killed while the job runs."""

    def run() -> None:
        launcher = Launcher(isolation=strongest(), slots=0, disks=WorkDisks(place))
        argv = ("sh", "-c", "head -c 20000000 /dev/zero >x; echo written; exec sleep 600")
        null = os.open(os.devnull, os.O_WRONLY)
        spec = Spec(argv, {}, SandboxLimits(disk_mb=32), keep_work=True)
        launcher.start(spec, stdout=1, stderr=null)
        signal.pause()

    with fork(run) as (_, output):
        assert output.readline() == b"written\n"
        yield


def test_a_killed_agent_leaves_no_disk(place: Path) -> None:
    """The job ends with its agent, and the disk with the job."""
    with agent_with_a_job(place):
        assert len(backing_files(place)) == 1
    wait_until_free(place)


def test_a_host_without_disks_says_what_is_missing(place: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ec2_agent.sandbox.disk.loop.MKFS", "mkfs.nothing")
    with pytest.raises(SandboxRefused, match="e2fsprogs"):
        find(place)
    with (
        TidyLauncher(isolation=strongest(), slots=0, disks=WorkDisks(place)) as launcher,
        pytest.raises(SandboxRefused, match=r"disk_mb cannot be applied on this host.*e2fsprogs"),
    ):
        shell(launcher, "true", limits=SandboxLimits(disk_mb=1))


def test_a_work_dir_that_is_not_there_is_named(place: Path) -> None:
    with pytest.raises(SandboxRefused, match="nowhere"):
        find(place / "nowhere")


def test_an_image_is_little_larger_than_its_files() -> None:
    for size_mb in (1, 1000, 100_000):
        overhead = image_bytes(size_mb) - size_mb * MIB - inodes_of(size_mb) * 256
        assert 2 * MIB <= overhead <= 20 * MIB + size_mb * MIB // 1024


EMPTY = f"""
import os, sys
sys.path.insert(0, {str(REPOSITORY)!r})
from ec2_agent.sandbox.disk.removal import empty
empty(os.open(sys.argv[1], os.O_RDONLY))
"""


@pytest.fixture(name="tree")
def _tree() -> Iterator[Path]:
    """A place of its own: pytest cannot remove what this test makes, should it fail."""
    place = Path(tempfile.mkdtemp(dir="/var/tmp"))
    yield place
    subprocess.run(["rm", "-rf", str(place)], check=True)


def test_a_hostile_tree_is_removed(tree: Path) -> None:
    """Deeper than a path may be long, with directories that refuse, and links out of it."""
    top = tree / "top"
    outside = tree / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    top.mkdir()
    descent = os.open(top, os.O_RDONLY)
    for depth in range(1100):  # more than a process may have descriptors, or calls in a stack
        os.mkdir("moved-1", 0o1700, dir_fd=descent)
        os.symlink(outside, f"link{depth % 3}", dir_fd=descent)
        inner = os.open("moved-1", os.O_RDONLY, dir_fd=descent)
        os.fchown(inner, 12345, 12345)
        os.close(descent)
        descent = inner
    os.mkfifo("fifo", dir_fd=descent)
    os.close(descent)
    (top / "closed").mkdir(mode=0)
    (top / "moved-2").write_text("in the way")
    # The agent of a fleet has no more capabilities than its launcher: in a sticky directory of
    # another user, root cannot remove anything without CAP_FOWNER.
    unlike_root = ("setpriv", "--bounding-set=-fowner,-dac_read_search")
    subprocess.run([*unlike_root, "/usr/bin/python3", "-B", "-c", EMPTY, str(top)], check=True)
    assert list(top.iterdir()) == []
    assert (outside / "precious").read_text() == "x"
