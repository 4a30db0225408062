"""Ten thousand schedules that are due at midnight: how long the last one waits.

`.venv/bin/python -m scripts.simulation.midnight` prints the table of docs/SCALE.md. Requeue finds
them by pages of its shards, and the function `due` takes their messages, so many calls at once. The
sizes are those of the product; how long each request takes is assumed, as is how Lambda adds
readers of a queue.
"""

import heapq
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from infra.due import BATCH
from infra.reserved import DUE_RESERVED
from joblane.aws.schedule.items import SHARDS
from joblane.schedule.record import LOOK_AHEAD_MS
from joblane.schedule.times import jitter_ms
from joblane.service.job.requeue import SCHEDULES_S
from joblane.service.schedule.due_sweep import PAGE

PAGE_S: Final = 0.3
"""Assumed time of a page of requeue, four shards side by side: two reads and ten sends, and 15 ms
of a whole CPU, of which 512 MB have 0.29."""

START_S: Final = 0.075
"""Assumed time of a start: 45 ms of eight requests, and 9 ms of a whole CPU."""

COLD_S: Final = 1.5
"""Assumed time of the first call of each environment."""

FIRST_CALLS, MORE_CALLS_A_SECOND = 5, 5
"""How Lambda reads a queue: five batches at once, and 300 more a minute."""


@dataclass(frozen=True)
class Waits:
    """How long after their times schedules start, in seconds."""

    median: float
    worst: float


def sent_at(starts: Sequence[float], phase_s: float) -> Iterator[float]:
    """When the message of each schedule can be received; midnight is 0.

    `starts` are the times at which they start; requeue runs each minute, `phase_s` after it.
    """
    seconds = {number: starts[number::SHARDS] for number in range(SHARDS)}
    for times in seconds.values():
        waiting = sorted(times)
        run_s = -120 + phase_s
        while waiting:
            seen = [at for at in waiting if at - LOOK_AHEAD_MS / 1000 <= run_s]
            done = min(len(seen), int(SCHEDULES_S / PAGE_S) * PAGE)
            for number, at in enumerate(seen[:done]):
                yield max(at, run_s + PAGE_S * (number // PAGE + 1))
            waiting = waiting[done:]
            run_s += 60


def simulate(schedules: int, jitter_s: int, phase_s: float) -> Waits:
    """Let so many schedules of one time be due."""
    starts = [jitter_ms("main", f"s-{n}", jitter_s) / 1000 for n in range(schedules)]
    received = sorted(sent_at(starts, phase_s))
    calls = [max(0.0, (n - FIRST_CALLS) / MORE_CALLS_A_SECOND) for n in range(DUE_RESERVED)]
    free = [at + COLD_S for at in calls]
    heapq.heapify(free)
    waits, due, first = list[float](), sorted(starts), 0
    while first < schedules:
        began = max(heapq.heappop(free), received[first])
        batch = sum(at <= began for at in received[first : first + BATCH])
        waits += [began + START_S * (n + 1) - due[first + n] for n in range(batch)]
        heapq.heappush(free, began + START_S * batch)
        first += batch
    return Waits(statistics.median(waits), max(waits))


def main() -> int:
    """Print the table."""
    print("| schedules | jitter_s | median | last |\n|---|---|---|---|")
    for schedules in (1000, 10_000):
        for jitter_s in (0, 60, 600):
            phases = [simulate(schedules, jitter_s, phase_s) for phase_s in range(0, 60, 5)]
            median = max(each.median for each in phases)
            worst = max(each.worst for each in phases)
            print(f"| {schedules:,} | {jitter_s} | {median:.1f} s | {worst:.1f} s |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
