"""The files of the state service, and its exit codes."""

from dataclasses import dataclass
from pathlib import Path

EX_CANTCREAT = 73
"""sysexits.h: its files or its table cannot be used; a retry would fail as well."""
EX_TEMPFAIL = 75
"""sysexits.h: another service has the directory locked, or another process the database."""


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one service, in a directory of the agent's own."""

    directory: Path

    @property
    def socket(self) -> Path:
        """The socket on which it listens."""
        return self.directory / "state.sock"

    @property
    def lock(self) -> Path:
        """Locked while a service runs."""
        return self.directory / "state.lock"

    @property
    def database(self) -> Path:
        """The records of the backend `local`; SQLite puts `-wal` and `-shm` beside it."""
        return self.directory / "state.db"

    @property
    def log(self) -> Path:
        """Its log."""
        return self.directory / "state.log"
