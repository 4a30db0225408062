"""What the tests of the sandbox say of both architectures, so that neither rots unseen.

Most runs try x86_64 only; `scripts/test arm64` boots a machine of the other.
"""

import ctypes
import re
from pathlib import Path

import pytest

from ec2_agent.sandbox import seccomp, steps, syscalls
from tests.kernel import machine_tests
from tests.kernel.architectures import ARCHITECTURES, X86_64, Architecture
from tests.sandbox.cases import ALL_CASES, Case, cases_of, prelude
from tests.sandbox.numbers import NUMBERS
from tests.sandbox.running import REPOSITORY

AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""AUDIT_ARCH_* of linux/audit.h."""

MACHINES = sorted(each.machine for each in ARCHITECTURES.values())


def number(name: str, machine: str) -> int:
    """Give the number in libseccomp: negative if the architecture has none, -1 if unknown."""
    resolve = ctypes.CDLL(seccomp.SONAME).seccomp_syscall_resolve_name_arch
    return int(resolve(ctypes.c_uint32(AUDIT[machine]), name.encode()))


def test_every_test_is_in_the_list_of_the_machines_or_left_out_with_a_reason() -> None:
    there = [
        str(path.relative_to(REPOSITORY))
        for folder in ("kernel", "sandbox")
        for path in (Path(REPOSITORY) / "tests" / folder).glob("test_*.py")
    ]
    beside = [file for files in machine_tests.SIDE_BY_SIDE for file in files]
    some = [*machine_tests.WITH_PACKAGES, *machine_tests.ON_THE_HOST, *machine_tests.LEFT_OUT]
    assert sorted(there) == sorted([*machine_tests.ALONE, *beside, *some])
    assert all(machine_tests.LEFT_OUT.values())


def in_machine(architecture: Architecture, *, everything: bool) -> set[str]:
    """The files of tests that a machine runs."""
    script = machine_tests.script(architecture, everything=everything)
    return set(re.findall(r"tests/\w+/test_\w+\.py", script))


def test_what_needs_cgroups_is_in_the_machine_by_default() -> None:
    marked = {
        str(path.relative_to(REPOSITORY))
        for path in (REPOSITORY / "tests").glob("*/test_*.py")
        if f"mark.{machine_tests.MARKER}" in path.read_text(encoding="utf-8")
    }
    assert marked == in_machine(X86_64, everything=False)


def test_both_machines_run_the_same_tests_but_those_with_packages() -> None:
    files = {name: in_machine(each, everything=True) for name, each in ARCHITECTURES.items()}
    assert files["arm64"] - files["x86_64"] == set(machine_tests.ON_THE_HOST)
    assert files["x86_64"] - files["arm64"] == set(machine_tests.WITH_PACKAGES)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_security_page_counts_the_cases_of_each_architecture(machine: str) -> None:
    page = (REPOSITORY / "docs" / "explanation" / "security.md").read_text()
    cases = cases_of(machine)
    assert f"| {len(cases)} escapes and abuses" in page
    assert len({case.name for case in cases}) == len(cases)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_of_what_slots_call_are_those_of_the_architecture(machine: str) -> None:
    assert {name: number(name, machine) for name in steps.NUMBERS[machine]} == steps.NUMBERS[
        machine
    ]


def test_every_case_is_for_an_architecture_that_there_is() -> None:
    assert all(case.machines and {*case.machines} <= {*MACHINES} for case in ALL_CASES)


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: f"{case.kind}: {case.name}")
def test_a_case_makes_calls_that_its_architectures_have(case: Case) -> None:
    for name in re.findall(r"\bNR_(\w+)", case.tries):
        assert all(number(name, machine) >= 0 for machine in case.machines), name
    compile(f"{prelude(case.tries)}\n{case.tries}", case.name, "exec")


@pytest.mark.parametrize("machine", MACHINES)
def test_libseccomp_and_the_kernel_number_the_calls_alike(machine: str) -> None:
    assert NUMBERS.keys() == {*syscalls.ALLOWED, *syscalls.REFUSED}
    ours = {name: getattr(numbers, machine) for name, numbers in NUMBERS.items()}
    known = {name for name in ours if number(name, machine) != -1}
    theirs = {name: number(name, machine) for name in known}
    assert {name: ours[name] for name in known} == {
        name: found if found >= 0 else None for name, found in theirs.items()
    }
