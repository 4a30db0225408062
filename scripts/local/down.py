"""scripts/down: ends what scripts/up started, and removes its files."""

import sys

from scripts.local import keeping
from scripts.local.command import run


def main() -> int:
    """End it. It is no error if nothing runs."""
    print("Joblane is down" if keeping.end() else "Joblane was not up")
    return 0


if __name__ == "__main__":
    sys.exit(run("scripts/down", main))
