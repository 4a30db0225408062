"""Disks of jobs by their effects: project quotas of xfs and ext4, and files by loop devices.

As test_limits.py, in the test machine where the host has no cgroup v2. Each file system is one of
its own, in a file that is mounted by a loop device.
"""

import ast
import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ec2_agent.sandbox.disk.model import inodes_of
from ec2_agent.sandbox.disk.space import MIB, DiskSpace
from ec2_agent.sandbox.disk.work_disks import WorkDisks, find
from ec2_agent.sandbox.model import DiskShort, SandboxLimits, SandboxRefused
from tests.sandbox.running import (
    REPOSITORY,
    TidyLauncher,
    is_emulated,
    python,
    shell,
    started,
    strongest,
)
from tests.sandbox.staged import Stage, content, run_and_keep
from tests.sandbox.test_disks import FILL, agent_with_a_job, backing_files

pytestmark = [
    pytest.mark.cgroup_v2,
    pytest.mark.skipif(strongest() != "full", reason="needs cgroup v2; test_machine.py brings one"),
]

HOST_MB = 512
MAKE = {
    "xfs": (("mkfs.xfs", "-q"), "prjquota", "a project quota"),
    "ext4": (
        ("mkfs.ext4", "-q", "-O", "quota,project", "-E", "quotatype=prjquota"),
        "prjquota",
        "a project quota",
    ),
    "loop": (("mkfs.ext4", "-q"), "noatime", "a file system in a file of its own"),
}


EXT4 = pytest.param("ext4", marks=pytest.mark.deep)
LOOP = pytest.param("loop", marks=pytest.mark.deep)
"""By default xfs alone, which fleets have, but for what depends on the file system or the device:
project quotas are one code, and tests/sandbox/test_disks.py has loop devices."""


