"""What an agent's heartbeat says of its slots, and how it learns that it is surplus."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from ec2_agent.presence.lease import Lease, Load
from ec2_agent.presence.standing import Standing
from joblane.state.lease import Heartbeat
from tests.support.agents import Parts, settings
from tests.support.aws import DESCRIPTOR, Cloud
from tests.support.fleet import heartbeat

NOW_MS = 1_800_000_000_000


def row(**fields: Any) -> Heartbeat:
    return heartbeat("agent-1", NOW_MS, **fields)


def lease(aws: Cloud, directory: Path) -> Lease:
    return Lease(
        settings(),
        Parts(aws.clients).agents,
        time.time,
        time.monotonic,
        Parts(aws.clients).roster,
        Standing(directory, lambda: None),
        lambda: Load({"bulk": 1}, 3),
    )


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"left": 0, "taken": {}},
        {"left": 3, "taken": {"default": 4, "bulk": 1}, "surplus_ms": NOW_MS},
    ],
)
def test_a_row_is_read_as_it_was_written(aws: Cloud, fields: dict[str, Any]):
    aws.agents.beat(row(**fields))
    assert row(**fields) == aws.agents.get("agent-1")


def test_a_heartbeat_says_what_the_agent_has_left(aws: Cloud, tmp_path: Path):
    asyncio.run(lease(aws, tmp_path).announce())
    found = aws.agents.get("agent-1")
    assert found is not None
    assert (3, {"bulk": 1}, None) == (found.left, found.taken, found.surplus_ms)


def test_an_agent_that_serves_is_named_surplus_once(aws: Cloud):
    aws.agents.beat(row())
    beat_ms = row().beat_ms
    assert aws.agents.name_surplus("agent-1", NOW_MS, beat_ms=beat_ms)
    assert not aws.agents.name_surplus("agent-1", NOW_MS + 1, beat_ms=beat_ms)
    assert row(surplus_ms=NOW_MS) == aws.agents.get("agent-1")


@pytest.mark.parametrize(
    "fields",
    [
        {"mode": "draining"},
        {"mode": "cordoned"},
        {"trouble": "the disk is full"},
        {"beat_ms": row().beat_ms - 1},
        {"surplus_ms": 5},
    ],
)
def test_an_agent_that_has_changed_is_not_named(aws: Cloud, fields: dict[str, Any]):
    aws.agents.beat(row(**fields))
    assert not aws.agents.name_surplus("agent-1", NOW_MS, beat_ms=row().beat_ms)
    assert row(**fields) == aws.agents.get("agent-1")


def test_an_agent_that_is_gone_is_not_named(aws: Cloud):
    assert not aws.agents.name_surplus("agent-1", NOW_MS, beat_ms=0)
    items = aws.clients.make("dynamodb").scan(TableName=DESCRIPTOR.agents_table)["Items"]
    assert [] == items


def test_an_agent_learns_of_it_with_its_next_heartbeat_and_says_so(aws: Cloud, tmp_path: Path):
    """A heartbeat replaces the whole row: what was written in between must not be lost."""
    own = lease(aws, tmp_path)

    async def work() -> None:
        await own.announce()
        assert own.surplus_ms is None
        assert aws.agents.name_surplus("agent-1", NOW_MS, beat_ms=0)
        for _ in range(2):
            await own.announce()
            assert NOW_MS == own.surplus_ms
        found = aws.agents.get("agent-1")
        assert found is not None
        assert NOW_MS == found.surplus_ms

    asyncio.run(work())


def test_the_next_process_of_an_agent_learns_of_it(aws: Cloud, tmp_path: Path):
    asyncio.run(lease(aws, tmp_path).announce())
    aws.agents.name_surplus("agent-1", NOW_MS, beat_ms=0)
    later = lease(aws, tmp_path)
    asyncio.run(later.announce())
    assert NOW_MS == later.surplus_ms
