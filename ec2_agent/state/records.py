"""What the state service keeps, and which of two writes wins. Pure.

A record has a version that its writer counts up. A write is done only if it is newer than what is
there, so it may come late or twice and changes nothing then. A deletion is a write like any other:
it leaves a mark with its version, because a late creation would bring the record back otherwise.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

BATCH = 25
"""Records in one request, and ids in one read."""

MAX_BODY = 350_000
"""Bytes of a body in UTF-8: DynamoDB takes items of 400 KB."""

MAX_NAME = 200
"""Characters of a kind or an id."""

MARK_S = 60
"""Seconds that the mark of a deletion is kept: a request is given up after 10, and repeated for
about 42 at most, so none is under way for longer."""


class Verb(StrEnum):
    """What a write asks for."""

    CREATE = "create"
    """Be the first to write this record."""
    UPDATE = "update"
    """Replace a record that is there."""
    DELETE = "delete"
    """Remove a record; one that is not there is as good as removed."""
    SYNC = "sync"
    """Make it so, whether or not it is there; without a body: remove it."""


class Result(StrEnum):
    """What became of a write."""

    DONE = "done"
    """It is stored, now or by an earlier try of the same write."""
    EXISTS = "exists"
    """Not created: another record of that id is there."""
    ABSENT = "absent"
    """Not updated: there is no such record."""
    STALE = "stale"
    """Not written: what is there is newer."""


@dataclass(frozen=True, slots=True)
class Record:
    """One thing to remember."""

    kind: str
    id: str
    version: int
    """Counted up by the writer with each change."""
    body: str | None
    """What the writer wants to find again; None is the mark of a deletion."""
    expires_at: int | None = None
    """Unix seconds after which nobody sees it; None means never."""

    def gone(self, now: float) -> bool:
        """Whether readers do not see it any more."""
        return self.body is None or (self.expires_at is not None and self.expires_at <= now)

    def forgotten(self, now: float) -> bool:
        """Whether it need not even be remembered for what comes late."""
        return self.expires_at is not None and self.expires_at <= now


@dataclass(frozen=True, slots=True)
class Write:
    """A record, and what to do with it."""

    verb: Verb
    record: Record


def prepared(verb: Verb, record: Record, now: float) -> Write:
    """Make a write from what was asked: a deletion becomes a mark that ends by itself."""
    if verb is Verb.DELETE or record.body is None:
        record = replace(record, body=None, expires_at=int(now) + MARK_S)
    return Write(verb, record)


def decide(write: Write, stored: Record | None, now: float) -> tuple[Result, bool]:
    """Say what becomes of a write, and whether the record is to be stored.

    `stored` is what is there now. Every backend follows this, whether it asks here before it
    writes or has a database check the same condition.
    """
    new = write.record
    if stored is not None and stored.forgotten(now):
        stored = None
    if stored is not None and stored.version >= new.version:
        # Equal versions with equal content: this very write, tried again after a lost answer.
        same = stored.version == new.version and stored.body == new.body
        return (Result.DONE if same else Result.STALE), False
    present = stored is not None and stored.body is not None
    if write.verb is Verb.CREATE and present:
        return Result.EXISTS, False
    if write.verb is Verb.UPDATE and not present:
        return Result.ABSENT, False
    return Result.DONE, True
