"""A hostile job gets nothing: the table of cases.py, each in a sandbox of its own."""

import re
from collections.abc import Iterator

import pytest

from ec2_agent.sandbox import Launcher
from tests.sandbox.cases import CASES, Case
from tests.sandbox.running import python
from tests.sandbox.trying import program, reachable


@pytest.fixture(scope="session")
def host() -> Iterator[dict[str, object]]:
    """What a job would reach on the host if it could."""
    with reachable() as names:
        yield names


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind}: {case.name}")
def test_a_hostile_job_gets_nothing(
    launcher: Launcher, host: dict[str, object], case: Case
) -> None:
    ran = python(launcher, program(case, host), env=case.env)
    shown = ran.out.decode("utf-8", "replace").strip()
    assert re.fullmatch(case.shows, shown), f"{shown!r}, {ran.err.decode()}, {ran.ending}"


def test_the_table_is_as_long_as_promised() -> None:
    assert len(CASES) >= 60
    assert len({(case.kind, case.name) for case in CASES}) == len(CASES)
