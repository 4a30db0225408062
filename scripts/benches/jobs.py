"""Many jobs at once by the batch route: none lost, none run twice, and where the time goes.

`scripts/up` first, then `. .local/env && scripts/bench jobs [N]` (10,000 unless told). Each job
is the built-in `sleep` of 0 ms in its own sandbox, on the one agent that `scripts/up` started.

A job's parts are told by what it reads back with: its timeline (accepted, claimed, ended) and
`usage.wall_s`. What follows its end, the settle and the message's delete, is in no job; it shows
in what the agent's slots did between two jobs.
"""

import os
import sys
import time
from collections import Counter
from datetime import datetime
from statistics import median
from typing import Any

import httpx

BATCH = 100
DONE = {"completed", "failed", "dead", "cancelled", "expired"}
GIVE_UP_S = 3600
SLOTS = 4
"""Of the agent that `scripts/up` starts."""


def main() -> int:
    """Submit, wait for every job, print the figures; 1 if one was lost or ran twice."""
    try:
        url, token = os.environ["JOBLANE_URL"], os.environ["JOBLANE_TOKEN"]
    except KeyError as missing:
        print(f"bench jobs: {missing.args[0]} is not set; source .local/env", file=sys.stderr)
        return 78
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=url, headers=headers, timeout=60) as http:
        began = time.perf_counter()
        ids = [
            job_id for start in range(0, count, BATCH) for job_id in _submit(http, count - start)
        ]
        submitted = time.perf_counter() - began
        jobs = _wait(http, ids)
        ended = time.perf_counter() - began
    states = Counter(str(job["state"]) for job in jobs.values())
    twice = sum(int(str(job["epoch"])) != 1 for job in jobs.values())
    print(f"{count} jobs: accepted in {submitted:.1f} s ({count / submitted:.0f} a second)")
    print(f"all ended after {ended:.1f} s ({count / ended:.0f} a second)")
    print(f"states: {dict(states)}; lost: {count - len(jobs)}; started more than once: {twice}")
    _print_parts(list(jobs.values()), submitted / count)
    return 0 if states == {"completed": count} and not twice else 1


def _submit(http: httpx.Client, left: int) -> list[str]:
    body = {"jobs": [{"type": "sleep", "params": {"ms": 0}}] * min(BATCH, left)}
    entries = http.post("/v1/jobs/batch", json=body).raise_for_status().json()["entries"]
    return [entry["job"]["id"] for entry in entries]


def _wait(http: httpx.Client, ids: list[str]) -> dict[str, dict[str, Any]]:
    """Read every job until it has ended, the likely ones first: lanes are roughly in order."""
    ended: dict[str, dict[str, Any]] = {}
    waiting = list(ids)
    deadline = time.monotonic() + GIVE_UP_S
    while waiting and time.monotonic() < deadline:
        still: list[str] = []
        for job_id in waiting[:BATCH]:
            job = http.get(f"/v1/jobs/{job_id}").raise_for_status().json()
            if job["state"] in DONE:
                ended[job_id] = job
            else:
                still.append(job_id)
        if len(still) == len(waiting[:BATCH]):
            time.sleep(0.5)
        waiting = waiting[BATCH:] + still
    return ended


def _print_parts(jobs: list[dict[str, Any]], submission_s: float) -> None:
    """Print the median of each part of a job's life, and its share of the time in a slot."""
    waits, starts, runs = [], [], []
    for job in jobs:
        if job["state"] != "completed":
            continue
        at = {step["state"]: datetime.fromisoformat(step["at"]) for step in job["timeline"]}
        ran = float(job["usage"]["wall_s"])
        waits.append((at["active"] - at["pending"]).total_seconds())
        starts.append((at["completed"] - at["active"]).total_seconds() - ran)
        runs.append(ran)
    if not runs:
        return
    ended = sorted(datetime.fromisoformat(job["ended_at"]) for job in jobs if job["ended_at"])
    claimed = min(datetime.fromisoformat(job["started_at"]) for job in jobs if job["started_at"])
    slot_s = SLOTS * (ended[-1] - claimed).total_seconds() / len(runs)
    rest = slot_s - sum(starts + runs) / len(runs)
    print(f"submission, a job's part of its batch: {submission_s * 1000:.1f} ms")
    print(f"waiting in the lane, median: {median(waits):.1f} s")
    print(f"a job's time in one of the agent's {SLOTS} slots: {slot_s * 1000:.1f} ms, of it")
    parts = {
        "claim and start (the claim's answer, sandbox, exit seen)": (starts, None),
        "run (exec to exit)": (runs, None),
        "between two jobs (settle, delete, receive)": ([], rest),
    }
    for name, (times, mean) in parts.items():
        mean_s = sum(times) / len(times) if mean is None else mean
        middle = f"median {median(times) * 1000:6.1f} ms" if times else "by difference   "
        print(f"  {name:58} {middle}, mean {mean_s * 1000:6.1f} ms, {mean_s / slot_s:4.0%}")


if __name__ == "__main__":
    sys.exit(main())
