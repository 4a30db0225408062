"""What jobs in two slots learn from each other by the files that both see: nothing."""

import ast
import contextlib
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import Spec
from tests.sandbox.running import (
    NO_LIMITS,
    PYTHON,
    REPOSITORY,
    TidyLauncher,
    is_emulated,
    python,
    run,
    strongest,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount overlays for jobs")

_BOTH = """
import ctypes, errno, fcntl, os, signal, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
PLACES = ["/", "/usr", "/usr/bin", "/usr/bin/true", "/etc", "/etc/passwd", "/etc/ld.so.cache",
          "/etc/ssl/certs", "/dev", "/dev/null", "/dev/urandom", "/proc/loadavg",
          "/proc/meminfo", TREE, TREE + "/program"]
PLACES = {place: os.open(place, os.O_RDONLY) for place in PLACES if os.path.exists(place)}
F_OFD_GETLK, F_OFD_SETLK = 36, 37
def lock(kind): return struct.pack("hhqqi4x", kind, 0, 0, 0, 0)
"""

_WATCH = """
dnotified = []
signal.signal(signal.SIGIO, lambda *_: dnotified.append(True))
inotify = libc.inotify_init1(os.O_NONBLOCK)
for place, fd in PLACES.items():
    if libc.inotify_add_watch(inotify, place.encode(), 0xfff) < 0: print(place, ctypes.get_errno())
    if os.path.isdir(place):
        fcntl.fcntl(fd, fcntl.F_NOTIFY, fcntl.DN_ACCESS | fcntl.DN_ATTRIB | fcntl.DN_MULTISHOT)
"""

_LOCK = """
for place, fd in PLACES.items():
    fcntl.flock(fd, fcntl.LOCK_EX)
    fcntl.fcntl(fd, F_OFD_SETLK, lock(fcntl.F_RDLCK))
"""

_WAIT = """
os.write(1, b"ready\\n")
line = socket.socket(fileno=3)
line.recv(1)
"""

_SEEN = """
try: events = len(os.read(inotify, 1 << 16))
except BlockingIOError: events = 0
print({"inotify": events, "dnotify": len(dnotified)})
"""

_ACT = """
for place, fd in PLACES.items():
    (os.listdir if os.path.isdir(place) else lambda p: os.close(os.open(p, os.O_RDONLY)))(place)
    os.stat(place)
os.write(os.open("/dev/null", os.O_WRONLY), b"x")
os.waitpid(os.posix_spawn("/usr/bin/true", ["true"], {}), 0)
"""

_LOCKED = """
held = {}
for place, fd in PLACES.items():
    try: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as refused: held[place] = ["flock"]
    found = fcntl.fcntl(fd, F_OFD_GETLK, lock(fcntl.F_WRLCK))
    if struct.unpack("hhqqi4x", found)[0] != fcntl.F_UNLCK:
        held.setdefault(place, []).append("fcntl")
print(held)
"""


@pytest.fixture(name="tree", scope="module")
def _tree() -> Iterator[Path]:
    """A directory of programs beside /usr, on another file system in the test machine."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        tree = Path(name)
        tree.chmod(0o755)
        (tree / "program").write_text("x")
        (tree / "secret").touch(0o600)
        yield tree


@pytest.fixture(name="two", scope="module")
def _two(tree: Path) -> Iterator[Launcher]:
    with TidyLauncher(isolation=strongest(), slots=2, programs=(tree,)) as it:
        if it.shares_inodes:
            pytest.skip(f"jobs share inodes here: {it.shares_inodes}")
        yield it


@contextlib.contextmanager
def waiting(launcher: Launcher, program: str) -> Iterator[list[str]]:
    """A job that has run `program` and waits; at the end of the block it runs _SEEN and ends.

    The list has what it wrote, after the block.
    """
    ours, line = socket.socketpair()
    read, write = os.pipe()
    said: list[str] = []
    with ours, open(read) as out:
        with line:
            spec = Spec((*PYTHON, program), {}, NO_LIMITS, timeout_s=60.0)
            job = launcher.start(spec, stdout=write, stderr=write, line=line.fileno())
            os.close(write)
        assert (first := out.readline()) == "ready\n", first + out.read()
        yield said
        ours.send(b"x")
        said.extend(out.read().splitlines())
        assert job.wait().exit_code == 0, said


def both(tree: Path) -> str:
    return _BOTH.replace("TREE", repr(str(tree)))


def test_a_job_does_not_see_which_programs_another_starts(two: Launcher, tree: Path) -> None:
    """By inotify or dnotify; seen from the same sandbox, the same steps do show."""
    with waiting(two, both(tree) + _WATCH + _WAIT + _SEEN) as alone:
        acted = python(two, both(tree) + _ACT)
        assert acted.ending.exit_code == 0, acted
    assert alone == [str({"inotify": 0, "dnotify": 0})]
    with waiting(two, both(tree) + _WATCH + _ACT + _WAIT + _SEEN) as own:
        pass
    assert all(count > 0 for count in ast.literal_eval(own[0]).values()), own


def test_two_jobs_do_not_signal_by_locks_on_files_that_both_see(two: Launcher, tree: Path) -> None:
    """By flock, or by a read lock of fcntl, which the other finds with F_GETLK."""
    with waiting(two, both(tree) + _LOCK + _WAIT):
        found = python(two, both(tree) + _LOCKED)
    assert found.out == b"{}\n", found


def test_a_job_does_not_see_which_programs_are_in_memory(two: Launcher) -> None:
    """An overlay refuses reads that do not wait; cachestat sees its empty cache, or nothing."""
    script = """
import ctypes, errno, os
fd = os.open("/usr/bin/true", os.O_RDONLY)
os.read(fd, 4096)
try: os.preadv(fd, [bytearray(9)], 0, os.RWF_NOWAIT); print("read")
except OSError as refused: print(refused.errno == errno.EOPNOTSUPP)
found = (ctypes.c_uint64 * 5)()
ctypes.CDLL(None).syscall(451, fd, ctypes.byref((ctypes.c_uint64 * 2)(0, 4096)), found, 0)
print(found[0])
"""
    assert python(two, script).out.split() == [b"True", b"0"]


def test_a_file_that_the_job_may_not_read_stays_unreadable(two: Launcher, tree: Path) -> None:
    """The overlay reads as root, after it has checked the job's own rights."""
    spec = Spec(("cat", f"{tree}/program", f"{tree}/secret"), {}, NO_LIMITS)
    ran = run(two, spec)
    assert ran.out == b"x"
    assert b"Permission denied" in ran.err


def _elsewhere(mounts: str, *command: str) -> "subprocess.CompletedProcess[str]":
    """Run the command line in a mount namespace of its own, after some mounts there."""
    script = f"set -e; {mounts}; exec /usr/bin/python3 -B -m ec2_agent.sandbox " + " ".join(command)
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


_STACKED = (
    "for layer in 1 2; do mount -t overlay overlay -o lowerdir=/usr:/var/empty-layer /usr; done"
)
"""The kernel allows no overlay over two others."""


@pytest.fixture(name="stacked")
def _stacked() -> Iterator[str]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as empty:
        yield _STACKED.replace("/var/empty-layer", empty)


@pytest.mark.usefixtures("two")
def test_where_jobs_share_inodes_they_cannot_watch_them(stacked: str) -> None:
    script = (
        "import ctypes, errno, fcntl, os; libc = ctypes.CDLL(None, use_errno=True);"
        "init = libc.inotify_init1(0), errno.errorcode[ctypes.get_errno()];"
        "old = libc.inotify_init(), errno.errorcode[ctypes.get_errno()];"
        "fd = os.open('/usr', 0);"
        "notify = libc.fcntl(fd, 0x100000402, 1), errno.errorcode[ctypes.get_errno()];"
        "print(init, old, notify)"
    )
    job = ("run", "--isolation", "namespaces", "--", "python3", "-I", "-S", "-c", f'"{script}"')
    done = _elsewhere(stacked, *job)
    assert done.stdout == "(-1, 'ENOSYS') (-1, 'ENOSYS') (-1, 'EINVAL')\n", done


@pytest.mark.usefixtures("two")
@pytest.mark.skipif(is_emulated(), reason="5 s there, and nothing that differs")
def test_the_probe_says_where_jobs_share_inodes(stacked: str) -> None:
    report = _elsewhere(stacked, "probe")
    assert '"own inodes"' in report.stdout
    assert "no isolation full" in report.stdout


@pytest.mark.cgroup_v2
@pytest.mark.usefixtures("two")
@pytest.mark.skipif(strongest() != "full", reason="needs cgroup v2")
def test_full_isolation_is_refused_where_jobs_share_inodes(stacked: str) -> None:
    done = _elsewhere(stacked, "run", "--", "true")
    assert done.returncode == 125
    assert "overlay" in done.stderr


@pytest.mark.usefixtures("two")
def test_what_is_mounted_below_a_tree_is_seen() -> None:
    mounts = "mount -t tmpfs none /usr/local; echo here >/usr/local/file"
    done = _elsewhere(mounts, "run", "--isolation", strongest(), "--", "cat", "/usr/local/file")
    assert done.stdout == "here\n", done
