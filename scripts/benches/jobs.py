"""Many jobs at once by the batch route: none lost, none run twice, and where the time goes.

`scripts/up` first, then `. .local/env && scripts/bench jobs [N]` (10,000 unless told). Each job
is the built-in `sleep` of 0 ms in its own sandbox, on the one agent that `scripts/up` started.

A job's parts are told by what it reads back with: its timeline (accepted, claimed, ended) and
`usage.wall_s`. What follows its end, the settle and the message's delete, is in no job; it shows
in what the agent's slots did between two jobs.
"""

import sys
import time
from collections import Counter
from datetime import datetime
from statistics import mean, median
from typing import Any

from joblane import Client, ConfigError, Submission
from scripts.local.keeping import load_cloud
from scripts.local.weight import weigh

BATCH = 100
GIVE_UP_S = 3600
SLOTS = 4
"""Of the agent that `scripts/up` starts."""


def main() -> int:
    """Submit, wait for every job, print the figures; 1 if one was lost or ran twice."""
    try:
        client = Client.from_env()
    except ConfigError as error:
        print(f"bench jobs: {error}", file=sys.stderr)
        return 78
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    body: Submission = {"type": "sleep", "params": {"ms": 0}}
    with client:
        began = time.perf_counter()
        ids = []
        for start in range(0, count, BATCH):
            entries = client.submit_batch([body] * min(BATCH, count - start))
            ids += [entry.job.id for entry in entries if entry.job]
        submitted = time.perf_counter() - began
        jobs = _wait(client, ids)
        ended = time.perf_counter() - began
    states = Counter(job["state"] for job in jobs)
    twice = sum(job["epoch"] != 1 for job in jobs)
    print(f"{count} jobs: accepted in {submitted:.1f} s ({count / submitted:.0f} a second)")
    print(f"all ended after {ended:.1f} s ({count / ended:.0f} a second)")
    print(f"states: {dict(states)}; lost: {count - len(jobs)}; started more than once: {twice}")
    _print_parts(jobs, submitted / count)
    if (cloud := load_cloud()) is not None:
        print(f"the local AWS has {weigh(cloud.ministack.process.pid).rss_mb:.0f} MB of memory")
    return 0 if states == {"completed": count} and not twice else 1


def _wait(client: Client, waiting: list[str]) -> list[Any]:
    """Read every job until it has ended, the likely ones first: lanes are roughly in order."""
    ended: list[Any] = []
    deadline = time.monotonic() + GIVE_UP_S
    while waiting and time.monotonic() < deadline:
        read = [client.get(job_id) for job_id in waiting[:BATCH]]
        ended += [job.data for job in read if job.ended]
        still = [job.id for job in read if not job.ended]
        if len(still) == len(read):
            time.sleep(0.5)
        waiting = waiting[BATCH:] + still
    return ended


def _print_parts(jobs: list[Any], submission_s: float) -> None:
    """Print the median of each part of a job's life, and its share of the time in a slot."""
    jobs = [job for job in jobs if job["state"] == "completed"]
    if not jobs:
        return
    waits, starts, runs, at = [], [], [], []
    for job in jobs:
        steps = {step["state"]: _seconds(step["at"]) for step in job["timeline"]}
        waits.append(steps["active"] - steps["pending"])
        starts.append(steps["completed"] - steps["active"] - job["usage"]["wall_s"])
        runs.append(job["usage"]["wall_s"])
        at += [_seconds(job["started_at"]), _seconds(job["ended_at"])]
    slot_s = SLOTS * (max(at) - min(at)) / len(jobs)
    print(f"submission, a job's part of its batch: {submission_s * 1000:.1f} ms")
    print(f"waiting in the lane, median: {median(waits):.1f} s")
    print(f"a job's time in one of the agent's {SLOTS} slots: {slot_s * 1000:.1f} ms, of it")
    middles = [f"median {median(times) * 1000:6.1f} ms" for times in (starts, runs)]
    for name, middle, mean_s in (
        ("claim and start (the claim's answer, sandbox, exit seen)", middles[0], mean(starts)),
        ("run (exec to exit)", middles[1], mean(runs)),
        (
            "between two jobs (settle, delete, receive)",
            "by difference   ",
            slot_s - mean(starts) - mean(runs),
        ),
    ):
        print(f"  {name:58} {middle}, mean {mean_s * 1000:6.1f} ms, {mean_s / slot_s:4.0%}")


def _seconds(rfc3339: str) -> float:
    return datetime.fromisoformat(rfc3339).timestamp()


if __name__ == "__main__":
    sys.exit(main())
