"""Where the cgroups of jobs are made, and what becomes of those that a crash leaves.

As test_limits.py, in the test machine where the host has no cgroup v2.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.test_limits import TOUCH
from tests.sandbox.running import PYTHON, REPOSITORY, TidyLauncher, room, strongest

pytestmark = [
    pytest.mark.cgroup_v2,
    pytest.mark.skipif(strongest() != "full", reason="needs cgroup v2; test_machine.py brings one"),
]


def run_in(group: Path, *argv: str) -> "subprocess.CompletedProcess[str]":
    """Run the command line of the sandbox in a cgroup."""
    script = f'echo $$ >{group}/cgroup.procs && exec "$@"'
    return subprocess.run(
        ["sh", "-c", script, "sh", *argv],
        capture_output=True, text=True, check=False, cwd=REPOSITORY, timeout=60,
    )  # fmt: skip


@pytest.fixture
def group() -> Iterator[Path]:
    """A cgroup such as systemd makes for a service."""
    path = Path("/sys/fs/cgroup/some.service")
    Path("/sys/fs/cgroup/cgroup.subtree_control").write_text("+cpu +cpuset +io +memory +pids")
    path.mkdir()
    yield path
    for child in (path / "others", path):
        if child.exists():
            child.rmdir()


def test_a_delegated_cgroup_is_vacated_and_used(group: Path) -> None:
    os.setxattr(group, "trusted.delegate", b"1")
    run_ = (sys.executable, "-m", "ec2_agent.sandbox", "run", "--json", "--memory-mb", "32")
    probe_ = "import subprocess, sys; print(open('/proc/self/cgroup').read()); "
    probe_ += "sys.stdout.flush(); sys.exit(subprocess.run(sys.argv[1:]).returncode)"
    done = run_in(group, *PYTHON, probe_, *run_, "--", "true")
    assert done.returncode == 0, done.stderr
    before, _, told = done.stdout.strip().rpartition("\n")
    assert before.strip() == "0::/some.service"
    assert json.loads(told)["usage"]["peak_memory_bytes"] > 0
    assert [path.name for path in group.iterdir() if path.is_dir()] == ["others"]


def test_a_user_with_a_delegated_cgroup_has_limits(group: Path) -> None:
    for path in (group, *(group / f"cgroup.{name}" for name in ("procs", "subtree_control"))):
        os.chown(path, 12345, 12345)
    user = ("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "/usr/bin/python3", "-B")
    run_ = (*user, "-m", "ec2_agent.sandbox", "run", "--json", "--memory-mb", "64", "--")
    done = run_in(group, *run_, "/usr/bin/python3", "-c", TOUCH.format(mb=300))
    assert done.stdout, done.stderr
    assert json.loads(done.stdout)["oom_killed"], done.stdout


def test_what_a_crashed_agent_left_is_swept() -> None:
    script = (
        "import os, signal\nfrom ec2_agent.sandbox.launcher import Launcher\n"
        "from ec2_agent.sandbox.model import Limits, Spec\n"
        "launcher = Launcher(isolation='full', slots=2)\n"
        "spec = Spec(('sleep', '60'), {}, Limits())\n"
        "print(launcher.start(spec, stdout=2, stderr=2).leaf, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    crashed = subprocess.run(
        [sys.executable, "-c", script],
        cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=False, timeout=60,
    )  # fmt: skip
    leaf = Path(crashed.stdout.strip())
    assert leaf.name.isdecimal()
    events = leaf.parent / "cgroup.events"
    while events.exists() and "populated 1" in events.read_text():
        time.sleep(0.05)
    with TidyLauncher(isolation="full", slots=0) as launcher:
        launcher.remove_leftovers()  # should another launcher's block have become free meanwhile
        assert not leaf.exists()
        assert [path for path in room(launcher).iterdir() if path.is_dir()] == []
