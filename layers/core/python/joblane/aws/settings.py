"""Adapter for the `settings` table: the settings of each queue.

One item for each queue, written by operators and read by every agent.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from joblane.aws.job_table import refusal_of
from joblane.queue.settings import UNSET, QueueSettings
from joblane.queue.shares import Shares

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

_BATCH_GET = 100  # DynamoDB's own limit on keys in a BatchGetItem


class SettingsChanged(Exception):
    """The settings were changed since they were read."""


class SettingsStore:
    """Reads and writes the settings of queues."""

    def __init__(self, client: "DynamoDBClient", table: str) -> None:
        self._client = client
        self._table = table

    def get(self, queue: str) -> QueueSettings:
        """Read one queue's settings, strongly consistent: to be changed next."""
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

        A refusal that shows these very settings means that the SDK repeated the call after a lost
        answer: a success. Raises SettingsChanged.
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
                raise SettingsChanged from error

    def put_shares(self, queue: str, shares: Shares, version: int) -> None:
        """Store the current shares of `cluster_threads`; the version stays.

            requeue                      table                      operator
            reads version 3, 10 threads
                                         version 4: 4      <------  put: 4 threads
            shares of 10 if 3  ------>   refused

        Raises SettingsChanged.
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
            raise SettingsChanged from error


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