@pytest.fixture(name="work_dir", params=["xfs", EXT4, LOOP], scope="module")
def _work_dir(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A file system that makes disks in one of the ways."""
    make, options, how = MAKE[request.param]
    place = tmp_path_factory.mktemp(request.param)
    image = place / "image"
    with image.open("wb") as file:
        file.truncate(HOST_MB << 20)
    subprocess.run([*make, str(image)], check=True)
    mounted = place / "mounted"
    mounted.mkdir()
    subprocess.run(["mount", "-o", f"loop,{options}", str(image), str(mounted)], check=True)
    try:
        assert find(mounted).describe() == how
        yield mounted
    finally:
        subprocess.run(["umount", "--lazy", str(mounted)], check=True)


@pytest.fixture(name="shared_launcher", scope="module")
def _shared_launcher(work_dir: Path) -> Iterator[TidyLauncher]:
    with TidyLauncher(isolation="full", slots=0, disks=WorkDisks(work_dir)) as launcher:
        yield launcher


@pytest.fixture
def launcher(shared_launcher: TidyLauncher, work_dir: Path) -> Iterator[TidyLauncher]:
    """The launcher; what a test leaves running ends with the test, and so do its disks."""
    yield shared_launcher
    shared_launcher.end_jobs()
    wait_until_free(work_dir)


def wait_until_free(work_dir: Path) -> None:
    """Return when no disk is left below the directory; pytest's time limit ends what never comes.

    An agent that is still there looks for disks that are not used any more.
    """
    with contextlib.closing(WorkDisks(work_dir)):
        while disks(work_dir):
            time.sleep(0.05)


def disks(work_dir: Path) -> list[str]:
    """The disks below a directory, of either kind."""
    found = [path.name for path in (work_dir / "disks").iterdir() if path.name.isdecimal()]
    return found + backing_files(work_dir / "disks")


def free_mb(work_dir: Path) -> int:
    """What the file system has left."""
    found = os.statvfs(work_dir)
    return found.f_bavail * found.f_frsize // MIB


@pytest.mark.parametrize("work_dir", ["xfs", EXT4, LOOP], indirect=True)
def test_a_job_may_write_what_it_asked_for_and_no_more(launcher: TidyLauncher, work_dir: Path):
    before = free_mb(work_dir)
    script = FILL + "print([fill('/work/x'), fill('/work/y'), fill('/tmp/z')])"
    ran = python(launcher, script, limits=SandboxLimits(disk_mb=24, tmp_mb=4))
    first, second, other = ast.literal_eval(ran.out.decode())
    assert {first[0], second[0]} <= {"ENOSPC", "EDQUOT"}, ran
    assert 23 * MIB <= first[1] + second[1] <= 27 * MIB
    assert other == ("ENOSPC", 4 * MIB)
    wait_until_free(work_dir)
    while free_mb(work_dir) < before - 1:
        time.sleep(0.05)


def test_inodes_are_bounded(launcher: TidyLauncher) -> None:
    ran = python(launcher, FILL + "print(many())", limits=SandboxLimits(disk_mb=4))
    code, made = ast.literal_eval(ran.out.decode())
    assert code in ("ENOSPC", "EDQUOT"), ran
    assert 0.95 * inodes_of(4) <= made <= inodes_of(4) + 16


def test_a_full_disk_is_not_another_jobs(launcher: TidyLauncher) -> None:
    asked = SandboxLimits(disk_mb=8)
    fill = FILL + "print(fill('x')); import signal; signal.pause()"
    with started(launcher, "/usr/bin/python3", "-c", fill, limits=asked):
        ran = python(launcher, FILL + "print(fill('x'))", limits=asked)
    assert ast.literal_eval(ran.out.decode())[1] >= 7 * MIB


ESCAPE = """
import errno, fcntl, os, struct
def tried(call):
    try: return call() and "done"
    except OSError as failed: return errno.errorcode[failed.errno]
place = os.open(".", os.O_RDONLY)
def own(): return struct.unpack("=5I8x", fcntl.ioctl(place, 0x801C581F, bytes(28)))
def change(flags, project):
    values = list(own())
    values[0], values[3] = flags, project
    fcntl.ioctl(place, 0x401C5820, struct.pack("=5I8x", *values))
    return "done"
flags, _, _, project, _ = own()
def clear_by_flags():
    fcntl.ioctl(place, 0x40086602, struct.pack("=L", 0))
    return "done"
print([
    tried(lambda: change(flags, 0)),
    tried(lambda: change(flags, project + 1)),
    tried(lambda: change(flags & ~0x200, project)),
    tried(clear_by_flags),
    own()[3] == project and own()[0] & 0x200 == flags & 0x200,
])
os.mkdir("new")
"""


@pytest.mark.parametrize("work_dir", ["xfs", "ext4"], indirect=True)
def test_a_job_cannot_leave_its_project(launcher: TidyLauncher) -> None:
    script = ESCAPE + FILL + "print(fill('new/x'))"
    ran = python(launcher, script, limits=SandboxLimits(disk_mb=24))
    tries, filled = map(ast.literal_eval, ran.out.decode().splitlines())
    assert tries[:3] == ["EINVAL"] * 3, ran
    assert tries[3] in ("EINVAL", "EOPNOTSUPP", "EPERM", "done")
    assert tries[4] is True
    assert filled[0] in ("ENOSPC", "EDQUOT"), ran
    assert 23 * MIB <= filled[1] <= 24 * MIB


WRITE = """
import mmap, os, time
file = os.open("out", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
page = mmap.mmap(-1, 1 << 18)
began = time.monotonic()
for _ in range(24): os.write(file, page)
print(time.monotonic() - began)
"""


@pytest.mark.parametrize("work_dir", ["xfs", EXT4, "loop"], indirect=True)
def test_io_bps_limits_the_disk(launcher: TidyLauncher) -> None:
    """6 MiB at 1 MiB/s, written directly."""
    took = {}
    for rate in (1 << 20, None):
        ran = python(launcher, WRITE, limits=SandboxLimits(disk_mb=32, io_bps=rate), timeout_s=60.0)
        assert ran.ending.exit_code == 0, ran
        took[rate] = float(ran.out)
    assert took[1 << 20] >= 4
    assert took[None] < took[1 << 20]


def test_input_files_are_charged_to_the_disk(
    launcher: TidyLauncher, work_dir: Path, tmp_path: Path
) -> None:
    stage = work_dir / f"stage-{tmp_path.name}"  # on the same file system, as the agent's cache
    stage.mkdir(exist_ok=True)
    staged = Stage(stage)
    staged.add("dir/big", bytes(12 << 20), "0700")
    with staged.opened() as opened:
        with pytest.raises(SandboxRefused, match="raise disk_mb"):
            shell(launcher, "true", stage=opened, limits=SandboxLimits(disk_mb=8))
        script = FILL + "print(fill('x'))"
        ran = python(launcher, script, stage=opened, limits=SandboxLimits(disk_mb=28, tmp_mb=1))
    assert 14 * MIB <= ast.literal_eval(ran.out.decode())[1] <= 20 * MIB, ran


def test_a_disk_stays_while_its_work_directory_is_kept(launcher: TidyLauncher, work_dir: Path):
    script = "mkdir -p a/b/c && chmod 1000 a/b/c && chmod 1000 a/b && echo out >f"
    _, work = run_and_keep(launcher, script, limits=SandboxLimits(disk_mb=24))
    start_agent(work_dir)
    assert content(work, "f") == b"out\n"
    assert len(disks(work_dir)) == 1
    os.close(work)
    wait_until_free(work_dir)


def test_space_that_running_jobs_may_take_is_theirs(launcher: TidyLauncher, work_dir: Path) -> None:
    before = free_mb(work_dir)
    with started(launcher, "/bin/sleep", "600", limits=SandboxLimits(disk_mb=250)) as job:
        with pytest.raises(DiskShort, match="MiB"):
            shell(launcher, "true", limits=SandboxLimits(disk_mb=240))
        shell(launcher, "true", limits=SandboxLimits(disk_mb=60))
        if find(work_dir, space := DiskSpace(work_dir)).describe() == "a project quota":
            with pytest.raises(DiskShort):  # what is put beside them has the same account
                space.reserve(240 * MIB, "an input file").__enter__()
            assert space.available().now // MIB <= before - 250, "what the job may still write"
        with pytest.raises(SandboxRefused, match="has room for") as refused:
            shell(launcher, "true", limits=SandboxLimits(disk_mb=4000))
        assert not isinstance(refused.value, DiskShort)
    job.kill()
    wait_until_free(work_dir)
    while free_mb(work_dir) < before - 1:
        time.sleep(0.05)
    assert shell(launcher, "echo well", limits=SandboxLimits(disk_mb=240)).out == b"well\n"


def start_agent(work_dir: Path) -> None:
    """What an agent does that starts: its thread looks once for disks that are not used."""
    WorkDisks(work_dir).close()


def test_a_disk_ends_with_its_agent_and_not_with_the_start_of_another(work_dir: Path) -> None:
    before = free_mb(work_dir)
    with agent_with_a_job(work_dir):
        start_agent(work_dir)
        assert len(disks(work_dir)) == 1
        assert find(work_dir).sweep() in (0, 1)
    wait_until_free(work_dir)
    while free_mb(work_dir) < before - 1:
        time.sleep(0.05)


def test_a_fleets_data_volume_has_quotas(tmp_path: Path) -> None:
    """By the script of its instances, on the machine's empty disk."""
    if not is_emulated():
        pytest.skip("formats a disk of the machine")
    template = (REPOSITORY / "infra" / "agent" / "disk.sh").read_text()
    place = tmp_path / "work"
    script = template.replace("@WORK_DIR@", str(place)).replace("@DISK_GB@", "1")
    disks_before = subprocess.run(["findmnt", "/run/disk"], check=True, stdout=subprocess.PIPE)
    for _ in range(2):
        subprocess.run(["sh", "-c", script], check=True)
        assert find(place).describe() == "a project quota"
        (place / "disks" / "kept").touch()
    with TidyLauncher(isolation="full", slots=0, disks=WorkDisks(place)) as launcher:
        ran = python(launcher, FILL + "print(fill('x'))", limits=SandboxLimits(disk_mb=24))
    assert 23 * MIB <= ast.literal_eval(ran.out.decode())[1] <= 24 * MIB
    subprocess.run(["umount", "--lazy", str(place)], check=True)
    assert list(place.iterdir()) == []
    subprocess.run(["sh", "-c", script], check=True)  # the next boot
    assert (place / "disks" / "kept").exists()
    subprocess.run(["umount", "--lazy", str(place)], check=True)
    after = subprocess.run(["findmnt", "/run/disk"], check=True, stdout=subprocess.PIPE)
    assert after.stdout == disks_before.stdout
