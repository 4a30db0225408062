"""Programs see the machine that their job has: docs/reference/what-programs-see.md."""

import os
import shutil
from pathlib import Path

import pytest

from ec2_agent.sandbox.launcher import Launcher
from ec2_agent.sandbox.limits import LauncherCgroup
from ec2_agent.sandbox.machine import Machine
from ec2_agent.sandbox.model import SandboxLimits
from tests.sandbox.running import TidyLauncher, is_emulated, shell, strongest, wait_until_ready

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


@pytest.mark.skipif(
    shutil.which("java") is None or is_emulated(), reason="java is not installed here, or too slow"
)
def test_java_finds_its_configuration(launcher: Launcher) -> None:
    ran = shell(launcher, "java -XX:TieredStopAtLevel=1 -XshowSettings:security -version 2>&1")
    assert (0, True) == (ran.ending.exit_code, b"openjdk version" in ran.out), ran.out


def test_a_job_has_what_the_fleet_names() -> None:
    names = ("shells", "shadow", "no-such-file")
    with TidyLauncher(isolation=strongest(), slots=0, etc=names) as launcher:
        ran = shell(launcher, "cat /etc/shells; ls /etc/shadow")
        left_out = launcher.etc_left_out
    assert Path("/etc/shells").read_bytes() == ran.out
    assert b"No such file" in ran.err
    assert (
        "/etc/shadow: not every user may read it",
        "/etc/no-such-file: nothing is there",
    ) == left_out


@pytest.mark.cgroup_v2
@pytest.mark.skipif(strongest() != "full", reason="needs cgroup v2; test_machine.py brings one")
@pytest.mark.parametrize("ready", [True, False])
def test_the_cgroup_tells_the_jobs_own_limits(launcher: Launcher, ready: bool) -> None:  # noqa: FBT001
    script = "cd /sys/fs/cgroup && cat memory.max pids.max cpu.max; echo $JOBLANE_MEMORY_MB $JOBLANE_CPUS"
    wait_until_ready(launcher)
    limits = SandboxLimits(memory_mb=128, cpus=0.5, tmp_mb=64 if ready else 7)
    ran = shell(launcher, script, limits=limits)
    assert b"134217728\n201\n50000 100000\n128 0.5\n" == ran.out
