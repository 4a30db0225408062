"""Backend `local`, the default: records in an SQLite file.

An acknowledged write survives a kill of the service. `sync_interval` (seconds) decides about more:

    0      each commit is synced to the disk before it is acknowledged: an acknowledged write
           survives a power cut as well
    n > 0  commits go to the kernel at once and to the disk every n seconds: a power cut or a
           kernel crash loses the last n seconds of acknowledged writes; the file stays consistent

After a kill at any moment the file opens without repair (SQLite's write-ahead log).
"""

import os
import sqlite3
from contextlib import ExitStack, contextmanager, suppress

from ec2_agent.state.protocol import StateRefused
from ec2_agent.state.records import StateRecord, StateWrite, WriteResult, decide

TYPE_CHECKING = False  # see ec2_agent/state/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

SCHEMA = 1

LOW_BYTES = 64 * 1024 * 1024
"""Free space below which the disk counts as full: running jobs must still be able to end."""

WAL_BYTES = 4 * 1024 * 1024

_CREATE = """
CREATE TABLE IF NOT EXISTS records (
  kind TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT, expires_at INTEGER,
  PRIMARY KEY (kind, id)
) WITHOUT ROWID
"""
_ENDING = "CREATE INDEX IF NOT EXISTS ending ON records (expires_at) WHERE expires_at IS NOT NULL"
_COLUMNS = "kind, id, version, body, expires_at"
_SEEN = "body IS NOT NULL AND (expires_at IS NULL OR expires_at > ?)"


class LocalBackend:
    """Stores records in one file."""

    def __init__(
        self, path: "str | Path", *, sync_interval: float, low_bytes: int = LOW_BYTES
    ) -> None:
        """Open or create the file. Raises StateRefused if it cannot be used.

        With less than `low_bytes` of free space, the disk counts as full.
        """
        self._path = path
        self._directory = os.path.dirname(path)
        self._synced_at_commit = sync_interval <= 0
        self._unsynced = False
        self._failing = False
        self._low_bytes = low_bytes
        with _translated(path), ExitStack() as undo:
            # The main thread opens it, and one thread uses it.
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            undo.callback(self._db.close)
            self._db.execute("PRAGMA journal_mode = WAL")
            mode = "FULL" if self._synced_at_commit else "NORMAL"
            self._db.execute(f"PRAGMA synchronous = {mode}")
            self._db.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
            schema = self._db.execute("PRAGMA user_version").fetchone()[0]
            if schema > SCHEMA:
                raise StateRefused(
                    "unusable",
                    f"{path} was written by a newer version of Joblane (schema {schema}, this "
                    f"one knows {SCHEMA}); upgrade this agent, or give it another state directory",
                )
            self._db.execute(_CREATE)
            self._db.execute(_ENDING)
            self._db.execute(f"PRAGMA user_version = {SCHEMA}")
            undo.pop_all()

    def write(self, writes: "Sequence[StateWrite]", now: float) -> list[WriteResult]:
        """See Backend: one transaction, so all these writes cost one sync."""
        with self._transaction():
            results = [self._write(write, now) for write in writes]
        self._unsynced = not self._synced_at_commit
        return results

    @contextmanager
    def _transaction(self) -> "Iterator[None]":
        with _translated(self._path):
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield
                self._db.execute("COMMIT")
            except BaseException:
                self._failing = True
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise
        self._failing = False

    def _write(self, write: StateWrite, now: float) -> WriteResult:
        new = write.record
        row = self._db.execute(
            f"SELECT {_COLUMNS} FROM records WHERE kind = ? AND id = ?",  # noqa: S608 - our own
            (new.kind, new.id),
        ).fetchone()
        result, store = decide(write, StateRecord(*row) if row else None, now)
        if store:
            self._db.execute(
                f"INSERT OR REPLACE INTO records ({_COLUMNS}) VALUES (?, ?, ?, ?, ?)",  # noqa: S608
                (new.kind, new.id, new.version, new.body, new.expires_at),
            )
        return result

    def get(self, kind: str, ids: "Sequence[str]", now: float) -> list[StateRecord]:
        """See Backend."""
        with _translated(self._path):
            rows = (
                self._db.execute(
                    f"SELECT {_COLUMNS} FROM records WHERE kind = ? AND id = ? AND {_SEEN}",  # noqa: S608
                    (kind, id_, int(now)),
                ).fetchone()
                for id_ in ids
            )
            return [StateRecord(*row) for row in rows if row]

    def list(
        self, kind: str, after: str | None, limit: int, now: float
    ) -> tuple[list[StateRecord], str | None]:
        """See Backend."""
        with _translated(self._path):
            rows = self._db.execute(
                f"SELECT {_COLUMNS} FROM records WHERE kind = ? AND id > ? AND {_SEEN} "  # noqa: S608
                "ORDER BY id LIMIT ?",
                (kind, after or "", int(now), limit + 1),
            ).fetchall()
        page = [StateRecord(*row) for row in rows[:limit]]
        return page, page[-1].id if len(rows) > limit else None

    def check(self) -> None:
        """See Backend: reads, checks free space, and after a failure whether a write works."""
        if self._failing:
            with self._transaction():
                self._db.execute(f"PRAGMA user_version = {SCHEMA}")  # writes a page
        with _translated(self._path):
            self._db.execute("SELECT body FROM records LIMIT 1").fetchone()
        with _translated(self._path):
            room = os.statvfs(self._directory)
        free = room.f_bavail * room.f_frsize
        if free < self._low_bytes:
            raise StateRefused(
                "storage_full",
                f"{self._directory} has {free // 1024 // 1024} MB of free space, less than the "
                f"{self._low_bytes // 1024 // 1024} MB reserved for running jobs: free some space",
            )

    def tidy(self, now: float) -> None:
        """See Backend."""
        with _translated(self._path):
            self._db.execute("DELETE FROM records WHERE expires_at <= ?", (int(now),))

    def sync(self) -> None:
        """See Backend."""
        if self._unsynced:
            with _translated(self._path):
                self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            self._unsynced = False

    def close(self) -> None:
        """See Backend."""
        with _translated(self._path):
            self._db.close()


@contextmanager
def _translated(path: "str | Path") -> "Iterator[None]":
    """Turn errors of SQLite and the disk into StateRefused."""
    try:
        yield
    except (sqlite3.DatabaseError, OSError) as error:
        raise _refusal(path, error) from None


def _refusal(path: "str | Path", error: sqlite3.DatabaseError | OSError) -> StateRefused:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the other bits name the file operation
    if code == sqlite3.SQLITE_FULL:
        return StateRefused("storage_full", f"the disk of {path} is full: free some space")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StateRefused("busy", f"{path} is locked by another process", passing=True)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StateRefused(
            "unusable",
            f"{path} is damaged ({error}): move it away. The outcomes in it are lost; other "
            "agents take over their jobs when the leases end",
        )
    return StateRefused("storage_failed", f"{path}: {error}")
