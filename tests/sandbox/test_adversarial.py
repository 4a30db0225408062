"""A hostile job gets nothing: the table of cases.py, each in a sandbox of its own."""

import os
import re
import socket
from collections.abc import Iterator

import pytest

from ec2_agent.sandbox import Launcher
from tests.sandbox.cases import CASES, Case
from tests.sandbox.running import python
from tests.sandbox.trying import program


@pytest.fixture(scope="session")
def host() -> Iterator[dict[str, object]]:
    """What a job would reach on the host if it could."""
    abstract = f"joblane-test-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as unix,
    ):
        unix.bind("\0" + abstract)
        unix.listen()
        yield {
            "HOST_PORT": server.getsockname()[1],
            "HOST_ABSTRACT": abstract,
            "HOST_PID": os.getpid(),
        }


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
