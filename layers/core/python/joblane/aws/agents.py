"""The `agents` table: who is alive. One item an agent, rewritten with every heartbeat."""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

HEARTBEAT_S = 10
LEASE_S = 300
"""An agent whose last heartbeat is older has lost its jobs. It says so itself in every heartbeat,
so that agents of another version, with another lease, may work beside it."""

UNLISTED_MS = 10_000
"""A heartbeat that leaves a job out counts when it came so long after the claim: the agent lists
a job before it claims it, and this is for a clock that was set back a little in between."""

SHARDS = 16
"""Partitions that the agents spread over: listing them reads 16 partitions, a page at a time,
and a fleet of thousands writes 1/16 of its heartbeats to each."""

_GONE_S = 3600  # an agent that stopped without a goodbye is forgotten after an hour


@dataclass(frozen=True, slots=True)
class AgentRow:
    """An agent, as of its last heartbeat."""

    name: str
    since_ms: int
    """When this process of the agent started: what an earlier one held is lost."""
    beat_ms: int
    threads: int
    running: int
    queues: tuple[str, ...]
    isolation: str
    version: str
    jobs: tuple[str, ...] = ()
    """Ids of the jobs that ran or were being claimed then, and of those whose end was not
    reported yet: what to free when the instance ends without a word."""
    trouble: str | None = None
    """Why it takes no work or cannot report what it did; None while all is well."""
    lease_s: int = LEASE_S
    """For how long the heartbeat holds."""

    def alive(self, now_ms: int) -> bool:
        """Whether the jobs that it has claimed are still its own."""
        return now_ms - self.beat_ms < self.lease_s * 1000

    def holds(self, job_id: str, claimed_ms: int, now_ms: int) -> bool:
        """Whether a job that was claimed in this agent's name at `claimed_ms` still runs there.

        An agent that crashed and came back under its name beats on, but of what its earlier life
        had claimed it holds only what it lists: what it found in its journal. Nor does one run a
        job whose claim was written while the answer to it was lost; it shows by a heartbeat that
        does not list the job:

            agent                        table                      others
            lists the job
            claim  ----------------->    active
                            (answer lost, three times)
            does not list it
            heartbeat  ------------->    row without the job
                                         active, epoch 2   <------  take over

        Both times are by the agent's own clock.
        """
        if not self.alive(now_ms):
            return False
        if job_id in self.jobs:
            return True
        return claimed_ms >= self.since_ms and self.beat_ms - claimed_ms <= UNLISTED_MS


class AgentStore:
    """Reads and writes agents."""

    def __init__(self, client: "DynamoDBClient", table: str) -> None:
        self._client = client
        self._table = table

    def beat(self, row: AgentRow) -> None:
        """Renew an agent's lease: no index, no read, a write unit for every 30 jobs or so."""
        told = {} if row.trouble is None else {"trouble": {"S": row.trouble}}
        self._client.put_item(
            TableName=self._table,
            Item={
                **_key(row.name),
                **told,
                "since": {"N": str(row.since_ms)},
                "beat": {"N": str(row.beat_ms)},
                "lease": {"N": str(row.lease_s)},
                "threads": {"N": str(row.threads)},
                "running": {"N": str(row.running)},
                "queues": {"L": [{"S": queue} for queue in row.queues]},
                "isolation": {"S": row.isolation},
                "version": {"S": row.version},
                "jobs": {"L": [{"S": job_id} for job_id in row.jobs]},
                "expires_at": {"N": str(row.beat_ms // 1000 + _GONE_S)},
            },
        )

    def end_lease(self, name: str) -> None:
        """Declare that an agent no longer holds its jobs; its row stays, with what it ran.

        One that said goodbye meanwhile stays forgotten: an update alone would make a row of
        nothing but a beat, which no reader understands.
        """
        try:
            self._client.update_item(
                TableName=self._table,
                Key=_key(name),
                UpdateExpression="SET beat = :never",
                ConditionExpression="attribute_exists(#agent)",
                ExpressionAttributeNames={"#agent": "agent"},
                ExpressionAttributeValues={":never": {"N": "0"}},
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise

    def goodbye(self, name: str) -> None:
        """Forget an agent that has left in order, and holds nothing any more."""
        self._client.delete_item(TableName=self._table, Key=_key(name))

    def get(self, name: str) -> AgentRow | None:
        """Read one agent, strongly consistent: a takeover is decided by it."""
        answer = self._client.get_item(TableName=self._table, Key=_key(name), ConsistentRead=True)
        return _row(answer["Item"]) if "Item" in answer else None

    def every(self) -> Iterator[AgentRow]:
        """Read all agents, strongly consistent: who is missing here gets no share."""
        for shard in range(SHARDS):
            request: dict[str, Any] = {
                "TableName": self._table,
                "KeyConditionExpression": "#shard = :shard",
                "ExpressionAttributeNames": {"#shard": "shard"},
                "ExpressionAttributeValues": {":shard": {"S": f"{shard:02d}"}},
                "ConsistentRead": True,
            }
            while True:
                answer = self._client.query(**request)
                yield from map(_row, answer["Items"])
                if "LastEvaluatedKey" not in answer:
                    break
                request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def page(self, *, limit: int, after: str | None) -> tuple[list[AgentRow], str | None]:
        """Read up to `limit` agents in a fixed order, from the name `after` on."""
        rows: list[AgentRow] = []
        shard = int(_shard(after)) if after is not None else 0
        while shard < SHARDS:
            request: dict[str, Any] = {
                "TableName": self._table,
                "KeyConditionExpression": "#shard = :shard",
                "ExpressionAttributeNames": {"#shard": "shard"},  # a reserved word, as is agent
                "ExpressionAttributeValues": {":shard": {"S": f"{shard:02d}"}},
                "Limit": limit - len(rows),
            }
            if after is not None:
                request["KeyConditionExpression"] += " AND #agent > :after"
                request["ExpressionAttributeNames"]["#agent"] = "agent"
                request["ExpressionAttributeValues"][":after"] = {"S": after}
            rows += [_row(item) for item in self._client.query(**request)["Items"]]
            if len(rows) == limit:
                return rows, rows[-1].name
            shard, after = shard + 1, None
        return rows, None


def _shard(name: str) -> str:
    return f"{zlib.crc32(name.encode()) % SHARDS:02d}"


def _key(name: str) -> dict[str, Any]:
    return {"shard": {"S": _shard(name)}, "agent": {"S": name}}


def _row(item: Mapping[str, Any]) -> AgentRow:
    return AgentRow(
        name=item["agent"]["S"],
        since_ms=int(item["since"]["N"]),
        beat_ms=int(item["beat"]["N"]),
        threads=int(item["threads"]["N"]),
        running=int(item["running"]["N"]),
        queues=tuple(entry["S"] for entry in item["queues"]["L"]),
        isolation=item["isolation"]["S"],
        version=item["version"]["S"],
        jobs=tuple(entry["S"] for entry in item["jobs"]["L"]),
        trouble=item["trouble"]["S"] if "trouble" in item else None,
        lease_s=int(item["lease"]["N"]) if "lease" in item else LEASE_S,  # an older agent's
    )
