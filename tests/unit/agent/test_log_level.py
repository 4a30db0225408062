"""The level of the agent's log is set for a while, and goes back by itself."""

import asyncio
import logging
from collections.abc import Iterator

import pytest

from ec2_agent.logging import events
from ec2_agent.logging.event import DEBUG, INFO, WARNING, write_from
from ec2_agent.logging.level import LevelSwitch
from ec2_agent.logging.standard import LOGGER
from tests.support.virtual_time import run

BEGAN = 1_800_000_000.0


@pytest.fixture(autouse=True)
def _usual(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG, LOGGER)
    yield
    write_from(INFO)


def names(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The events that were written since the last call."""
    found = [record.__dict__["event"] for record in caplog.records if record.name == LOGGER]
    caplog.clear()
    return found


def write_all() -> None:
    """Write an event of each level."""
    events.heartbeat_written(3)
    events.uncordoned()
    events.cordoned(1)
    events.launcher_died()


def switch() -> LevelSwitch:
    """A switch whose clock is that of the loop."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    return LevelSwitch(lambda: BEGAN + loop.time() - began_s)


def test_a_level_holds_until_its_end(caplog: pytest.LogCaptureFixture):
    async def work() -> None:
        level = switch()
        write_all()
        assert ["uncordoned", "cordoned", "launcher_died"] == names(caplog)
        level.set("debug", int((BEGAN + 60) * 1000))
        write_all()
        assert [
            *("log_level_set", "heartbeat_written", "uncordoned", "cordoned", "launcher_died"),
        ] == names(caplog)
        await asyncio.sleep(59)
        events.heartbeat_written(3)
        assert ["heartbeat_written"] == names(caplog)
        await asyncio.sleep(2)
        write_all()
        assert ["log_level_back", "uncordoned", "cordoned", "launcher_died"] == names(caplog)

    run(work())


def test_the_latest_wish_counts_and_what_is_over_sets_nothing(caplog: pytest.LogCaptureFixture):
    async def work() -> None:
        level = switch()
        level.set("debug", int((BEGAN + 60) * 1000))
        level.set("warning", int((BEGAN + 30) * 1000))
        names(caplog)
        write_all()
        assert ["cordoned", "launcher_died"] == names(caplog)
        await asyncio.sleep(31)
        assert ["log_level_back"] == names(caplog)
        level.set("debug", int((BEGAN + 20) * 1000))  # delivered again
        await asyncio.sleep(60)
        write_all()
        assert ["uncordoned", "cordoned", "launcher_died"] == names(caplog)

    run(work())


def test_info_ends_a_wish(caplog: pytest.LogCaptureFixture):
    async def work() -> None:
        level = switch()
        level.set("debug", int((BEGAN + 60) * 1000))
        level.set("info", int((BEGAN + 60) * 1000))
        names(caplog)
        write_all()
        assert ["uncordoned", "cordoned", "launcher_died"] == names(caplog)
        level.close()

    run(work())


def test_errors_are_always_written(caplog: pytest.LogCaptureFixture):
    write_from(10 * WARNING)
    write_all()
    assert ["launcher_died"] == names(caplog)
    write_from(DEBUG)
    write_all()
    assert 4 == len(names(caplog))
