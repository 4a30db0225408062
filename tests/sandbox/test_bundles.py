"""The bundle of a typed job: bound in its own slot alone, and read-only."""

import ast
import contextlib
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import SandboxRefused, Spec
from tests.sandbox.running import (
    NO_LIMITS,
    PYTHON,
    TidyLauncher,
    python,
    run,
    shell,
    strongest,
    wait_until_ready,
)

FIRST, SECOND, LATER = "a" * 64, "b" * 64, "c" * 64


@pytest.fixture(name="bundles", scope="module")
def _bundles() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        bundles = Path(name) / "bundles"
        bundles.mkdir(mode=0o700)  # as a state directory: jobs cannot come in that way
        for digest in (FIRST, SECOND):
            make(bundles, digest)
        yield bundles


def make(bundles: Path, digest: str) -> None:
    """Unpack a bundle that says whose it is."""
    bundle = bundles / digest
    (bundle / "package").mkdir(parents=True)
    bundle.chmod(0o755)
    (bundle / "__main__.py").write_text(f"import package.code; print({digest[:1]!r})\n")
    (bundle / "package" / "code.py").write_text("import sys; print(sys.path[0], end=' ')\n")
    program = bundle / "package" / "program"
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o755)


@pytest.fixture(name="launcher", scope="module")
def _launcher(bundles: Path) -> Iterator[Launcher]:
    with TidyLauncher(isolation=strongest(), slots=2, bundles=bundles) as launcher:
        wait_until_ready(launcher)
        yield launcher


def main(launcher: Launcher, digest: str) -> bytes:
    """Run a bundle's program, as the agent starts a typed job; its output."""
    argv = ("/usr/bin/python3", "-I", "/opt/joblane/type")
    ran = run(launcher, Spec(argv, {}, NO_LIMITS, bundle=digest))
    assert (0, b"") == (ran.ending.exit_code, ran.err)
    return ran.out


def test_a_job_runs_its_own_bundle(launcher: Launcher):
    assert b"/opt/joblane/type a\n" == main(launcher, FIRST)
    assert b"/opt/joblane/type b\n" == main(launcher, SECOND)
    ran = shell(launcher, "/opt/joblane/type/package/program", bundle=FIRST)
    assert b"ran\n" == ran.out


def test_a_bundle_that_came_after_the_slots_were_made_is_there(launcher: Launcher, bundles: Path):
    wait_until_ready(launcher)
    make(bundles, LATER)
    assert b"/opt/joblane/type c\n" == main(launcher, LATER)


LOOK = """
find /opt -mindepth 1 | sort
grep -c /opt/joblane /proc/self/mountinfo
"""


def test_a_job_without_a_type_sees_no_bundle_and_no_mount(launcher: Launcher):
    for changes in ({}, {"limits": NO_LIMITS, "network": "none"}):
        seen = shell(launcher, LOOK, **changes).out.decode().split()
        assert "0" == seen[-1]
        assert not [path for path in seen if "package" in path or "aaaa" in path]


def test_a_job_sees_one_bundle_and_no_other_one(launcher: Launcher):
    seen = shell(launcher, LOOK, bundle=FIRST).out.decode().split()
    assert "1" == seen[-1]
    assert "/opt/joblane/type/package/code.py" in seen
    assert not [path for path in seen if SECOND in path or LATER in path or FIRST in path]
    for path in ("/opt/joblane/bundles", "/opt/joblane/type/.."):
        ran = shell(launcher, f"ls -A {path}/{SECOND} {path}/bundles/{SECOND}", bundle=FIRST)
        assert b"" == ran.out


def test_a_job_beside_one_with_a_bundle_does_not_see_it(launcher: Launcher):
    """By no path, and not through /proc of the other one."""
    ours, line = socket.socketpair()
    with ours, contextlib.ExitStack() as ends:
        with line:
            null = ends.enter_context(open("/dev/null", "wb"))
            waits = "exec 0<&3; head -c 1"
            spec = Spec(("/bin/sh", "-c", waits), {}, NO_LIMITS, bundle=FIRST)
            other = launcher.start(
                spec, stdout=null.fileno(), stderr=null.fileno(), line=line.fileno()
            )
        seen = shell(launcher, LOOK + "ls -A /opt/joblane/type /proc/*/root/opt/joblane/type")
        assert b"package" not in seen.out
        mine = shell(launcher, LOOK, bundle=SECOND)
        assert (
            b"b\n" == shell(launcher, "grep -o b /opt/joblane/type/__main__.py", bundle=SECOND).out
        )
        assert b"package/code.py" in mine.out
        ours.send(b"x")
        assert 0 == other.wait().exit_code


