"""Records of the state service, and which of two writes wins. Pure.

A record has a version that its writer increments. A write is applied only if it is newer than the
stored record, so a late or repeated write changes nothing. A deletion is a write, too: it leaves a
mark with its version, so that a late creation does not bring the record back.
"""

from enum import StrEnum

BATCH = 25
"""Records in one request, and ids in one read."""

MAX_BODY = 350_000
"""Bytes of a body in UTF-8: DynamoDB takes items of 400 KB."""

MAX_NAME = 200
"""Characters of a kind or an id."""

MARK_S = 60
"""Seconds that a deletion mark is stored: a request times out after 10, and is retried for about 42
at most, so none is under way for longer."""


class Verb(StrEnum):
    """Kinds of writes."""

    CREATE = "create"
    """Write a record that does not exist."""
    UPDATE = "update"
    """Replace a record that exists."""
    DELETE = "delete"
    """Remove a record, whether or not it exists."""
    SYNC = "sync"
    """Write a record, whether or not it exists; without a body: remove it."""


class WriteResult(StrEnum):
    """Results of writes."""

    DONE = "done"
    """Stored, by this or by an earlier try of the same write."""
    EXISTS = "exists"
    """Not created: another record of that id exists, whatever its version."""
    ABSENT = "absent"
    """Not updated: no such record exists."""
    STALE = "stale"
    """Not written: what is stored, a record or the mark of a deletion, is as new or newer."""


class StateRecord:
    """A record."""

    __slots__ = ("body", "expires_at", "id", "kind", "version")

    def __init__(
        self,
        kind: str,
        id: str,
        version: int,
        body: str | None,
        expires_at: int | None = None,
    ) -> None:
        self.kind = kind
        self.id = id
        self.version = version
        """Incremented by the writer with each change."""
        self.body = body
        """The content; None: a deletion mark."""
        self.expires_at = expires_at
        """Unix seconds after which it is not returned; None means never."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StateRecord) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        return f"Record{self._values()}"

    def _values(self) -> tuple[str, str, int, str | None, int | None]:
        return self.kind, self.id, self.version, self.body, self.expires_at

    def is_gone(self, now: float) -> bool:
        """Whether readers do not get it."""
        return self.body is None or (self.expires_at is not None and self.expires_at <= now)

    def is_forgotten(self, now: float) -> bool:
        """Whether it may be removed from the store."""
        return self.expires_at is not None and self.expires_at <= now


class StateWrite:
    """A write of a record."""

    __slots__ = ("record", "verb")

    def __init__(self, verb: Verb, record: StateRecord) -> None:
        self.verb = verb
        self.record = record


def prepare(verb: Verb, record: StateRecord, now: float) -> StateWrite:
    """Make a write; a deletion becomes a mark that expires."""
    if verb is Verb.DELETE or record.body is None:
        record = StateRecord(record.kind, record.id, record.version, None, int(now) + MARK_S)
    return StateWrite(verb, record)


def decide(write: StateWrite, stored: StateRecord | None, now: float) -> tuple[WriteResult, bool]:
    """Return the result of a write, and whether the record is to be stored.

    `stored` is the current record. The first of these that holds decides:

        done     it has this version and this content: this write, retried after a lost response
        exists   create: there is another record
        stale    it has this version or a newer one
        absent   update: there is no record, or the mark of a deletion
        done     otherwise; the record is to be stored

    Every backend follows this rule: it calls this before it writes, or has its database check the
    same condition.
    """
    new = write.record
    if stored is not None and stored.is_forgotten(now):
        stored = None
    if stored is not None and (stored.version, stored.body) == (new.version, new.body):
        return WriteResult.DONE, False
    present = stored is not None and stored.body is not None
    if write.verb is Verb.CREATE and present:
        return WriteResult.EXISTS, False
    if stored is not None and stored.version >= new.version:
        return WriteResult.STALE, False
    if write.verb is Verb.UPDATE and not present:
        return WriteResult.ABSENT, False
    return WriteResult.DONE, True
