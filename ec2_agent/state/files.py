"""The files of the state service, and its exit codes."""

TYPE_CHECKING = False  # see ec2_agent/state/__init__.py
if TYPE_CHECKING:
    from pathlib import Path

EX_CANTCREAT = 73
"""sysexits.h: its files or its table cannot be used; a retry would fail as well."""
EX_TEMPFAIL = 75
"""sysexits.h: another service has the directory locked, or another process the database."""

SOCKET = "state.sock"
"""The socket on which it listens."""
LOCK = "state.lock"
"""Locked while a service runs."""
DATABASE = "state.db"
"""The records of the backend `local`; SQLite puts `-wal` and `-shm` beside it."""
LOG = "state.log"
"""Its log."""


class StateFiles:
    """Paths of the files of one service, in a directory of the agent's own."""

    def __init__(self, directory: "Path") -> None:
        self.directory = directory
        self.socket = directory / SOCKET
        self.lock = directory / LOCK
        self.database = directory / DATABASE
        self.log = directory / LOG
