"""Adapter for the directory in the `conditions` table: the conditions of each tenant.

A row (`TENANT#<tenant>`, condition) says that jobs of a tenant have joined a condition since it
was opened. The first to join puts it, and the execution that finds the list empty deletes it.
Both compare `since`, the time of the opening: a row of another opening is ignored
(docs/decisions/0304).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from joblane.aws.condition_items import (
    JOB,
    OWN,
    Item,
    number,
    row_key,
    to_state,
)
from joblane.condition.state import ConditionState, Phase

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

COUNTED = 100
"""Rows of a condition's list that are examined to count how many jobs wait."""

_APP = "APP"


def directory_key(tenant: str, condition: str) -> Item:
    """Key of a tenant's row for a condition. No kind of condition begins with a capital."""
    return row_key(f"TENANT#{tenant}", condition)


def directory_row(tenant: str, row: ConditionState, now_ms: int) -> Item:
    """A tenant's row for an opening of a condition, which its first job joins now."""
    return {
        **directory_key(tenant, row.condition),
        "since": number(row.since_ms),
        "joined_at": number(now_ms),
    }


@dataclass(frozen=True, slots=True)
class Listed:
    """A condition for which jobs of a tenant wait."""

    row: ConditionState
    waiting: int
    """How many of the tenant's jobs are among the first `COUNTED` of the list."""
    more: bool
    """Whether the list is longer than that."""
    first_ms: int
    """When the tenant's job that waits longest blocked."""


class Directory:
    """Reads which conditions block a tenant's jobs."""

    def __init__(self, client: "DynamoDBClient", table: str) -> None:
        self._client = client
        self._table = table

    def page(
        self, tenant: str, *, limit: int, after: str | None
    ) -> tuple[list[Listed], str | None]:
        """Read up to `limit` conditions by name, from the name `after` on.

        One query, one batch of their rows, and one query each to count waiting jobs, however long
        their lists are. Returns the name to continue from, or None at the end.
        """
        key = "#condition = :tenant" + (" AND sk > :after" if after is not None else "")
        values: Item = {":tenant": directory_key(tenant, "")["condition"]}
        if after is not None:
            values[":after"] = {"S": after}
        answer = self._client.query(
            TableName=self._table,
            KeyConditionExpression=key,
            ExpressionAttributeNames={"#condition": "condition"},
            ExpressionAttributeValues=values,
            Limit=limit,
        )
        entries = answer["Items"]
        rows = self._rows([entry["sk"]["S"] for entry in entries])
        found = [
            self._listed(tenant, row, int(entry["joined_at"]["N"]))
            for entry in entries
            if (row := rows.get(entry["sk"]["S"])) is not None
            and row.phase is not Phase.CLOSED
            and row.since_ms == int(entry["since"]["N"])
        ]
        following = answer.get("LastEvaluatedKey")
        return (
            [listed for listed in found if listed.waiting or listed.more],
            following["sk"]["S"] if following else None,
        )

    def _rows(self, names: list[str]) -> dict[str, ConditionState]:
        found: dict[str, ConditionState] = {}
        todo: Any = {self._table: {"Keys": [row_key(name, OWN) for name in names]}} if names else {}
        while todo:  # what a throttled answer leaves out comes back as unprocessed
            answer = self._client.batch_get_item(RequestItems=todo)
            for item in answer["Responses"].get(self._table, []):
                found[item["condition"]["S"]] = to_state(item)
            todo = answer.get("UnprocessedKeys", {})
        return found

    def _listed(self, tenant: str, row: ConditionState, joined_ms: int) -> Listed:
        answer = self._client.query(
            TableName=self._table,
            KeyConditionExpression="#condition = :condition AND begins_with(sk, :job)",
            ProjectionExpression="#tenant, #first",
            ExpressionAttributeNames={
                "#condition": "condition",
                "#tenant": "tenant",
                "#first": "first_at",
            },
            ExpressionAttributeValues={":condition": {"S": row.condition}, ":job": {"S": JOB}},
            Limit=COUNTED,
        )
        firsts = [int(i["first_at"]["N"]) for i in answer["Items"] if i["tenant"]["S"] == tenant]
        return Listed(
            row=row,
            waiting=len(firsts),
            more="LastEvaluatedKey" in answer,
            first_ms=min(firsts, default=joined_ms),
        )


@dataclass(frozen=True, slots=True)
class Declared:
    """An operator's declaration that an application is down."""

    why: str
    until_s: int
    """Unix seconds."""


class AppStore:
    """Declarations of operators about `app` conditions, in the same table."""

    def __init__(self, client: "DynamoDBClient", table: str) -> None:
        self._client = client
        self._table = table

    def down(self, app: str, now_s: int) -> Declared | None:
        """Read the declaration that an application is down; None if none is valid now."""
        answer = self._client.get_item(
            TableName=self._table, Key=row_key(f"app:{app}", _APP), ConsistentRead=True
        )
        item = answer.get("Item")
        if item is None or int(item["expires_at"]["N"]) <= now_s:  # TTL deletes late
            return None
        return Declared(item["why"]["S"], int(item["expires_at"]["N"]))

    def declare_down(self, app: str, why: str, until_s: int) -> None:
        """Hold back all jobs that wait for an application, until Unix time `until_s` at most."""
        item = {
            **row_key(f"app:{app}", _APP),
            "why": {"S": why},
            "expires_at": number(until_s),
        }
        self._client.put_item(TableName=self._table, Item=item)

    def declare_up(self, app: str) -> None:
        """End the declaration: the next test may release the jobs that wait for the application."""
        self._client.delete_item(TableName=self._table, Key=row_key(f"app:{app}", _APP))
