"""Programs see the machine that their job has: docs/reference/what-programs-see.md."""

import os
import shutil
from pathlib import Path

import pytest

from ec2_agent.sandbox import wire
from ec2_agent.sandbox.launcher import DEFAULTS, Launcher
from ec2_agent.sandbox.limits import LauncherCgroup
from ec2_agent.sandbox.machine import Machine
from ec2_agent.sandbox.model import SandboxLimits
from ec2_agent.sandbox.proc_files import HostProcessors
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
        (
            SandboxLimits(memory_mb=256),
            {
                "JOBLANE_CPUS": "8",
                "JOBLANE_MEMORY_MB": "256",
                "GOMEMLIMIT": "230MiB",
                "NODE_OPTIONS": "--max-old-space-size=128",
            },
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


PROGRAMS = (
    ("free", "Mem: "),
    ("vmstat", "memory"),
    ("ps aux", "joblane-sandbox"),
    ("uptime", "load average: 0.00, 0.00, 0.00"),
    ("top -bn1", "Tasks: "),
    ("nproc", ""),
    ("getconf _NPROCESSORS_ONLN", ""),
    ("df /work", "tmpfs"),
    ("mount", "proc on /proc type proc (ro"),
)


@pytest.mark.parametrize(("command", "says"), PROGRAMS, ids=[p[0] for p in PROGRAMS])
def test_programs_that_ask_about_the_machine_work(
    launcher: Launcher, command: str, says: str
) -> None:
    if shutil.which(command.split(maxsplit=1)[0]) is None:
        pytest.skip(f"{command.split(maxsplit=1)[0]} is not installed here")
    ran = shell(launcher, command)
    assert (0, b"") == (ran.ending.exit_code, ran.err)
    assert says in ran.out.decode()


_MACHINE_SEEN = """
grep -c ^processor /proc/cpuinfo
grep -c '^cpu[0-9]' /proc/stat
getconf _NPROCESSORS_ONLN
awk '/^(MemTotal|MemAvailable):/ { print $2 }' /proc/meminfo
"""


def seen_of(processors: int, memory_mb: int) -> bytes:
    """What _MACHINE_SEEN writes."""
    numbers = (*(processors,) * 3, *(memory_mb << 10,) * 2)
    return "".join(f"{number}\n" for number in numbers).encode()


@pytest.mark.parametrize("ready", [True, False])
@pytest.mark.parametrize(
    "machine",
    [Machine(100, 3.0, limits_cpus=True), Machine(1 << 20, 0.5, limits_cpus=True)],
    ids=["other", "smaller"],
)
def test_a_slot_is_told_its_jobs_machine(machine: Machine, ready: bool) -> None:
    with TidyLauncher(isolation="namespaces", slots=int(ready)) as launcher:
        wait_until_ready(launcher)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Machine, "of", lambda *_: machine)
            same = SandboxLimits(tmp_mb=DEFAULTS.tmp_mb)  # so that a slot of the pool is taken
            ran = shell(launcher, _MACHINE_SEEN, limits=same)
        assert seen_of(machine.processors, machine.memory_mb or 0) == ran.out, ran
        shell(launcher, "true")
        assert ran.out != shell(launcher, _MACHINE_SEEN).out


@pytest.mark.parametrize("count", [1, 16, 64, 448, 900])
@pytest.mark.parametrize("flags", [40, 400])
def test_any_machine_fits_into_a_message(count: int, flags: int) -> None:
    fields = {
        "processor": "0",
        "vendor_id": "GenuineIntel",
        "model name": "x" * 48,
        "apicid": "77",
        "flags": "sse4_2 " * flags,
    }
    host = HostProcessors(fields, 0, 1 << 20)
    files = dict(zip(wire.MACHINE_FILES, host.files_of(Machine(None, count, False)), strict=True))
    assert len(wire.machine_body(tuple(files.values()))) <= wire.PACKET
    assert (
        min(count, 448) == files["cpuinfo"].count(b"processor\t") == files["stat"].count(b"cpu") - 1
    )
    assert b"apicid" not in files["cpuinfo"]


@pytest.mark.cgroup_v2
@pytest.mark.skipif(strongest() != "full", reason="needs cgroup v2; test_machine.py brings one")
@pytest.mark.parametrize("ready", [True, False])
def test_a_jobs_own_limits_are_its_machine(launcher: Launcher, ready: bool) -> None:
    script = (
        "cd /sys/fs/cgroup; cat memory.max pids.max cpu.max; echo $JOBLANE_MEMORY_MB $JOBLANE_CPUS"
    )
    wait_until_ready(launcher)
    limits = SandboxLimits(memory_mb=128, cpus=0.5, tmp_mb=64 if ready else 7)
    ran = shell(launcher, script + _MACHINE_SEEN, limits=limits)
    assert b"134217728\n201\n50000 100000\n128 0.5\n" + seen_of(1, 128) == ran.out


@pytest.mark.cgroup_v2
@pytest.mark.skipif(strongest() != "full", reason="needs cgroup v2; test_machine.py brings one")
def test_the_defaults_are_the_machine_of_a_job_without_limits(launcher: Launcher) -> None:
    assert seen_of(len(os.sched_getaffinity(0)), 512) == shell(launcher, _MACHINE_SEEN).out
