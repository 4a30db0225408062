"""The client of the state service: its connections, its repeats, its buffer."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ec2_agent.retry import Backoff, RetryPolicy
from ec2_agent.state.client import NotReached, StateClient, StateRefused
from ec2_agent.state.files import StateFiles
from ec2_agent.state.protocol import frame
from ec2_agent.state.records import MAX_BODY, StateRecord, WriteResult
from ec2_agent.state.settings import StateSettings
from ec2_agent.state.supervisor import StateLocation, StateSupervisor
from tests.support.virtual_time import run

Say = Callable[[dict[str, Any]], Awaitable[dict[str, Any] | None]]
DONE = {"results": ["done"]}


async def confirm(request: dict[str, Any]) -> dict[str, Any]:
    """Say of every record that it was written."""
    return {"results": ["done"] * len(request["records"])}


@asynccontextmanager
async def scripted(path: Path, say: Say) -> AsyncIterator[list[dict[str, Any]]]:
    """A service that answers as it is told; None cuts the connection. Yields what it was asked."""
    asked: list[dict[str, Any]] = []
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            while line := await reader.readline():
                request = json.loads(line)
                asked.append(request)
                answer = await say(request)
                if answer is None:
                    break
                writer.write(frame({"id": request["id"], **answer}))
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_unix_server(serve, path, limit=2**21)
    try:
        yield asked
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def quick(**settings: Any) -> StateSettings:
    values = {"retry_min": 0.01, "retry_max": 0.05, "reconnect": 0.05, **settings}
    return StateSettings.model_validate(values)


def record(id_: str = "a", version: int = 1) -> StateRecord:
    return StateRecord("k", id_, version, "x")


@pytest.fixture(name="path")
def _path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("c") / "state.sock"


def test_a_thousand_operations_at_once_share_twenty_connections(
    tmp_path_factory: pytest.TempPathFactory,
):
    """With a real service; `scripts/bench state` measures how long they take."""

    async def test() -> None:
        files = StateFiles(tmp_path_factory.mktemp("s"))
        supervisor = StateSupervisor(StateLocation(files, "agent-1", "table"), StateSettings())
        await supervisor.start()
        writes = (supervisor.client.create([record(f"{n:04d}")]) for n in range(1000))
        assert [[WriteResult.DONE]] * 1000 == await asyncio.gather(*writes)
        stats = supervisor.client.stats()
        await supervisor.stop()
        assert (20, 0, 0) == (stats.pool_size, stats.errors, stats.timeouts)
        assert 1 < stats.creations <= 20
        assert stats.available == stats.creations
        assert 1001 == stats.acquisitions  # and one look at its health

    asyncio.run(test())


def test_a_connection_is_used_again_and_counted(path: Path):
    async def test() -> None:
        async with scripted(path, confirm):
            client = StateClient(path, quick())
            for _ in range(5):
                await client.create([record()])
            stats = client.stats()
            assert (5, 1, 0, 1) == (
                stats.acquisitions,
                stats.creations,
                stats.active,
                stats.available,
            )
            await client.close()
            assert 0 == client.stats().available

    run(test())


def test_an_idle_agent_keeps_one_connection(path: Path):
    async def test() -> None:
        async with scripted(path, confirm):
            client = StateClient(path, quick())
            await asyncio.gather(*(client.create([record()]) for _ in range(4)))
            assert (4, 4) == (client.stats().creations, client.stats().available)
            client.close_spare()
            await client.create([record()])
            assert (4, 1) == (client.stats().creations, client.stats().available)
            await client.close()

    run(test())


def test_an_answer_that_was_lost_is_asked_for_again_up_to_three_times(path: Path):
    pauses: list[float] = []
    asked = 0

    async def say(_: dict[str, Any]) -> dict[str, Any] | None:
        nonlocal asked
        asked += 1
        return None if asked < 4 else DONE

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    def backoff(policy: RetryPolicy) -> Backoff:
        return Backoff(policy, pause, lambda: 1.0)

    async def test() -> None:
        nonlocal asked
        async with scripted(path, say) as requests:
            client = StateClient(path, quick(retry_min=0.1, retry_max=0.2), backoff)
            assert [WriteResult.DONE] == await client.create([record()])
            assert 4 == len(requests)
            assert 3 == client.stats().errors
            assert [0.1, 0.2, 0.2] == pauses
            asked = 0
            client = StateClient(path, quick(retries=2), backoff)
            with pytest.raises(NotReached):
                await client.create([record()])
            assert 3 == asked

    run(test())


@pytest.mark.parametrize(("passing", "tries"), [(True, 4), (False, 1)])
def test_only_a_refusal_that_passes_is_tried_again(path: Path, passing: bool, tries: int):
    async def say(_: dict[str, Any]) -> dict[str, Any]:
        return {"error": {"code": "busy", "message": "made up", "passing": passing}}

    async def test() -> None:
        async with scripted(path, say) as asked:
            with pytest.raises(StateRefused, match="made up"):
                await StateClient(path, quick()).update([record()])
            assert tries == len(asked)

    run(test())


def test_a_service_that_does_not_answer_in_time_costs_a_connection_not_an_answer(path: Path):
    """A late answer must not meet the next one who borrows the connection."""

    async def say(request: dict[str, Any]) -> dict[str, Any]:
        if request["op"] == "create":
            await asyncio.sleep(0.3)
        return DONE

    async def test() -> None:
        async with scripted(path, say):
            client = StateClient(path, quick(read_timeout=0.1, retries=0))
            with pytest.raises(NotReached, match="in time"):
                await client.create([record()])
            assert [WriteResult.DONE] == await client.update([record()])
            stats = client.stats()
            assert (1, 2, 0) == (stats.timeouts, stats.creations, stats.errors)

    run(test())


def test_an_idle_connection_is_tried_before_it_is_used(path: Path):
    healthy = True

    async def say(request: dict[str, Any]) -> dict[str, Any]:
        if request["op"] == "health" and not healthy:
            await asyncio.sleep(5)
        return DONE

    async def test() -> None:
        nonlocal healthy
        async with scripted(path, say) as asked:
            client = StateClient(path, quick(idle_after=0.05, idle_timeout=0.1))
            for _ in range(2):
                await client.create([record()])
                await asyncio.sleep(0.1)
            assert ["create", "health", "create"] == [request["op"] for request in asked]
            healthy = False
            await client.create([record()])
            stats = client.stats()
            assert (2, 2) == (stats.health_checks, stats.creations)

    run(test())


def test_nobody_there_is_said_with_the_sockets_path(path: Path):
    async def test() -> None:
        with pytest.raises(NotReached, match=r"state\.sock: .*No such file"):
            await StateClient(path, quick(retries=0)).get("k", ["a"])

    run(test())


def test_more_than_a_batch_is_sent_in_batches_and_large_bodies_in_smaller_ones(path: Path):
    async def test() -> None:
        async with scripted(path, confirm) as asked:
            client = StateClient(path, quick())
            await client.create([record(str(n)) for n in range(60)])
            await client.create([StateRecord("k", str(n), 1, "x" * MAX_BODY) for n in range(2)])
        assert [25, 25, 10, 1, 1] == [len(request["records"]) for request in asked]

    run(test())


def test_later_updates_are_gathered_and_only_the_newest_of_a_record_is_sent(path: Path):
    async def test() -> None:
        async with scripted(path, confirm) as asked:
            client = StateClient(path, quick())
            for version in (1, 3, 2):
                assert client.store_later(record("a", version))
            for n in range(30):
                assert client.store_later(record(f"b{n}"))
            await client.flush()
            assert ["sync", "sync"] == [request["op"] for request in asked]
            sent = [each for request in asked for each in request["records"]]
            assert ("a", 3) == (sent[0]["id"], sent[0]["version"])
            assert (25, 31) == (len(asked[0]["records"]), len(sent))
            await client.close()

    run(test())


def test_a_full_buffer_turns_new_records_away_and_still_takes_newer_versions(path: Path):
    async def test() -> None:
        client = StateClient(path, quick(buffer=3, retries=0))
        assert [True] * 3 == [client.store_later(record(id_)) for id_ in "abc"]
        assert not client.store_later(record("d"))
        assert client.store_later(record("a", 2))
        assert 3 == client.waiting
        await asyncio.sleep(0.1)  # nobody is there: they wait

        async with scripted(path, confirm) as asked:
            await client.flush()
            versions = {e["id"]: e["version"] for r in asked for e in r["records"]}
            assert {"a": 2, "b": 1, "c": 1} == versions
            assert client.store_later(record("d"))
            await client.flush()
            await client.close()

    run(test())


def test_closing_gives_later_updates_their_time_and_no_more(path: Path):
    async def test() -> None:
        client = StateClient(path, quick(shutdown_timeout=0.1, retries=0))
        client.store_later(record())
        loop = asyncio.get_running_loop()
        began = loop.time()
        await client.close()
        assert 0.1 == pytest.approx(loop.time() - began)
        assert 1 == client.waiting

    run(test())


def test_an_answer_that_is_no_answer_closes_the_connection(path: Path):
    async def test() -> None:
        async def babble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"220 mail.example.com ESMTP\n")
            writer.close()

        server = await asyncio.start_unix_server(babble, path)
        with pytest.raises(NotReached):
            await StateClient(path, quick(retries=0)).get("k", ["a"])
        server.close()
        await server.wait_closed()

    run(test())
