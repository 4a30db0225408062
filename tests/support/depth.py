"""The two depths of the tests: the default, and everything, which `scripts/test deep` asks for.

By default, one representative of each class is tested: some crash points of each function, a budget
of examples, one seed of each world. With JOBLANE_DEEP=1 nothing is left out. A test that only the
deep run needs has the marker `deep`.
"""

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

DEEP = os.environ.get("JOBLANE_DEEP") == "1"
"""Whether everything is tested; read once, since it decides what is collected."""


def budget(default: int, deep: int) -> int:
    """Number of examples, seeds or steps of a test."""
    return deep if DEEP else default


def spread(cases: Sequence[T], default: int) -> Sequence[T]:
    """At most `default` of the cases, evenly spread, the first and the last among them.

    All of them in a deep run.
    """
    if DEEP or len(cases) <= default:
        return cases
    step = (len(cases) - 1) / max(1, default - 1)
    return [cases[round(at * step)] for at in range(default)]
