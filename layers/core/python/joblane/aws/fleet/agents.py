"""Adapter for the `agents` table: one item for each agent, rewritten with every heartbeat."""

import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby, zip_longest

from joblane.aws.item_size import left_in_unit
from joblane.aws.table import ConditionFailed, Row, Store
from joblane.state.lease import (
    HEARTBEAT_S,
    AttemptProgress,
    Heartbeat,
    HostDisk,
    HostLoad,
    StatePool,
)
from joblane.state.stats import NAME, decode_stats, encode_stats

SHARDS = 16
"""Partitions that the agents spread over: listing them reads 16 partitions, a page at a time,
and a fleet of thousands writes 1/16 of its heartbeats to each."""

PER_SHARD = 25
"""Agents of each partition that a sample for people reads: 400 in all, however many there are."""

_GONE_S = 3600  # the row of an agent that did not delete it expires after an hour


_ABSENT_S = 86_400  # why there is no agent can be read for a day

_REPLACED = "REPLACED"  # a partition of its own: not in the list of agents


@dataclass(frozen=True, slots=True)
class Replacements:
    """Replacements of a group's instances in a row."""

    count: int
    last_ms: int


class AgentStore(Store):
    """Reads and writes agents."""

    def beat(self, row: Heartbeat) -> int | None:
        """Renew an agent's lease: no index, no read, a write unit for every 30 jobs or so.

        Returns when the row that it replaces was named surplus; None if it was not. DynamoDB
        answers with that row at no price:

            scaler                       table                      agent
                                         row A             <------  heartbeat
            surplus if it serves ----->  row A, surplus
                                         row B             <------  heartbeat: row A was surplus
                                         row C, surplus    <------  says so itself from now on

        If the answer to the heartbeat that writes row B is lost, the scaler names the agent again.
        """
        found: int | None = self._table.replace(_row(row, _GONE_S)).get("surplus")
        return found

    def name_surplus(self, name: str, at_ms: int, *, beat_ms: int) -> bool:
        """Name an agent surplus: one write unit. False if it is not as it was read.

        It must not be named already, must take jobs, and must have written `beat_ms` or a later
        heartbeat:

            scaler                       table                      operator, agent
            reads a row that serves
                                         draining          <------  heartbeat
            surplus if it serves ----->  refused
        """
        try:
            self._table.update(
                _key(name),
                "SET #surplus = :at",
                "#beat >= :beat AND attribute_not_exists(#surplus) "
                "AND attribute_not_exists(#mode) AND attribute_not_exists(#trouble)",
                at=at_ms,
                beat=beat_ms,
            )
        except ConditionFailed:
            return False
        return True

    def note_absence(self, row: Heartbeat) -> None:
        """Write the row of an instance without an agent, unless there is one."""
        with suppress(ConditionFailed):
            self._table.put(_row(row, _ABSENT_S), "attribute_not_exists(#agent)")

    def replacements(self, group: str) -> Replacements | None:
        """Read when instances of a group were replaced last; None if not for a day."""
        row = self._table.get({"shard": _REPLACED, "agent": group})
        return None if row is None else Replacements(row["count"], row["last"])

    def put_replacements(
        self, group: str, count: int, now_ms: int, *, before: Replacements | None
    ) -> None:
        """Write down a replacement. Raises ConditionFailed if another one was faster."""
        row: Row = {
            "shard": _REPLACED,
            "agent": group,
            "count": count,
            "last": now_ms,
            "expires_at": now_ms // 1000 + _ABSENT_S,
        }
        if before is None:
            self._table.put(row, "attribute_not_exists(#agent)")
        else:
            self._table.put(row, "#last = :before", before=before.last_ms)

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

    def read_all(self) -> Iterator[Heartbeat]:
        """Read all agents, strongly consistent: an agent that is missing gets no share."""
        for shard in range(SHARDS):
            yield from self._in_shard(shard)

    def read_all_at_once(self, pool: Executor) -> list[Heartbeat]:
        """Read all agents as `read_all`, the partitions side by side."""
        return [row for rows in pool.map(self._in_shard, range(SHARDS)) for row in rows]

    def sample(self, per_shard: int, pool: Executor) -> tuple[list[Heartbeat], bool]:
        """Read up to `per_shard` agents of each partition, side by side, eventually consistent.

        The second value says whether there are more. The first `per_shard` names of a partition are
        read, so two samples of the same agents are the same.
        """

        def some(shard: int) -> list[Row]:
            values = {"shard": f"{shard:02d}"}
            rows, _ = self._table.query("#shard = :shard", values, Limit=per_shard + 1)
            return rows

        shards = list(pool.map(some, range(SHARDS)))
        found = [_heartbeat(row) for rows in shards for row in rows[:per_shard]]
        return found, any(len(rows) > per_shard for rows in shards)

    def jobs_of(self, tenant: str, pool: Executor) -> list[str]:
        """Ids of jobs of which agents said last that they have them, in any order.

        All jobs of the tenant but members of groups, and those that are being claimed. Reads all
        agents, the partitions side by side, eventually consistent.
        """

        def in_shard(shard: int) -> list[str]:
            names, values = "#jobs, #tenants", {"shard": f"{shard:02d}"}
            rows = self._table.query_all("#shard = :shard", values, ProjectionExpression=names)
            return [
                job_id
                for row in rows
                for job_id, owner in zip_longest(row["jobs"], _tenants(row))
                if owner in {tenant, None}
            ]

        return [job_id for ids in pool.map(in_shard, range(SHARDS)) for job_id in ids]

    def _in_shard(self, shard: int) -> list[Heartbeat]:
        values = {"shard": f"{shard:02d}"}
        rows = self._table.query_all("#shard = :shard", values, ConsistentRead=True)
        return list(map(_heartbeat, rows))

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