WRITES = """
import os
TYPE = "/opt/joblane/type"
FILE = TYPE + "/package/code.py"
def tried(name, call):
    try: call()
    except OSError as failed: return name, os.strerror(failed.errno)
    return name, "DONE"
print([
    tried("write", lambda: open(FILE, "a")),
    tried("create", lambda: open(TYPE + "/new", "x")),
    tried("mkdir", lambda: os.mkdir(TYPE + "/package/__pycache__")),
    tried("unlink", lambda: os.unlink(FILE)),
    tried("rename", lambda: os.rename(FILE, TYPE + "/other")),
    tried("rename in", lambda: os.rename("/work", TYPE + "/work")),
    tried("link", lambda: os.link(FILE, TYPE + "/link")),
    tried("symlink", lambda: os.symlink(FILE, TYPE + "/link")),
    tried("chmod", lambda: os.chmod(FILE, 0o777)),
    tried("chown", lambda: os.chown(FILE, os.getuid(), os.getgid())),
    tried("utime", lambda: os.utime(FILE)),
    tried("truncate", lambda: os.truncate(FILE, 0)),
    tried("xattr", lambda: os.setxattr(FILE, "user.x", b"y")),
    tried("rmdir", lambda: os.rmdir(TYPE)),
    tried("rename type", lambda: os.rename(TYPE, "/opt/joblane/other")),
    tried("fd", lambda: open(f"/proc/self/fd/{os.open(FILE, os.O_RDONLY)}", "r+")),
])
"""


def test_a_job_cannot_write_to_its_bundle(launcher: Launcher, bundles: Path):
    code = bundles / FIRST / "package" / "code.py"
    before = (code.read_bytes(), code.stat())
    found = dict(ast.literal_eval(python(launcher, WRITES, bundle=FIRST).out.decode()))
    assert 16 == len(found)
    assert {} == {name: how for name, how in found.items() if how == "DONE"}
    after = code.stat()
    assert before[0] == code.read_bytes()
    assert (before[1].st_mtime_ns, before[1].st_mode) == (after.st_mtime_ns, after.st_mode)
    assert {"package", "__main__.py"} == {entry.name for entry in (bundles / FIRST).iterdir()}


def test_the_mount_of_a_bundle_is_read_only_and_gives_no_rights(launcher: Launcher):
    show = "grep ' /opt/joblane/type ' /proc/self/mountinfo"
    options = shell(launcher, show, bundle=FIRST).out.decode().split()[5]
    assert {"ro", "nosuid", "nodev"} <= set(options.split(","))


def test_two_jobs_of_a_type_share_no_inode_of_its_bundle(launcher: Launcher):
    if launcher.shares_inodes:
        pytest.skip(f"jobs share inodes here: {launcher.shares_inodes}")
    lock = "import fcntl\nfile = open('/opt/joblane/type/__main__.py')\n"
    ours, line = socket.socketpair()
    with ours, open("/dev/null", "wb") as null:
        with line:
            holds = lock + "fcntl.flock(file, fcntl.LOCK_EX)\nimport os; os.write(3, b'x')"
            program = holds + "\nos.read(3, 1)"
            spec = Spec((*PYTHON, program), {}, NO_LIMITS, bundle=FIRST)
            other = launcher.start(
                spec, stdout=null.fileno(), stderr=null.fileno(), line=line.fileno()
            )
        assert b"x" == ours.recv(1)
        tries = lock + "fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB); print('locked')"
        assert b"locked\n" == python(launcher, tries, bundle=FIRST).out
        ours.send(b"x")
        assert 0 == other.wait().exit_code


@pytest.mark.parametrize("name", ["d" * 64, "..", f"{FIRST}/package", "", f"../bundles/{FIRST}"])
def test_a_bundle_that_is_not_there_is_refused(launcher: Launcher, name: str):
    with pytest.raises(SandboxRefused, match="no bundle"):
        shell(launcher, "true", bundle=name)


def test_a_launcher_without_bundles_refuses_one():
    with (
        TidyLauncher(isolation=strongest(), slots=0) as launcher,
        pytest.raises(SandboxRefused, match="no directory of bundles"),
    ):
        shell(launcher, "true", bundle=FIRST)
