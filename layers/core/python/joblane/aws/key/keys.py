"""Adapter for the `keys` table: the slots of each key, and who waits for one.

A row is read, a decision is made on it (`joblane.key.decide`), and the next row is written only if
the version is still the same. An admission writes it in one transaction with the job
(`joblane.aws.key.keyed_jobs`); what follows an end writes it alone.

A row for whose slot a job waits is in the sparse index `waits`, until a write that finds nobody
waiting and leaves nobody waiting: so also while the last one that waited is let go. The requeue
function looks at the keys that have been in it for long (`joblane.service.key.watch`).
"""

import zlib
from contextlib import suppress
from dataclasses import dataclass

from joblane.aws.table import ConditionFailed, Item, Row, Store
from joblane.errors import Changed
from joblane.key.policy import KeyLimits
from joblane.key.segments import KeyName
from joblane.key.state import IDLE_S, KeyState

WAIT_SHARDS = 4
"""Partitions of the index `waits`: a partition takes 1000 writes a second, and a key makes two when
its first job waits and when its last one has gone."""

LOOK_MS = 900_000
"""After how many milliseconds a key that jobs wait for is looked at: a quarter of an hour."""


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key as it was read."""

    tenant: str
    name: KeyName
    segments: str
    """The segments as a JSON array; empty if the key has no row."""
    version: int
    """0 if the key has no row."""
    state: KeyState
    look_at_ms: int | None = None
    """Unix time in milliseconds from which the index `waits` lists it; None: it does not."""


class KeyStore(Store):
    """Reads keys, and writes them by comparing their version."""

    def get(self, tenant: str, name: KeyName, now_ms: int) -> StoredKey:
        """Read a key, strongly consistent: one read unit for each 4 KB."""
        row = self._table.get({"key": row_key(tenant, name)})
        if row is None:
            return StoredKey(tenant, name, "", 0, KeyState(grants=now_ms))
        return _from_row(row)

    def page(
        self, tenant: str, scope: str, *, limit: int, after: str | None
    ) -> tuple[list[StoredKey], str | None]:
        """Read a page of the keys of a scope, by their names: those in use, and idle ones of a day.

        `after` is the second value of the previous page. Two requests a page.
        """
        partition = f"{tenant}#{scope}"
        start = None if after is None else {"type": partition, "key": f"{partition}#{after}"}
        rows, following = self._table.query(
            "#type = :type",
            {"type": partition},
            start=start,
            IndexName="by_type",
            Limit=limit,
        )
        found = self._table.get_many([{"key": row["key"]} for row in rows])
        keys = sorted(map(_from_row, found), key=lambda key: key.name.hash)
        return keys, None if following is None else following["key"].rpartition("#")[2]

    def write(self, seen: StoredKey, state: KeyState, now_ms: int) -> None:
        """Write the next state of a key. Raises Changed if its row has changed since.

            sequel                       keys                       submission
            reads version 4                                         reads version 4
                                         version 5         <------  transaction: queued
            write if version 4  ----->   refused: reads again, and grants the slot

        The SDK repeats a call whose answer was lost; the row that the first one wrote counts as
        success.
        """
        row = to_row(seen, state, now_ms)
        try:
            values = {"seen": seen.version} if seen.version else {}
            self._table.put(row, unchanged(seen), **values)
        except ConditionFailed as failure:
            if failure.row != {name: value for name, value in row.items() if value is not None}:
                raise Changed("the key has changed since it was read") from failure

    def waiting_page(self, shard: str, now_ms: int, *, limit: int) -> list[StoredKey]:
        """Read keys of one shard that are to be looked at, those first that are so for longest."""
        rows, _ = self._table.query(
            "waits = :shard AND look_at <= :now",
            {"shard": shard, "now": now_ms},
            IndexName="waits",
            Limit=limit,
        )
        found = self._table.get_many([{"key": row["key"]} for row in rows], consistent=True)
        return [_from_row(row) for row in found]

    def set_next_look(self, seen: StoredKey, at_ms: int | None) -> None:
        """Set when a key is looked at next; None: when somebody waits for it again.

        One write, and two for the index. Changes no version, so it gets in nobody's way. Does
        nothing if the row has changed since it was read: that write has the time as it was, so the
        key is looked at again in a minute.
        """
        change = "SET look_at = :next" if at_ms is not None else "REMOVE waits, look_at"
        values = {"version": seen.version, **({} if at_ms is None else {"next": at_ms})}
        with suppress(ConditionFailed):
            row = {"key": row_key(seen.tenant, seen.name)}
            self._table.update(row, change, "#version = :version", **values)

    def as_write(self, seen: StoredKey, state: KeyState, now_ms: int) -> Item:
        """`write` as a part of a transaction, which is refused if the row has changed since."""
        row = to_row(seen, state, now_ms)
        values = {"seen": seen.version} if seen.version else {}
        return self._table.as_put(row, unchanged(seen), **values)


def row_key(tenant: str, name: KeyName) -> str:
    """Primary key of a key's row."""
    return f"{tenant}#{name.encode()}"


def wait_shard(name: str) -> str:
    """Partition of the index `waits` that a row belongs to, for good."""
    return str(zlib.crc32(name.encode()) % WAIT_SHARDS)


def unchanged(seen: StoredKey) -> str:
    """The condition that a row has not changed; `:seen` is the version that was read."""
    return "#version = :seen" if seen.version else "attribute_not_exists(#version)"


def to_row(seen: StoredKey, state: KeyState, now_ms: int) -> Row:
    """The whole row, with the next version."""
    name = row_key(seen.tenant, seen.name)
    look_at_ms = _look_at_ms(seen, state, now_ms)
    return {
        "key": name,
        "type": f"{seen.tenant}#{seen.name.scope}",
        "segments": seen.segments,
        "version": seen.version + 1,
        "grants": state.grants,
        "active": dict(state.active),
        "queued": list(state.queued),
        **state.limits.model_dump(),
        "queued_total": state.queued_total,
        "replaced": state.replaced,
        "stale": state.stale,
        "waits": None if look_at_ms is None else wait_shard(name),
        "look_at": look_at_ms,
        "expires_at": now_ms // 1000 + IDLE_S if state.idle else None,
    }


def _look_at_ms(seen: StoredKey, state: KeyState, now_ms: int) -> int | None:
    """When a key is looked at: it keeps its time while somebody waits, and is idle without one."""
    if state.idle:
        return None
    if state.queued:
        return seen.look_at_ms or now_ms + LOOK_MS
    return seen.look_at_ms if seen.state.queued else None


def _from_row(row: Row) -> StoredKey:
    tenant, _, name = row["key"].partition("#")
    limits = {field: row[field] for field in KeyLimits.model_fields}
    state = KeyState(
        grants=row["grants"],
        active=row["active"],
        queued=tuple(row["queued"]),
        limits=KeyLimits(**limits),
        queued_total=row["queued_total"],
        replaced=row["replaced"],
        stale=row["stale"],
    )
    return StoredKey(
        tenant,
        KeyName.decode(name),
        row["segments"],
        row["version"],
        state,
        row.get("look_at"),
    )
