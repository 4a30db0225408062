"""The agent's clock: nobody sets it but AWS."""

from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest

from ec2_agent.host.clock import TOLERATED_S, Clock


class Host:
    """A host whose clocks a test sets."""

    def __init__(self) -> None:
        self.wall, self.since_boot = 1_800_000_000.0, 50.0

    def pass_(self, seconds: float) -> None:
        """Let time pass."""
        self.wall += seconds
        self.since_boot += seconds

    def clock(self) -> Clock:
        """A clock that begins now."""
        return Clock(lambda: self.wall, lambda: self.since_boot)


def answer(date: object) -> dict[str, Any]:
    return {"ResponseMetadata": {"HTTPHeaders": {"date": date}}}


def said(at: float) -> dict[str, Any]:
    """An answer of a server whose clock says so."""
    return answer(format_datetime(datetime.fromtimestamp(at, UTC), usegmt=True))


@pytest.mark.parametrize("jump", [-3600, 3600, -5, 5])
def test_a_jump_of_the_hosts_clock_is_none_of_ours(jump: int):
    host = Host()
    clock = host.clock()
    host.pass_(7)
    host.wall += jump
    assert clock() == host.wall - jump


@pytest.mark.parametrize("off", [-3600, -11, 11, 3600])
def test_it_is_set_by_aws_when_it_is_off_by_more_than_an_answer_takes(off: int):
    host = Host()
    clock = host.clock()
    clock.adjust(said(host.wall + off))
    host.pass_(3)
    assert clock() == host.wall + off


def test_an_answer_that_was_under_way_for_long_sets_nothing():
    host = Host()
    clock = host.clock()
    clock.adjust(said(host.wall - TOLERATED_S + 1))
    assert clock() == host.wall


@pytest.mark.parametrize("nothing", [{}, answer(None), answer("yesterday"), answer("")])
def test_an_endpoint_that_names_no_time_is_borne(nothing: dict[str, Any]):
    host = Host()
    clock = host.clock()
    clock.adjust(nothing)
    assert clock() == host.wall


def test_the_same_answer_again_is_an_old_one():
    host = Host()
    clock = host.clock()
    first = said(host.wall + 60)
    clock.adjust(first)
    host.pass_(TOLERATED_S + 5)
    clock.adjust(first)
    assert clock() == host.wall + 60
