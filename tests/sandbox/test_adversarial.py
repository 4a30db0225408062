"""Every hostile case of the table in cases.py, tried in a sandbox."""

import re
from collections.abc import Callable, Iterator

import pytest

from ec2_agent.sandbox.launcher import Launcher
from tests.sandbox.cases import CASES, Case, shares
from tests.sandbox.running import python, strongest
from tests.sandbox.trying import program, reachable, shared_program, shown_of


@pytest.fixture(scope="session")
def host() -> Iterator[dict[str, object]]:
    """What a job would reach on the host if it could."""
    with reachable() as names:
        yield names


@pytest.fixture(scope="session")
def shown(shared_launcher: Launcher, host: dict[str, object]) -> Callable[[Case], str]:
    """What a case shows; cases that leave no trace share a sandbox with the others of their kind.

    Each is tried by a process of its own there. A Python that starts in the test machine takes
    a second.
    """
    found: dict[str, str] = {}

    def find(case: Case) -> str:
        cases = [each for each in CASES if each.kind == case.kind and shares(each)]
        if case not in cases:
            ran = python(shared_launcher, program(case, host), env=case.env)
            return ran.out.decode("utf-8", "replace").strip() or f"{ran.err.decode()}, {ran.ending}"
        if case.name not in found:
            ran = python(shared_launcher, shared_program(cases, host), timeout_s=60.0)
            by_place = shown_of(ran.out.decode())
            lost = f"nothing: {ran.err.decode()}, {ran.ending}"
            found.update({each.name: by_place.get(n, lost) for n, each in enumerate(cases)})
        return found[case.name]

    return find


def _marks(case: Case) -> list[pytest.MarkDecorator]:
    if case.kind == "cgroup":
        reason = "this host gives jobs no cgroups; the machine of test_machine.py does"
        return [pytest.mark.cgroup_v2, pytest.mark.skipif(strongest() != "full", reason=reason)]
    if "cgroup" in case.name or "forks(" in case.tries:
        return [pytest.mark.cgroup_v2]
    return []


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=_marks(case)) for case in CASES],
    ids=[f"{case.kind}: {case.name}" for case in CASES],
)
def test_a_hostile_job_gets_nothing(shown: Callable[[Case], str], case: Case) -> None:
    assert re.fullmatch(case.shows, seen := shown(case)), seen


def test_the_table_is_as_long_as_promised() -> None:
    assert len(CASES) >= 60
    assert len({case.name for case in CASES}) == len(CASES)
