"""Visit every state of a model of a key, and say how one was reached that must not be.

python -m tests.support.key_search --jobs 3 --queued 1 --crashes 2
"""

import argparse
import sys
import time
from collections import deque
from dataclasses import dataclass
from typing import get_args

from joblane.key.policy import KeyLimits, WhenFull
from joblane.state.lifecycle import ENDED, State
from tests.support.key_model import Model
from tests.support.key_world import HELD, IDS, Case, Rules, World


class Violation(AssertionError):
    """A state that must not be."""

    def __init__(self, what: str, path: list[str], world: World) -> None:
        super().__init__("\n  ".join([what, *path, repr(world)]))
        self.what = what
        """A text of `wrong` or `wrong_end`."""


@dataclass(frozen=True)
class Visited:
    """The size of a search."""

    states: int
    ends: int
    """States in which nothing more happens."""


def search(case: Case, rules: Rules | None = None, most: int | None = None) -> Visited:
    """Visit every state, the nearest ones first, or `most` of them. Raises Violation."""
    model = Model(case, rules or Rules())
    first = model.first()
    came: dict[World, tuple[World, str] | None] = {first: None}
    to_do, ends = deque([first]), 0
    while to_do and (most is None or len(came) < most):
        world = to_do.popleft()
        problem, moved = wrong(case, world), False
        for name, following in () if problem else model.steps(world):
            moved = moved or not name.startswith("!")
            if following not in came:
                came[following] = (world, name)
                to_do.append(following)
        if not moved and not problem:
            ends += 1
            problem = wrong_end(world, case)
        if problem:
            path, step = [], came[world]
            while step is not None:
                path.append(step[1])
                step = came[step[0]]
            raise Violation(problem, path[::-1], world)
    return Visited(len(came), ends)


def wrong(case: Case, world: World) -> str | None:
    """What is wrong with a state; None if nothing is."""
    slots, queued = dict(world.key.active), world.key.queued
    listed = {*slots, *queued}
    running = no_slot = unknown = 0
    for job, row in zip(IDS, world.rows, strict=False):
        if row is not None:
            running += row.state is State.ACTIVE
            no_slot += row.state in HELD and slots.get(job) != row.slot
            unknown += row.state is State.WAITING and job not in listed
    if len(listed) < len(slots) + len(queued):
        return "listed twice"
    most = max(limits.max_active for limits in case.limits)
    if running > most:
        return "too many run"
    if len(slots) > most:
        return "too many slots"
    if len(listed) > max(limits.max_active + limits.max_queued for limits in case.limits):
        return "too many accepted"
    if no_slot:
        return "runs without a slot"
    return "waits unknown to its key" if unknown else world.problem or None


def wrong_end(world: World, case: Case) -> str | None:
    """What is wrong with a state in which nothing more happens.

    If ends are lost, a job that is over may keep a slot for which nobody waits.
    """
    if any(row is not None and row.state not in ENDED for row in world.rows):
        return "stuck"
    kept = world.key.active if not case.losses else ()
    return "leaked" if kept or world.key.queued else None


def main() -> None:
    """Search one case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--active", type=int, default=1, help="max_active")
    parser.add_argument("--queued", type=int, default=1, help="max_queued")
    parser.add_argument("--when-full", choices=get_args(WhenFull), default="reject")
    parser.add_argument("--most", type=int, help="states to visit")
    counts = (
        "scheduled",
        "crashes",
        "cancels",
        "retries",
        "repeats",
        "deletions",
        "returns",
        "losses",
    )
    for name in counts:
        parser.add_argument(f"--{name}", type=int, default=0)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--handlers", type=int, default=2)
    options = parser.parse_args()
    limits = KeyLimits(
        max_active=options.active, max_queued=options.queued, when_full=options.when_full
    )
    troubles = {name: getattr(options, name) for name in (*counts, "batch", "handlers")}
    began = time.perf_counter()
    visited = search(Case((limits,) * options.jobs, **troubles), most=options.most)
    took = time.perf_counter() - began
    sys.stdout.write(f"{visited.states} states, {visited.ends} ends, {took:.1f} s\n")


if __name__ == "__main__":
    main()
