"""Adapter for the `agents` table: one item for each agent, rewritten with every heartbeat."""

import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from joblane.job.lease import LEASE_S, Heartbeat

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

SHARDS = 16
"""Partitions that the agents spread over: listing them reads 16 partitions, a page at a time,
and a fleet of thousands writes 1/16 of its heartbeats to each."""

_GONE_S = 3600  # the row of an agent that did not delete it expires after an hour


class AgentStore:
    """Reads and writes agents."""

    def __init__(self, client: "DynamoDBClient", table: str) -> None:
        self._client = client
        self._table = table

    def beat(self, row: Heartbeat) -> None:
        """Renew an agent's lease: no index, no read, a write unit for every 30 jobs or so."""
        trouble = {} if row.trouble is None else {"trouble": {"S": row.trouble}}
        self._client.put_item(
            TableName=self._table,
            Item={
                **_key(row.name),
                **trouble,
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
        """End an agent's lease on its jobs; its row stays, with the ids of its jobs.

        Does nothing for a row that was deleted: an update alone would create a row of nothing
        but a heartbeat time, which no reader understands.
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

    def delete(self, name: str) -> None:
        """Delete the row of an agent that no longer holds jobs."""
        self._client.delete_item(TableName=self._table, Key=_key(name))

    def get(self, name: str) -> Heartbeat | None:
        """Read one agent, strongly consistent: takeovers are decided by it."""
        answer = self._client.get_item(TableName=self._table, Key=_key(name), ConsistentRead=True)
        return _row(answer["Item"]) if "Item" in answer else None

    def every(self) -> Iterator[Heartbeat]:
        """Read all agents, strongly consistent: an agent that is missing gets no share."""
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

    def page(self, *, limit: int, after: str | None) -> tuple[list[Heartbeat], str | None]:
        """Read up to `limit` agents in a fixed order, from the name `after` on."""
        rows: list[Heartbeat] = []
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


def _row(item: Mapping[str, Any]) -> Heartbeat:
    return Heartbeat(
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
