"""Time from submit to the first line of output, on the local default, and where it goes.

`scripts/up` first, then `source .local/env && scripts/bench latency`. Each job is
`echo hello`; the reader asks the API again every 20 ms, faster than `joblane logs -f`.
"""

import statistics
import sys
import time
from datetime import datetime

from joblane import Client, ConfigError

JOBS = 30
ASK_EVERY_S = 0.02


def main() -> int:
    """Print the medians, in milliseconds from the start of the submission."""
    try:
        client = Client.from_env()
    except ConfigError as error:
        print(f"bench latency: {error}", file=sys.stderr)
        return 78
    with client:
        measure(client)  # warms the functions and the connection
        rows = [measure(client) for _ in range(JOBS)]
    print(f"median and 95th percentile of {JOBS} jobs, ms since the submission began")
    for name in rows[0]:
        column = sorted(row[name] for row in rows)
        p95 = column[int(len(column) * 0.95)]
        print(f"{name:<22} {statistics.median(column) * 1e3:>7.0f} {p95 * 1e3:>7.0f}")
    return 0


def measure(client: Client, target: str | None = None) -> dict[str, float]:
    """Run one job; returns the seconds until each step, by its name."""
    began_wall, began = time.time(), time.perf_counter()
    job = client.submit(["echo", "hello"], target=target)
    accepted = time.perf_counter() - began
    while not any(job.logs()):
        time.sleep(ASK_EVERY_S)
    readable = time.perf_counter() - began
    while not job.refresh().ended:
        time.sleep(ASK_EVERY_S)
    steps = {step.state: datetime.fromisoformat(step.at) for step in job.data.timeline}
    return {
        "accepted by the API": accepted,
        "claimed by the agent": steps["active"].timestamp() - began_wall,
        "first line readable": readable,
        "outcome recorded": steps["completed"].timestamp() - began_wall,
    }


if __name__ == "__main__":
    sys.exit(main())
