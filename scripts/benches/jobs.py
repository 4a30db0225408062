"""Many jobs at once through the batch route: none lost, none doubled, and where the time goes.

`scripts/up` first, then `. .local/env && scripts/bench jobs [N]` (10,000 unless told). Each job
is the built-in `sleep` of 0 ms in its own sandbox, on the one agent that `scripts/up` started.
"""

import os
import sys
import time
from collections import Counter

import httpx

BATCH = 100
DONE = {"completed", "failed", "dead", "cancelled", "expired"}
GIVE_UP_S = 3600


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
    return 0 if states == {"completed": count} and not twice else 1


def _submit(http: httpx.Client, left: int) -> list[str]:
    body = {"jobs": [{"type": "sleep", "params": {"ms": 0}}] * min(BATCH, left)}
    entries = http.post("/v1/jobs/batch", json=body).raise_for_status().json()["entries"]
    return [entry["job"]["id"] for entry in entries]


def _wait(http: httpx.Client, ids: list[str]) -> dict[str, dict[str, object]]:
    """Read every job until it has ended, the likely ones first: lanes are roughly in order."""
    ended: dict[str, dict[str, object]] = {}
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


if __name__ == "__main__":
    sys.exit(main())
