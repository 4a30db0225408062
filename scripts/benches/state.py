"""Speed and memory of the state service: `scripts/bench state [--sync-interval S]`, seconds.

A thousand creations of 1 KB are submitted at once to the backend `local` on this machine's disk,
over the agent's pool of 20 connections and over a connection made for each operation, no more
than 20 of them at a time; in turns, five times each, each time with a new pool. The service is a
process of its own, as under an agent.

Two means are printed, each the median of its five runs. "operation" runs from the moment it is
an operation's turn (20 are under way at once) to its answer, the making of a connection included.
"since submission" has the wait for its turn in it as well: the thousandth operation waits for
the 980 before it.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from ec2_agent.state.files import StateFiles
from ec2_agent.state.pool import Pool, StateConnection, dial
from ec2_agent.state.protocol import record_json
from ec2_agent.state.records import StateRecord
from ec2_agent.state.settings import StateSettings
from ec2_agent.state.supervisor import StateLocation, StateSupervisor
from scripts.local.weight import weigh

OPERATIONS = 1000
ROUNDS = 5
BODY = "x" * 1000

Lend = Callable[[], AbstractAsyncContextManager[StateConnection]]


@dataclass(frozen=True)
class Run:
    """A thousand operations; times are milliseconds."""

    wall: float
    operation: float
    since_submission: float
    slowest: float


def main() -> int:
    """Print both runs, and the service's memory."""
    parser = argparse.ArgumentParser(prog="scripts/bench state", description=__doc__)
    parser.add_argument("--sync-interval", type=float, default=0.0)
    settings = StateSettings(sync_interval=parser.parse_args().sync_interval)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory:
        asyncio.run(_bench(Path(directory), settings))
    return 0


async def _bench(directory: Path, settings: StateSettings) -> None:
    supervisor = StateSupervisor(
        StateLocation(StateFiles(directory), owner="bench", table=""), settings
    )
    await supervisor.start()
    print(f"idle: {_weight(supervisor.pid)}")
    socket = StateFiles(directory).socket
    pooled, unpooled = [], []
    for n in range(ROUNDS):
        pool = Pool(socket, settings)
        pooled.append(await _run(f"pooled-{n}", pool.connection))
        unpooled.append(await _run(f"unpooled-{n}", _lend_unpooled(socket, settings)))
        if n == 0:
            print(f"the first pool: {pool.stats()}")
        pool.close()
    for name, runs in (("pooled", pooled), ("unpooled", unpooled)):
        print(
            f"{name + ':':<10} {OPERATIONS} in {_median(runs, 'wall'):4.0f} ms; "
            f"operation mean {_median(runs, 'operation'):5.1f} ms; since submission mean "
            f"{_median(runs, 'since_submission'):4.0f} ms; slowest operation of all "
            f"{max(run.slowest for run in runs):4.0f} ms"
        )
    print(f"after {2 * ROUNDS * OPERATIONS} operations: {_weight(supervisor.pid)}")
    await supervisor.stop()


def _lend_unpooled(socket: Path, settings: StateSettings) -> Lend:
    permits = asyncio.Semaphore(settings.pool_size)

    @asynccontextmanager
    async def lend() -> AsyncIterator[StateConnection]:
        async with permits:
            connection = await dial(socket, settings.dial_timeout)
            try:
                yield connection
            finally:
                connection.close()

    return lend


async def _run(name: str, lend: Lend) -> Run:
    took: list[float] = []
    since: list[float] = []
    began = time.perf_counter()

    async def one(n: int) -> None:
        await ready.acquire()
        own = time.perf_counter()
        async with lend() as connection:
            await connection.ask("create", _fields(name, n), 10.0)
        took.append(time.perf_counter() - own)
        ready.release()
        since.append(time.perf_counter() - began)

    # An operation's own time begins when it is its turn, and includes making a connection.
    ready = asyncio.Semaphore(StateSettings().pool_size)
    async with asyncio.TaskGroup() as group:
        for n in range(OPERATIONS):
            group.create_task(one(n))
    wall = time.perf_counter() - began
    mean = statistics.mean
    return Run(wall * 1e3, mean(took) * 1e3, mean(since) * 1e3, max(took) * 1e3)


def _median(runs: list[Run], what: str) -> float:
    return float(statistics.median(getattr(run, what) for run in runs))


def _fields(run: str, n: int) -> dict[str, object]:
    return {"records": [record_json(StateRecord("bench", f"{run}-{n}", 1, BODY))]}


def _weight(pid: int | None) -> str:
    weight = weigh(pid or 0)
    return (
        f"service {weight.rss_mb:.1f} MB RSS ({weight.anonymous_mb:.1f} its own), "
        f"{weight.cpu_s:.2f} s CPU"
    )


if __name__ == "__main__":
    sys.exit(main())
