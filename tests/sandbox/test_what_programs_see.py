"""Programs see the machine that their job has: docs/reference/what-programs-see.md."""

import os
from pathlib import Path

import pytest

from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.limits import LauncherCgroup
from ec2_agent.sandbox.machine import Machine
from ec2_agent.sandbox.model import SandboxLimits
from tests.sandbox.running import shell, strongest, wait_until_ready

EIGHT = LauncherCgroup(Path("/unused"), frozenset(), frozenset(range(8)), ())


@pytest.mark.parametrize(
    ("asked", "variables"),
    [
        (SandboxLimits(), {"JOBLANE_CPUS": "8"}),
        (
            SandboxLimits(memory_mb=512),
            {"JOBLANE_CPUS": "8", "JOBLANE_MEMORY_MB": "512", "GOMEMLIMIT": "460MiB"},
        ),
        (SandboxLimits(cores="2-3"), {"JOBLANE_CPUS": "2"}),
        (SandboxLimits(cpus=8.0), {"JOBLANE_CPUS": "8"}),
        (SandboxLimits(cpus=64.0), {"JOBLANE_CPUS": "8"}),
        (
            SandboxLimits(cpus=1.5),
            {"JOBLANE_CPUS": "1.5", "GOMAXPROCS": "2", "PYTHON_CPU_COUNT": "2"},
        ),
        (
            SandboxLimits(cpus=0.01, cores="5"),
            {"JOBLANE_CPUS": "0.01", "GOMAXPROCS": "1", "PYTHON_CPU_COUNT": "1"},
        ),
    ],
    ids=str,
)
def test_the_environment_tells_the_limits(asked: SandboxLimits, variables: dict[str, str]):
    assert variables == Machine.of(asked, EIGHT).variables()


def test_without_cgroups_the_processors_are_those_of_the_agent() -> None:
    found = Machine.of(SandboxLimits(), None)
    assert str(len(os.sched_getaffinity(0))) == found.variables()["JOBLANE_CPUS"]


def test_a_jobs_own_variables_prevail(launcher: Launcher) -> None:
    named = {"JOBLANE_CPUS": "7", "PYTHONUNBUFFERED": "", "GOMEMLIMIT": "off"}
    ran = shell(launcher, 'echo "$JOBLANE_CPUS:$PYTHONUNBUFFERED:$GOMEMLIMIT"', env=named)
    assert b"7::off\n" == ran.out


def test_lines_of_python_are_output_at_once(launcher: Launcher) -> None:
    program = 'import os; print("said"); os.kill(os.getpid(), 9)'
    assert b"said\n" == shell(launcher, f"exec python3 -c '{program}'").out


def test_temporary_files_may_be_in_var_tmp(launcher: Launcher) -> None:
    ran = shell(launcher, "sort -T /var/tmp /etc/passwd -o /var/tmp/sorted && cd /var/tmp && ls")
    assert (b"sorted\n", b"") == (ran.out, ran.err)


@pytest.mark.cgroup_v2
@pytest.mark.skipif(strongest() != "full", reason="needs cgroup v2; test_machine.py brings one")
@pytest.mark.parametrize("ready", [True, False])
def test_the_cgroup_tells_the_jobs_own_limits(launcher: Launcher, ready: bool) -> None:  # noqa: FBT001
    script = "cd /sys/fs/cgroup && cat memory.max pids.max cpu.max; echo $JOBLANE_MEMORY_MB $JOBLANE_CPUS"
    wait_until_ready(launcher)
    limits = SandboxLimits(memory_mb=128, cpus=0.5, tmp_mb=64 if ready else 7)
    ran = shell(launcher, script, limits=limits)
    assert b"134217728\n201\n50000 100000\n128 0.5\n" == ran.out
