"""Adapter for the `agents` table: one item for each agent, rewritten with every heartbeat."""

import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress

from joblane.aws.table import ConditionFailed, Row, Store
from joblane.job.lease import LEASE_S, Heartbeat

SHARDS = 16
"""Partitions that the agents spread over: listing them reads 16 partitions, a page at a time,
and a fleet of thousands writes 1/16 of its heartbeats to each."""

_GONE_S = 3600  # the row of an agent that did not delete it expires after an hour


class AgentStore(Store):
    """Reads and writes agents."""

    def beat(self, row: Heartbeat) -> None:
        """Renew an agent's lease: no index, no read, a write unit for every 30 jobs or so."""
        self._table.put(
            {
                **_key(row.name),
                "since": row.since_ms,
                "beat": row.beat_ms,
                "lease": row.lease_s,
                "threads": row.threads,
                "running": row.running,
                "queues": row.queues,
                "isolation": row.isolation,
                "version": row.version,
                "jobs": row.jobs,
                "trouble": row.trouble,
                "expires_at": row.beat_ms // 1000 + _GONE_S,
            }
        )

    def end_lease(self, name: str) -> None:
        """End an agent's lease on its jobs; its row stays, with the ids of its jobs.

        Does nothing for a row that was deleted: an update alone would create a row of nothing
        but a heartbeat time, which no reader understands.
        """
        with suppress(ConditionFailed):
            self._table.update(_key(name), "SET beat = :never", "attribute_exists(#agent)", never=0)

    def delete(self, name: str) -> None:
        """Delete the row of an agent that no longer holds jobs."""
        self._table.delete(_key(name))

    def get(self, name: str) -> Heartbeat | None:
        """Read one agent, strongly consistent: takeovers are decided by it."""
        row = self._table.get(_key(name))
        return None if row is None else _heartbeat(row)

    def many(self, names: Sequence[str]) -> list[Heartbeat]:
        """Read these agents, strongly consistent, in any order and without absent ones."""
        rows = self._table.get_many([_key(name) for name in names], consistent=True)
        return list(map(_heartbeat, rows))

    def every(self) -> Iterator[Heartbeat]:
        """Read all agents, strongly consistent: an agent that is missing gets no share."""
        for shard in range(SHARDS):
            values = {"shard": f"{shard:02d}"}
            rows = self._table.query_all("#shard = :shard", values, ConsistentRead=True)
            yield from map(_heartbeat, rows)

    def page(self, *, limit: int, after: str | None) -> tuple[list[Heartbeat], str | None]:
        """Read up to `limit` agents in a fixed order, from the name `after` on."""
        found: list[Heartbeat] = []
        shard = int(_shard(after)) if after is not None else 0
        while shard < SHARDS:
            condition, values = "#shard = :shard", {"shard": f"{shard:02d}"}
            if after is not None:
                condition, values = f"{condition} AND #agent > :after", {**values, "after": after}
            rows, _ = self._table.query(condition, values, Limit=limit - len(found))
            found += map(_heartbeat, rows)
            if len(found) == limit:
                return found, found[-1].name
            shard, after = shard + 1, None
        return found, None


def _shard(name: str) -> str:
    return f"{zlib.crc32(name.encode()) % SHARDS:02d}"


def _key(name: str) -> Row:
    return {"shard": _shard(name), "agent": name}


def _heartbeat(row: Row) -> Heartbeat:
    return Heartbeat(
        name=row["agent"],
        since_ms=row["since"],
        beat_ms=row["beat"],
        threads=row["threads"],
        running=row["running"],
        queues=tuple(row["queues"]),
        isolation=row["isolation"],
        version=row["version"],
        jobs=tuple(row["jobs"]),
        trouble=row.get("trouble"),
        lease_s=row.get("lease", LEASE_S),  # an older agent's row has none
    )
