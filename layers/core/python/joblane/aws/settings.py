"""The `settings` table: one item a queue, written by operators, read by every agent."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from joblane.aws.agents import AgentStore
from joblane.aws.job_table import refusal_of
from joblane.queues import UNSET, QueueSettings
from joblane.shares import Shares, share_out

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

_BATCH_GET = 100  # DynamoDB's own limit on keys in a BatchGetItem


class Outrun(Exception):
    """Somebody else changed these settings first."""


class SettingsStore:
    """Reads and writes the settings of queues."""

    def __init__(self, client: "DynamoDBClient", table: str) -> None:
        self._client = client
        self._table = table

    def get(self, queue: str) -> QueueSettings:
        """Read one queue's settings, strongly consistent: an operator is about to change them."""
        answer = self._client.get_item(TableName=self._table, Key=_key(queue), ConsistentRead=True)
        return _settings(answer["Item"]) if "Item" in answer else UNSET

    def get_all(self, queues: Iterable[str]) -> dict[str, QueueSettings]:
        """Read many queues' settings: half a read unit each, one request for each hundred."""
        names = list(queues)
        found: dict[str, QueueSettings] = {}
        for start in range(0, len(names), _BATCH_GET):
            keys = [_key(name) for name in names[start : start + _BATCH_GET]]
            todo: Mapping[str, Any] = {self._table: {"Keys": keys}}
            while todo:  # what a throttled answer leaves out comes back as unprocessed
                answer = self._client.batch_get_item(RequestItems=todo)
                for item in answer["Responses"].get(self._table, []):
                    found[item["queue"]["S"]] = _settings(item)
                todo = answer.get("UnprocessedKeys", {})
        return {name: found.get(name, UNSET) for name in names}

    def put(self, queue: str, settings: QueueSettings, *, over: int) -> None:
        """Store an operator's settings over the version `over`, which is 0 if there are none.

            operator A                   table                      operator B
            reads version 3
                                         version 4         <------  put over 3
            put over 3  ------------->   refused: reads again

        A refusal that shows our own settings comes of the SDK's second try after a lost answer,
        and is a success. Raises Outrun.
        """
        request: dict[str, Any] = {
            "TableName": self._table,
            "Item": {**_key(queue), **_item(settings)},
            "ConditionExpression": "attribute_not_exists(version)",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        if over:
            request["ConditionExpression"] = "version = :over"
            request["ExpressionAttributeValues"] = {":over": _number(over)}
        try:
            self._client.put_item(**request)
        except ClientError as error:
            if refusal_of(error) != request["Item"]:
                raise Outrun from error

    def put_shares(self, queue: str, shares: Shares, version: int) -> None:
        """Store how `cluster_threads` are shared out now; the version stays.

            requeue                      table                      operator
            reads version 3, 10 threads
                                         version 4: 4      <------  put: 4 threads
            shares of 10 if 3  ------>   refused

        Raises Outrun.
        """
        try:
            self._client.update_item(
                TableName=self._table,
                Key=_key(queue),
                UpdateExpression="SET shares = :shares",
                ConditionExpression="version = :version",
                ExpressionAttributeValues={
                    ":shares": _shares_item(shares),
                    ":version": _number(version),
                },
            )
        except ClientError as error:
            refusal_of(error)
            raise Outrun from error


class Sharing:
    """Shares out the `cluster_threads` of queues among the agents that are alive."""

    def __init__(self, settings: SettingsStore, agents: AgentStore) -> None:
        self._settings = settings
        self._agents = agents

    def among_all(self, queue: str, cluster_threads: int | None, now_ms: int) -> Shares | None:
        """Share out one queue; reads every agent. None without a limit."""
        if cluster_threads is None:
            return None
        return self._divided({queue: cluster_threads}, now_ms)[queue]

    def refresh(self, queues: Iterable[str], now_ms: int) -> int:
        """Share out anew wherever agents have come or gone; returns how many queues that were.

        Reads the settings of `queues`, and the agents only if one of them has a limit.
        """
        found = self._settings.get_all(queues)
        limits = {
            queue: settings.cluster_threads
            for queue, settings in found.items()
            if settings.cluster_threads is not None
        }
        changed = 0
        for queue, shares in self._divided(limits, now_ms).items():
            before = found[queue]
            if before.shares is not None and before.shares.members == shares.members:
                continue
            try:
                self._settings.put_shares(queue, shares, before.version)
            except Outrun:
                continue  # by an operator, who shared them out too
            changed += 1
        return changed

    def _divided(self, limits: Mapping[str, int], now_ms: int) -> dict[str, Shares]:
        if not limits:
            return {}
        alive = [row for row in self._agents.every() if row.alive(now_ms)]
        return {
            queue: share_out(
                queue,
                cluster_threads,
                ((row.name, row.since_ms) for row in alive if queue in row.queues),
                now_ms,
            )
            for queue, cluster_threads in limits.items()
        }


def _key(queue: str) -> dict[str, Any]:
    return {"queue": {"S": queue}}


def _number(value: int) -> dict[str, Any]:
    return {"N": str(value)}


def _item(settings: QueueSettings) -> dict[str, Any]:
    item: dict[str, Any] = {
        "run_jobs": {"BOOL": settings.run_jobs},
        "version": _number(settings.version),
        "changed": _number(settings.changed_ms or 0),
        "changed_by": {"S": settings.changed_by or ""},
        "tenant": {"S": settings.tenant or ""},
    }
    for name in ("threads", "cluster_threads"):
        if (limit := getattr(settings, name)) is not None:
            item[name] = _number(limit)
    if settings.shares is not None:
        item["shares"] = _shares_item(settings.shares)
    return item


def _shares_item(shares: Shares) -> dict[str, Any]:
    known = {
        "each": _number(shares.each),
        "first": None if shares.first is None else {"S": shares.first},
        "last": None if shares.last is None else {"S": shares.last},
        "settled": _number(shares.settled_ms),
        "members": {"S": shares.members},
    }
    return {"M": {name: value for name, value in known.items() if value is not None}}


def _settings(item: Mapping[str, Any]) -> QueueSettings:
    return QueueSettings(
        run_jobs=item["run_jobs"]["BOOL"],
        threads=int(item["threads"]["N"]) if "threads" in item else None,
        cluster_threads=int(item["cluster_threads"]["N"]) if "cluster_threads" in item else None,
        version=int(item["version"]["N"]),
        changed_ms=int(item["changed"]["N"]),
        changed_by=item["changed_by"]["S"],
        tenant=item["tenant"]["S"],
        shares=_shares(item["shares"]["M"]) if "shares" in item else None,
    )


def _shares(item: Mapping[str, Any]) -> Shares:
    return Shares(
        each=int(item["each"]["N"]),
        first=item["first"]["S"] if "first" in item else None,
        last=item["last"]["S"] if "last" in item else None,
        settled_ms=int(item["settled"]["N"]),
        members=item["members"]["S"],
    )
