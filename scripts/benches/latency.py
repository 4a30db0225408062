"""Time from submit to the first line of output, on the local default, and where it goes.

`scripts/up` first, then `source .local/env && scripts/bench latency`. Each job is
`echo hello`; the reader asks the API again every 20 ms, faster than `joblane logs -f`.
"""

import os
import statistics
import sys
import time
from datetime import datetime

import httpx

JOBS = 30
ASK_EVERY_S = 0.02


def main() -> int:
    """Print the medians, in milliseconds from the start of the submission."""
    try:
        url, token = os.environ["JOBLANE_URL"], os.environ["JOBLANE_TOKEN"]
    except KeyError as missing:
        print(f"bench latency: {missing.args[0]} is not set; source .local/env", file=sys.stderr)
        return 78
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=url, headers=headers, timeout=30) as http:
        _one(http)  # warms the functions and the connection
        rows = [_one(http) for _ in range(JOBS)]
    print(f"median and 95th percentile of {JOBS} jobs, ms since the submission began")
    for name in rows[0]:
        column = sorted(row[name] for row in rows)
        p95 = column[int(len(column) * 0.95)]
        print(f"{name:<22} {statistics.median(column) * 1e3:>7.0f} {p95 * 1e3:>7.0f}")
    return 0


def _one(http: httpx.Client) -> dict[str, float]:
    began_wall, began = time.time(), time.perf_counter()
    job = http.post("/v1/jobs", json={"command": ["echo", "hello"]}).raise_for_status().json()
    accepted = time.perf_counter() - began
    while True:
        page = http.get(f"/v1/jobs/{job['id']}/logs").raise_for_status().json()
        if page["entries"]:
            break
        time.sleep(ASK_EVERY_S)
    readable = time.perf_counter() - began
    while True:
        job = http.get(f"/v1/jobs/{job['id']}").raise_for_status().json()
        if job["state"] == "completed":
            break
        time.sleep(ASK_EVERY_S)
    steps = {step["state"]: datetime.fromisoformat(step["at"]) for step in job["timeline"]}
    return {
        "accepted by the API": accepted,
        "claimed by the agent": steps["active"].timestamp() - began_wall,
        "first line readable": readable,
        "outcome recorded": steps["completed"].timestamp() - began_wall,
    }


if __name__ == "__main__":
    sys.exit(main())
