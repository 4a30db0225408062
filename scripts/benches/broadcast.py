"""Broadcasts to many agents: `scripts/bench broadcast [--agents 50] [--times 10]`.

A deployment of its own on this machine. The agents are stand-ins in this process that run no
programs; their heartbeats, inboxes, claims and outcomes are those of real ones. From the submission
to the end of the group, as a client sees it that asks every 50 ms. The exit code is 1 if a
broadcast has another number of members, is not completed, or took longer than 5 s.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from joblane import AsyncClient
from scripts.local.cloud import DEPLOYMENT, running_cloud
from tests.support.stand_ins import Stores, begin

MOST_S = 5.0
"""The longest that a broadcast may take."""

ASK_EVERY_S = 0.05
GIVE_UP_S = 120.0


@dataclass(frozen=True)
class Broadcast:
    """Seconds from the submission."""

    accepted: float
    first: float
    """To the start of the first member."""
    last: float
    """To the start of the last one."""
    ended: float
    """To the end of the group."""


async def broadcast(client: AsyncClient, target: str, agents: int) -> Broadcast:
    """Submit one, and wait for its end. Raises RuntimeError if it is not completed by all."""
    wall, began = time.time(), time.monotonic()
    job = await client.submit(["true"], target=target)
    accepted = time.monotonic() - began
    while not job.ended:
        if time.monotonic() - began > GIVE_UP_S:
            raise RuntimeError(f"group {job.id} is {job.state}: {job.reason}")
        await asyncio.sleep(ASK_EVERY_S)
        await job.refresh()
    ended = time.monotonic() - began
    members = [member async for member in client.groups.members(job.id)]
    if (job.state, len(members)) != ("completed", agents):
        raise RuntimeError(f"group {job.id} is {job.state}: {job.reason}")
    starts = sorted(
        datetime.fromisoformat(str(member.started_at)).timestamp() - wall for member in members
    )
    return Broadcast(accepted, starts[0], starts[-1], ended)


async def measure(url: str, token: str, agents: int, times: int) -> list[Broadcast]:
    """Run broadcasts one after the other, after one that warms the functions."""
    stores = Stores.of(DEPLOYMENT)
    names = [f"stand-in-{number:03}" for number in range(agents)]
    stand_ins = await begin(stores, names, {"group": "bench.stand-ins"})
    try:
        async with AsyncClient(url, token) as client:
            await broadcast(client, "group:bench", agents)
            return [await broadcast(client, "group:bench", agents) for _ in range(times)]
    finally:
        await asyncio.gather(*(stand_in.end() for stand_in in stand_ins))


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="scripts/bench broadcast", description=__doc__)
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--times", type=int, default=10)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="joblane-broadcast-") as where,
        running_cloud(Path(where) / "run") as cloud,
    ):
        os.environ.update(cloud.environment())
        runs = asyncio.run(measure(cloud.url, cloud.token(), options.agents, options.times))
    print(f"{options.times} broadcasts to {options.agents} agents, load {os.getloadavg()[0]:.1f}")
    print("seconds since the submission began: median, worst")
    for name in ("accepted", "first", "last", "ended"):
        column = [getattr(run, name) for run in runs]
        print(f"{name:<10} {statistics.median(column):>7.2f} {max(column):>7.2f}")
    return 0 if max(run.ended for run in runs) <= MOST_S else 1


if __name__ == "__main__":
    sys.exit(main())
