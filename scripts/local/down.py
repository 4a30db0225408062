"""scripts/down: ends what scripts/up started and leaves nothing of it."""

import sys

from scripts.local import keeping
from scripts.local.command import run


def main() -> int:
    """End it; that nothing runs is no error."""
    print("Joblane is down" if keeping.end() else "Joblane was not up")
    return 0


if __name__ == "__main__":
    sys.exit(run("scripts/down", main))
