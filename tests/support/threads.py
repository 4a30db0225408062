"""Threads that a test starts at once."""

import threading
from collections.abc import Sequence


def run_all(threads: Sequence[threading.Thread]) -> None:
    """Start them all, and wait for their ends."""
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
