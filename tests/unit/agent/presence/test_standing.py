"""Whether an agent takes jobs: cordons last, heartbeats say so at once, and none comes too late."""

import asyncio
import logging
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from ec2_agent.presence.lease import Lease, Load
from ec2_agent.presence.roster import Roster
from ec2_agent.presence.standing import Standing
from joblane.aws.queue.settings import SettingsStore
from joblane.deployment.names import table_name
from joblane.queue.shares import SETTLE_S
from joblane.service.queue.thread_shares import ThreadShares
from joblane.state.lease import AgentState, Heartbeat
from tests.support.agents import Parts, settings
from tests.support.aws import NAME, Cloud

NOW_MS = 1_800_000_000_000
OLD_MS = NOW_MS - 10 * SETTLE_S * 1000


def nothing(_: object = None) -> None:
    """Do nothing."""


def heartbeat(**fields: object) -> Heartbeat:
    row = Heartbeat("agent-1", OLD_MS, NOW_MS, 4, 0, ("default",), "full", "1", labels={})
    return Heartbeat(**{**{name: getattr(row, name) for name in row.__slots__}, **fields})


@pytest.fixture(name="standing")
def _standing(tmp_path: Path) -> Standing:
    return Standing(tmp_path, nothing)


class Told(Roster):
    """Tells when jobs are killed and renewed."""

    def __init__(self, told: "asyncio.Queue[str]") -> None:
        super().__init__(SimpleNamespace(job_ids=[]))
        self._told = told

    def abandon_all(self) -> None:
        """See Roster."""
        self._told.put_nowait("lost")

    def renew_all(self, until: float) -> None:
        """See Roster."""
        self._told.put_nowait("renewed")


def lease(aws: Cloud, standing: Standing) -> Lease:
    parts = Parts(aws.clients)
    return Lease(settings(), parts.agents, time.time, time.monotonic, parts.roster, standing)


def test_a_cordon_lasts_until_it_is_undone(tmp_path: Path):
    def later() -> Standing:
        return Standing(tmp_path, nothing)

    assert not later().closed
    later().cordon(0)
    later().cordon(0)
    assert (True, "cordoned") == (later().closed, later().mode)
    later().uncordon()
    later().uncordon()
    assert (False, None) == (later().closed, later().mode)


def test_an_uncordoned_agent_takes_jobs_after_the_heartbeat_that_says_so(tmp_path: Path):
    changes: list[bool] = []
    standing = Standing(tmp_path, lambda: changes.append(standing.closed))
    standing.cordon(0)
    assert standing.uncordoned_ms(5) is None
    standing.uncordon()
    standing.announced(heartbeat(mode="cordoned"))  # it was under way
    assert [True, True] == changes
    assert (7, 8) == (standing.uncordoned_ms(7), standing.uncordoned_ms(8))  # 7's failed
    standing.announced(heartbeat(uncordoned_ms=8))
    assert [True, True, False] == changes
    standing.announced(heartbeat(uncordoned_ms=8))
    assert (8, 8, 9) == (standing.uncordoned_ms(9), standing.since_ms(3), standing.since_ms(9))
    assert [True, True, False] == changes


def test_a_cordon_during_that_heartbeat_holds(standing: Standing):
    standing.cordon(0)
    standing.uncordon()
    standing.cordon(0)
    standing.announced(heartbeat(uncordoned_ms=8))
    assert standing.closed


def test_an_agent_that_cannot_store_its_cordon_is_cordoned_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.ERROR)
    standing = Standing(tmp_path / "none", nothing)
    standing.cordon(0)
    assert standing.closed
    assert "could not be stored" in caplog.text


def test_a_change_is_in_a_heartbeat_at_once(
    aws: Cloud, standing: Standing, monkeypatch: pytest.MonkeyPatch
):
    async def work() -> None:
        own = lease(aws, standing)
        await own.announce()
        beat, written = own.store.beat, asyncio.Event()
        loop = asyncio.get_running_loop()

        def tell(row: Heartbeat) -> None:
            beat(row)
            loop.call_soon_threadsafe(written.set)

        monkeypatch.setattr(own.store, "beat", tell)
        keeping = asyncio.create_task(own.keep())
        standing.cordon(0)
        await asyncio.wait_for(written.wait(), 5)  # the next one by itself comes after ten
        keeping.cancel()

    asyncio.run(work())
    row = aws.agents.get("agent-1")
    assert row is not None
    assert "cordoned" == row.mode


