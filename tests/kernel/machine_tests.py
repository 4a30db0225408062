"""Which tests run in the test machines: one list, for every architecture."""

import re

import pytest

from tests.kernel import vm
from tests.kernel.architectures import REPOSITORY, Architecture
from tests.sandbox.cases import cases_of
from tests.support.depth import DEEP

ALONE = (
    "tests/kernel/test_limits.py",
    "tests/kernel/test_cgroups.py",
    "tests/kernel/test_disks.py",
)
"""They use up the machine's memory."""

SIDE_BY_SIDE = (
    (
        "tests/sandbox/test_disks.py",
        "tests/sandbox/test_endings.py",
        "tests/sandbox/test_keepers.py",
        "tests/sandbox/test_egress.py",
    ),
    (
        "tests/sandbox/test_adversarial.py",
        "tests/sandbox/test_syscalls.py",
        "tests/sandbox/test_bundles.py",
        "tests/sandbox/test_fact_commands.py",
        "tests/sandbox/test_native.py",
        "tests/sandbox/test_own_inodes.py",
        "tests/sandbox/test_output.py",
        "tests/sandbox/test_programs.py",
        "tests/sandbox/test_soak.py",
        "tests/sandbox/test_what_programs_see.py",
        "tests/sandbox/test_work.py",
    ),
)
"""Two lists that take both cores."""

WITH_PACKAGES = (
    "tests/sandbox/test_held_work.py",
    "tests/sandbox/test_output_files.py",
    "tests/sandbox/test_streams_by_name.py",
)
"""What imports packages of the agent: run where the machine has the host's root, and so those."""

ON_THE_HOST = ("tests/sandbox/test_hosts.py",)
"""What runs on the host where it has the machine's architecture, and in the machine elsewhere."""

_SLOW = "has time limits that emulation exceeds, and needs the AWS packages of the agent"
_VALUES = "decisions on values, in which neither kernel nor CPU has a part"
LEFT_OUT = {
    "tests/kernel/test_arm64.py": "boots such a machine",
    "tests/kernel/test_machine.py": "boots such a machine",
    "tests/kernel/test_systemd.py": "boots such a machine, which needs the host's systemd",
    "tests/sandbox/test_architectures.py": _VALUES,
    "tests/sandbox/test_host_fact_commands.py": "programs of the host, which are in no sandbox",
    "tests/sandbox/test_left_processes.py": _SLOW,
    "tests/sandbox/test_limits_values.py": _VALUES,
    "tests/sandbox/test_line_page.py": _SLOW,
    "tests/sandbox/test_plan.py": _VALUES,
    "tests/sandbox/test_shim_disks.py": _SLOW,
    "tests/sandbox/test_shim_line.py": _SLOW,
    "tests/sandbox/test_shims.py": _SLOW,
    "tests/sandbox/test_shims_again.py": _SLOW,
    "tests/sandbox/test_shims_killed.py": _SLOW,
    "tests/sandbox/test_short.py": _SLOW,
    "tests/sandbox/test_streams.py": _SLOW,
    "tests/sandbox/test_uids.py": "directories and their owners, which no architecture changes",
}
"""Run on the host only, each with the reason."""

FEWEST = 20
"""How many tests each pytest must have passed at least, and one all of the adversarial cases where
they are tried: a machine that runs nothing must not pass."""

MARKER = "cgroup_v2"
"""Of the tests that a machine of the host's own architecture runs by default: what needs cgroup v2,
or does otherwise with it. The host runs the others; a deep run has all of them in both places."""

# Emulated, imports are slow: of plugins and conftest.py only what these tests use is loaded.
_SCRIPT = r"""
export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 JOBLANE_DEEP={deep}
exec $PWD/.venv/bin/python -m tests.kernel.pytests --quiet --color=no --durations=3 \
    -p no:cacheprovider -p pytest_timeout --confcutdir=$PWD/tests/sandbox {selected} <<END
{runs}
END
"""


def tries_all(architecture: Architecture) -> bool:
    """Whether all tests run in the machine: where no others are there to run them, and if deep."""
    return DEEP or not architecture.has_host_root


def script(architecture: Architecture, *, everything: bool) -> str:
    """Give the shell script that runs the tests in a machine: all, or those with the marker."""
    first, second = SIDE_BY_SIDE
    at_first, last = ((), WITH_PACKAGES) if architecture.has_host_root else (ON_THE_HOST, ())
    runs: tuple[tuple[str, ...], ...] = ((*ALONE, *at_first), first, (*second, *last))
    selected = ""
    if not everything:
        selected = f"-m '{MARKER} and not deep'"
        *alone, disks = ALONE
        some = (file for file in (disks, *first, *second, *last) if MARKER in _text(file))
        runs = ((), tuple(alone), tuple(some))
    return _SCRIPT.format(
        runs="\n".join(map(" ".join, runs)),
        selected=selected,
        deep=int(everything),
    )


def _text(file: str) -> str:
    return (REPOSITORY / file).read_text(encoding="utf-8")


def check_machine(architecture: Architecture, longest_s: float) -> None:
    """Boot a machine and run the tests in it; fails if one fails there, or if too few run."""
    if lacking := vm.missing(architecture):
        pytest.fail(lacking)
    everything = tries_all(architecture)
    command = ["sh", "-c", script(architecture, everything=everything)]
    finished = vm.run(command, longest_s, architecture)
    seen = finished.output[-6000:] + finished.console[-2000:]
    assert finished.exit_code == 0, seen
    passed = sorted(int(count) for count in re.findall(r"(\d+) passed", finished.output))
    assert passed[0] >= FEWEST, seen
    if everything:
        assert len(passed) == 1 + len(SIDE_BY_SIDE), seen
        assert passed[-1] >= len(cases_of(architecture.machine)), seen
    else:
        assert len(passed) == len(SIDE_BY_SIDE), seen
        assert "skipped" not in finished.output, seen
    print(finished.output)
