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
    found = (_wrong_key(case, world, of) for of in range(case.keys))
    return next(filter(None, found), world.problem or None)


def _wrong_key(case: Case, world: World, of: int) -> str | None:
    """What is wrong with one key and its jobs."""
    key = world.keys[of]
    slots, queued = dict(key.active), key.queued
    listed = {*slots, *queued}
    running = no_slot = unknown = 0
    for job, row in zip(IDS, world.rows, strict=False):
        if row is not None and row.of != of and job in listed:
            return "listed by a key that it does not name"
        if row is not None and row.of == of:
            running += row.state is State.ACTIVE
            no_slot += row.state in HELD and slots.get(job) != row.slot
            unknown += row.state is State.WAITING and job not in listed
    most = max(limits.max_active for limits in case.limits)
    accepted = max(limits.max_active + limits.max_queued for limits in case.limits)
    checks = (
        (len(listed) < len(slots) + len(queued), "listed twice"),
        (running > most, "too many run"),
        (len(slots) > most, "too many slots"),
        (len(listed) > accepted, "too many accepted"),
        (bool(no_slot), "runs without a slot"),
        (bool(unknown), "waits unknown to its key"),
    )
    return next((what for holds, what in checks if holds), None)


def wrong_end(world: World, case: Case) -> str | None:
    """What is wrong with a state in which nothing more happens.

    If ends are lost, a job that is over may keep a slot for which nobody waits.
    """
    if any(row is not None and row.state not in ENDED for row in world.rows):
        return "stuck"
    kept = any(key.active for key in world.keys) and not case.losses
    return "leaked" if kept or any(key.queued for key in world.keys) else None


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