def _row(row: Heartbeat, gone_s: int) -> Row:
    """The item of an agent, which expires `gone_s` seconds after its heartbeat."""
    item: Row = {
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
        "tenants": _runs(row.tenants) or None,
        "trouble": row.trouble,
        "progress": [entry.encode() for entry in row.progress] or None,
        "labels": dict(row.labels),
        "mode": row.mode,
        "uncordoned": row.uncordoned_ms,
        "left": row.left,
        "taken": dict(row.taken),
        "surplus": row.surplus_ms,
        "lacks": row.lacks or None,
        "memory": row.memory_mb,
        "cores": row.cores,
        "disk": row.disk,
        "work_disk": row.work_disk,
        "host": None if row.host is None else [round(row.host.load * 100), row.host.free_memory_mb],
        "state_pool": row.state_pool,
        "expires_at": row.beat_ms // 1000 + gone_s,
    }
    turn = row.beat_ms // (HEARTBEAT_S * 1000)
    return item | {NAME: encode_stats(row.stats, row.jobs, left_in_unit(item), turn)}


def _shard(name: str) -> str:
    return f"{zlib.crc32(name.encode()) % SHARDS:02d}"


def _key(name: str) -> Row:
    return {"shard": _shard(name), "agent": name}


def _runs(tenants: Sequence[str]) -> str:
    """Encode the tenants of jobs, of which many in a row are the same: `acme:12 beta:1 :3`."""
    return " ".join(f"{tenant}:{len(list(run))}" for tenant, run in groupby(tenants))


def _tenants(row: Row) -> tuple[str, ...]:
    """Inverse of `_runs`."""
    runs = (run.split(":") for run in row.get("tenants", "").split())
    return tuple(tenant for tenant, count in runs for _ in range(int(count)))


def _heartbeat(row: Row) -> Heartbeat:
    """Inverse of `_row`, also for the shorter row of an instance without an agent (boot.sh)."""
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
        tenants=_tenants(row),
        trouble=row.get("trouble"),
        lease_s=row["lease"],
        progress=tuple(map(AttemptProgress.decode, row.get("progress", ()))),
        labels=row.get("labels", {}),
        mode=row.get("mode"),
        uncordoned_ms=row.get("uncordoned"),
        left=row.get("left", 0),
        taken=row.get("taken", {}),
        surplus_ms=row.get("surplus"),
        lacks=tuple(row.get("lacks", ())),
        memory_mb=row.get("memory"),
        cores=row.get("cores"),
        disk=HostDisk(*row["disk"]) if "disk" in row else None,
        work_disk=HostDisk(*row["work_disk"]) if "work_disk" in row else None,
        host=_host_load(*row["host"]) if "host" in row else None,
        state_pool=StatePool(*row["state_pool"]) if "state_pool" in row else None,
        stats=decode_stats(row[NAME], row["jobs"]) if NAME in row else {},
    )


def _host_load(hundredths: int, free_memory_mb: int) -> HostLoad:
    return HostLoad(hundredths / 100, free_memory_mb)
