"""Decide again when what a decision rests on has changed before its write."""

import random
import time
from collections.abc import Callable
from typing import TypeVar

from joblane.contract.problems import Problem, TryAgain
from joblane.errors import Changed

T = TypeVar("T")

TRIES = 12
"""Decisions before a caller is asked to come back. Most are right at the second."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 0.6
"""Bounds of the first pause between two decisions, which doubles, and of the longest one; with full
jitter 12 decisions take 2.1 s in all on average."""


def decide_again(
    decide: Callable[[], T],
    *,
    tries: int = TRIES,
    busy: Problem | None = None,
    passes: type[Changed] | tuple[type[Changed], ...] = (),
) -> T:
    """Read, decide and write by `decide` until it raises no Changed.

    Raises `busy` when each try has met a change, by default TryAgain with the text of the last
    one; those that `passes` names are the caller's at once.
    """
    for number in range(tries):
        if number:
            bound_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (number - 1))
            time.sleep(random.uniform(0, bound_s))
        try:
            return decide()
        except passes:
            raise
        except Changed as change:
            last = change
    raise busy or TryAgain(str(last), retry_after_s=1) from last
