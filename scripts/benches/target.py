"""Time from submit to start of targeted jobs, beside jobs of a lane, on the local default.

`scripts/up` first, then `source .local/env && scripts/bench target [AGENT]`. In turn a job of the
lane and a job with the agent as target (`local` unless given), each `echo hello`, as
`scripts/bench latency`. Exit code 1: the median start of the targeted ones is more than 1.3 times
that of the others.
"""

import statistics
import sys

from joblane import Client, ConfigError
from scripts.benches.latency import measure

PAIRS = 40
MOST_RATIO = 1.3

STARTED, READABLE = "claimed by the agent", "first line readable"


def main() -> int:
    """Print the medians of both kinds, in milliseconds, and their ratios."""
    agent = sys.argv[1] if len(sys.argv) > 1 else "local"
    targets = {"by a lane": "_any", "by its target": f"host:{agent}"}
    try:
        client = Client.from_env()
    except ConfigError as error:
        print(f"bench target: {error}", file=sys.stderr)
        return 78
    rows: dict[str, list[dict[str, float]]] = {kind: [] for kind in targets}
    with client:
        for target in targets.values():
            measure(client, target=target)  # warms the functions and the connection
        for _ in range(PAIRS):
            for kind, target in targets.items():
                rows[kind].append(measure(client, target=target))
    print(f"medians of {PAIRS} jobs each, in turn, ms since the submission began")
    lane, own = rows.values()
    worst = 0.0
    for name in lane[0]:
        medians = [statistics.median(row[name] for row in kind) for kind in (lane, own)]
        ratio = medians[1] / medians[0]
        print(f"{name:<22} lane {medians[0] * 1e3:>5.0f}  target {medians[1] * 1e3:>5.0f}", end="")
        print(f"  {ratio:.2f} times")
        if name in {STARTED, READABLE}:
            worst = max(worst, ratio)
    return 0 if worst <= MOST_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
