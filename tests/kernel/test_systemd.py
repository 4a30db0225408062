"""The units and the install script under a real systemd: jobs with limits outlive their agent.

tests/e2e/test_systemd.py is the same with the real agent, AWS and many jobs, by hand.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from infra.agent_install import AGENT_UNIT, JOBS_CGROUP, JOBS_UNIT
from tests.kernel import vm
from tests.kernel.architectures import REPOSITORY
from tests.kernel.instance import Instance

STATE = "/var/lib/joblane"
UNITS = REPOSITORY / "infra" / "agent"
COMMAND = f"{REPOSITORY}/.venv/bin/python -B -m tests.kernel.standing_agent"

LONGEST_S = 60

pytestmark = pytest.mark.timeout(4 * LONGEST_S)


@pytest.fixture(name="instance")
def _instance() -> Iterator[Instance]:
    if lacking := vm.missing():
        pytest.fail(lacking)
    with vm.booted(2 * LONGEST_S) as machine:
        path = f"{REPOSITORY}:{REPOSITORY}/layers/core/python"
        yield Instance(machine, COMMAND, {"PYTHONPATH": path}, threads=2)


def until(condition: str) -> str:
    """A script that waits for a condition, for so long; no pause starts a process, emulated."""
    pause = f"[ $SECONDS -lt {LONGEST_S} ] || exit 1; read -rt 0.2 <>/run/pause || :"
    return (
        f"[ -p /run/pause ] || mkfifo /run/pause; until {condition}; do {pause}; done 2>/dev/null"
    )


OPEN = {
    AGENT_UNIT: {
        *("CapabilityBoundingSet", "DeviceAllow", "IPAddressDeny", "LockPersonality"),
        *("MemoryDenyWriteExecute", "PrivateNetwork", "PrivateUsers", "ProcSubset"),
        *("ProtectControlGroups", "ProtectHome", "ProtectHostname", "ProtectKernelTunables"),
        *("ProtectProc", "RestrictAddressFamilies", "RestrictNamespaces", "RestrictSUIDSGID"),
        *("PrivateDevices", "RootDirectory", "SystemCallFilter", "UMask", "User"),
    },
    JOBS_UNIT: {
        *("Delegate", "DeviceAllow", "IPAddressDeny", "PrivateDevices", "PrivateUsers"),
        *("ProtectClock", "RootDirectory", "User"),
    },
}
"""Settings that are open, if only in part; docs/decisions/0111-a-unit-for-the-jobs.md says why."""

MOST_EXPOSED = {AGENT_UNIT: 49, JOBS_UNIT: 13}
"""By the scale of systemd-analyze. A unit without any of these settings has 96."""


def wait_until_ready(instance: Instance, before: int = 0) -> int:
    """Wait until another agent than `before` has its jobs; give its process."""
    new = f"[ ${{pid:-{before}}} != {before} ]"
    instance(until(f"{{ read -r pid <{STATE}/ready; {new}; }}"))
    return int(instance.show(AGENT_UNIT, "MainPID"))


def jobs(instance: Instance) -> set[str]:
    """Every process below the first launcher's cgroup."""
    return set(instance(f"cat {JOBS_CGROUP}/joblane-0/*/cgroup.procs").split())


def test_jobs_outlive_an_upgrade_and_a_crash(instance: Instance) -> None:
    instance.install("one")
    pid = wait_until_ready(instance)
    shims = instance(f"cat {STATE}/jobs/*/shim").replace("}{", "}\n{").splitlines()
    inits = {str(json.loads(shim)["init"]["pid"]) for shim in shims}
    assert len(inits) == 2
    keeper = instance.show(JOBS_UNIT, "MainPID")
    instance(f"touch {STATE}/broken")
    instance.install("broken", works=False)
    assert inits <= jobs(instance)
    instance(f"rm {STATE}/broken")
    instance.install("two")  # restarts the unit
    pid = wait_until_ready(instance, pid)
    assert inits <= jobs(instance)
    instance(f"systemctl kill --signal KILL {AGENT_UNIT}")  # all that its cgroup has
    wait_until_ready(instance, pid)
    assert inits <= jobs(instance)
    assert keeper == instance.show(JOBS_UNIT, "MainPID")
    assert "joblane-0" in instance.rooms()
    assert len(instance.rooms()) == 2
    limits = instance(f"cat {JOBS_CGROUP}/memory.max {JOBS_CGROUP}/joblane-*/memory.max").split()
    assert all(int(limit) < int(limits[0]) for limit in limits[1:]), limits

    instance.tell_jobs_to_stop()
    instance(until(f"[ ! -d {JOBS_CGROUP}/joblane-0 ]"))
    quiet, greedy = (end(instance, name) for name in ("quiet", "greedy"))
    assert (quiet["exit_code"], quiet["oom_killed"]) == (7, False)
    assert 0 < quiet["usage"]["peak_memory_bytes"] < 32 << 20
    assert greedy["oom_killed"]
    assert len(instance.rooms()) == instance("nft list tables").count("joblane-") == 1
    assert "jl0-" not in instance("ip -br link")
    instance(until('[ -z "$(losetup --list --noheadings)" ]'))  # the disk went with its job
    assert instance.show(JOBS_UNIT, "ActiveState") == "active"  # an OOM of a job is not its own


@pytest.mark.parametrize("unit", [AGENT_UNIT, JOBS_UNIT])
def test_a_unit_has_only_the_rights_that_it_needs(unit: str) -> None:
    """The test above is what needs them."""
    if shutil.which("systemd-analyze") is None:
        pytest.fail("systemd-analyze is not installed; run scripts/kernel-deps")
    analyze = ["systemd-analyze", "security", "--offline=true", "--no-pager", "--json=short"]
    done = subprocess.run(
        [*analyze, f"--threshold={MOST_EXPOSED[unit]}", str(UNITS / unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert OPEN[unit] == {row["name"].partition("=")[0] for row in rows if row["exposure"]}


def end(instance: Instance, name: str) -> dict[str, Any]:
    """How a job ended, as its last agent has heard it."""
    said: dict[str, Any] = json.loads(instance(f"cat {STATE}/ends/{name}"))
    return said
