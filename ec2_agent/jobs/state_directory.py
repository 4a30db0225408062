"""The agent's state directory: made at the start, and locked while the agent runs."""

import fcntl
import os
from pathlib import Path


class StateDirectoryLocked(Exception):
    """Another agent or another user has the state directory; the text says so."""


def lock_state_directory(directory: Path) -> int:
    """Make the state directory and lock it; returns the lock's descriptor.

    The lock ends with this process: shims and launcher do not inherit it. Raises
    StateDirectoryLocked and OSError.
    """
    (directory / "jobs").mkdir(mode=0o700, parents=True, exist_ok=True)
    if directory.stat().st_uid != os.geteuid():
        raise StateDirectoryLocked(
            f"{directory} belongs to another user: run the agent as that user, or remove it"
        )
    lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise StateDirectoryLocked(
            f"another agent of this name is running and has locked {directory}: stop it, or "
            "choose another --name"
        ) from None
    return lock