def test_after_a_long_stop_jobs_are_given_up_although_the_next_heartbeat_succeeds(
    aws: Cloud, standing: Standing
):
    """Other agents may have taken them over, which a heartbeat does not undo."""

    async def work() -> list[str]:
        told, now = asyncio.Queue[str](), 0.0
        own = lease(aws, standing)
        own = replace(
            own,
            boottime=lambda: now,
            roster=Told(told),
        )
        await own.announce()
        now += own.settings.pace.holds_s + 1  # the host slept
        keeping = asyncio.create_task(own.keep())
        standing.news.set()
        found = [await asyncio.wait_for(told.get(), 5) for _ in range(3)]
        keeping.cancel()
        return found

    assert ["renewed", "lost", "renewed"] == asyncio.run(work())


def test_an_agent_whose_lease_returns_takes_jobs_again(aws: Cloud, tmp_path: Path):
    """Its intake waits for a change, and no job of its own may end any more."""

    async def work() -> int:
        changes, now = asyncio.Queue[None](), 0.0
        standing = Standing(tmp_path, lambda: changes.put_nowait(None))
        own = replace(lease(aws, standing), boottime=lambda: now)
        await own.announce()
        now += own.settings.pace.holds_s + 1
        keeping = asyncio.create_task(own.keep())
        standing.news.set()
        await asyncio.wait_for(changes.get(), 5)
        assert own.held
        standing.news.set()
        await asyncio.sleep(0.1)
        keeping.cancel()
        return changes.qsize()

    assert 0 == asyncio.run(work())  # once


def test_slots_in_use_are_counted_and_not_the_jobs_whose_outcome_is_being_stored(
    aws: Cloud, standing: Standing
):
    own = replace(lease(aws, standing), load=lambda: Load({"q": 2}))
    own.roster.claiming += ["a", "b", "c"]
    asyncio.run(own.announce())
    row = aws.agents.get("agent-1")
    assert row is not None
    assert (2, ("a", "b", "c")) == (row.running, row.jobs)


def test_no_heartbeat_comes_after_the_goodbye(
    aws: Cloud, standing: Standing, monkeypatch: pytest.MonkeyPatch
):
    """A heartbeat under way would write the row again, and the agent would seem to live."""

    async def work() -> None:
        own = lease(aws, standing)
        beat, begun = own.store.beat, asyncio.Event()
        loop = asyncio.get_running_loop()

        def slow(row: Heartbeat) -> None:
            loop.call_soon_threadsafe(begun.set)
            time.sleep(0.1)
            beat(row)

        monkeypatch.setattr(own.store, "beat", slow)
        under_way = asyncio.create_task(own.announce())
        await begun.wait()
        await own.end()
        await under_way
        await own.announce()

    asyncio.run(work())
    assert aws.agents.get("agent-1") is None


@pytest.mark.parametrize(
    ("row", "state", "takes", "shares"),
    [
        (heartbeat(), "ready", True, True),
        (heartbeat(running=1), "ready", True, True),
        (heartbeat(mode="cordoned", running=1), "cordoning", False, True),
        (heartbeat(mode="cordoned"), "cordoned", False, False),
        (heartbeat(mode="draining"), "draining", False, True),
        (heartbeat(beat_ms=OLD_MS), "gone", False, False),
        (heartbeat(beat_ms=OLD_MS, mode="cordoned"), "gone", False, False),
    ],
)
def test_what_operators_see(row: Heartbeat, state: AgentState, takes: bool, shares: bool):
    found = (row.state(NOW_MS), row.takes("default", NOW_MS), row.shares_limits(NOW_MS))
    assert (state, takes, shares) == found


def test_a_cordoned_agent_leaves_its_share_to_the_others_and_gets_it_back(aws: Cloud):
    settings = SettingsStore(aws.clients.make("dynamodb"), table_name(NAME, "settings"))
    shares = ThreadShares(settings, aws.agents)

    def of(*rows: Heartbeat, at_ms: int = NOW_MS) -> tuple[int, int]:
        """What the agents run of 10, by what each of them counts as its own start."""
        for row in rows:
            aws.agents.beat(row)
        found = shares.among_all("default", 10, at_ms)
        assert found is not None
        first, second = rows
        return (
            found.of(first.name, first.counted_since_ms),
            found.of(second.name, second.counted_since_ms),
        )

    second = heartbeat(name="agent-2")
    assert (5, 5) == of(heartbeat(), second)
    assert (5, 5) == of(heartbeat(mode="cordoned", running=1), second)
    assert 10 == of(heartbeat(mode="cordoned"), second)[1]
    # It does not count its own share before the others have been told of it.
    later_ms = NOW_MS + SETTLE_S * 1000
    assert (0, 10) == of(heartbeat(uncordoned_ms=NOW_MS), second, at_ms=later_ms - 1)
    assert (5, 5) == of(heartbeat(uncordoned_ms=NOW_MS), second, at_ms=later_ms)
