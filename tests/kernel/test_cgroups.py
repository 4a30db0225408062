"""Where the cgroups of jobs are made, and what becomes of those that a crash leaves.

As test_limits.py, in the test machine where the host has no cgroup v2.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ec2_agent.sandbox.__main__ import main as command_line
from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.model import SandboxLimits, Spec
from tests.kernel.test_limits import TOUCH
from tests.sandbox.running import TidyLauncher, fork, room, strongest

pytestmark = [
    pytest.mark.cgroup_v2,
    pytest.mark.skipif(strongest() != "full", reason="needs cgroup v2; test_machine.py brings one"),
]


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

    def bystander() -> None:
        (group / "cgroup.procs").write_text(str(os.getpid()))
        print(Path("/proc/self/cgroup").read_text(), flush=True)
        with fork(sandbox) as (_, output):
            sys.stdout.write(output.read().decode())

    def sandbox() -> None:
        sys.argv[1:] = ["run", "--json", "--memory-mb", "32", "--", "true"]
        print(command_line())

    with fork(bystander) as (_, output):
        before, _, told, code, _ = output.read().decode().split("\n")
    assert (before, code) == ("0::/some.service", "0")
    assert json.loads(told)["usage"]["peak_memory_bytes"] > 0
    assert [path.name for path in group.iterdir() if path.is_dir()] == ["others"]


def test_a_user_with_a_delegated_cgroup_has_limits(group: Path) -> None:
    for path in (group, *(group / f"cgroup.{name}" for name in ("procs", "subtree_control"))):
        os.chown(path, 12345, 12345)
    touch = ("/usr/bin/python3", "-c", TOUCH.format(mb=300))

    def user() -> None:
        (group / "cgroup.procs").write_text(str(os.getpid()))
        os.setgroups([])
        os.setresgid(12345, 12345, 12345)
        os.setresuid(12345, 12345, 12345)
        sys.executable = "/usr/bin/python3"
        sys.argv[1:] = ["run", "--json", "--memory-mb", "64", "--", *touch]
        command_line()

    with fork(user) as (_, output):
        assert json.loads(output.read())["oom_killed"]


def test_what_a_crashed_agent_left_is_swept() -> None:
    def crash() -> None:
        launcher = Launcher(isolation="full", slots=2)
        spec = Spec(("sleep", "60"), {}, SandboxLimits())
        print(launcher.start(spec, stdout=2, stderr=2).leaf, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    with fork(crash) as (_, output):
        leaf = Path(output.read().decode().strip())
    assert leaf.name.isdecimal()
    events = leaf.parent / "cgroup.events"
    while events.exists() and "populated 1" in events.read_text():
        time.sleep(0.05)
    with TidyLauncher(isolation="full", slots=0) as launcher:
        launcher.remove_leftovers()  # should another launcher's block have become free meanwhile
        assert not leaf.exists()
        assert [path for path in room(launcher).iterdir() if path.is_dir()] == []
