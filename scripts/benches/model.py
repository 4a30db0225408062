"""Runs new worlds of tests/support/life.py for some seconds: `scripts/bench model SECONDS [SEED]`.

It ends at the first promise that is broken; the error names the seed and the step.
"""

import logging
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.life import live


def main(seconds: float, seed: int) -> None:
    """Live one world after the other."""
    logging.disable()  # a world writes thousands of lines
    end = time.monotonic() + seconds
    worlds = ticks = 0
    while time.monotonic() < end:
        ticks += live(seed).world.ticks
        worlds, seed = worlds + 1, seed + 1
    print(f"{worlds} worlds, {ticks} ticks")


if __name__ == "__main__":
    _, seconds, *seeds = sys.argv
    main(float(seconds), int(seeds[0]) if seeds else random.SystemRandom().getrandbits(32))
