"""An agent's own records in the `agents` table: a partition an agent, beside the heartbeats.

They are of no interest to anybody else, so no index has them and no listing of agents meets them:
heartbeats are in partitions 00 to 15, records in `STATE#<agent>`. Every write is one conditional
put. A batch is therefore not a BatchWriteItem, which cannot carry conditions, but up to 25 puts
at once, and what DynamoDB did not take is tried again.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

BATCH = 25
"""Writes that are under way at once."""

PAUSES_S = (0.1, 0.3, 1.0)
"""Before what was not taken is tried again, on top of the SDK's own three tries."""

_READS = 100  # DynamoDB's own limit on keys in a BatchGetItem
_CONDITION_FAILED = "ConditionalCheckFailedException"
_NOT_TAKEN = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "ThrottlingException",
        "RequestLimitExceeded",
        "InternalServerError",
    }
)

Item = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """One record of an agent."""

    kind: str
    id: str
    version: int
    body: str | None
    """None marks a deletion."""
    expires_at: int | None
    """Unix seconds: the table's TTL."""


@dataclass(frozen=True, slots=True)
class Put:
    """A record to store if it is newer than what is there."""

    record: AgentRecord
    may_be_new: bool
    """Whether there may be none yet, or only a mark."""
    may_be_there: bool
    """Whether it may replace a live one."""


class AgentRecords:
    """Reads and writes the records of one agent."""

    def __init__(
        self,
        client: "DynamoDBClient",
        table: str,
        agent: str,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._table = table
        self._partition = f"STATE#{agent}"
        self._sleep = sleep

    def put(self, puts: Sequence[Put], now: int) -> list[AgentRecord | None]:
        """Store records, each on its own condition; no two may be of one id.

        Returns for each what refused it, None where it is stored; version -1 stands for a record
        that is not there and should be.

            agent                        table                      agent, earlier request
            put version 2  --------->    version 2
                                         version 2         <------  put version 1, delayed
                                         refused: 2 is newer ---->

        What DynamoDB did not take is tried again; raises ClientError or BotoCoreError when it
        still does not, and what was taken by then stays.
        """
        refusals: dict[int, AgentRecord | None] = {}
        for pause in (*PAUSES_S, None):
            todo = [n for n in range(len(puts)) if n not in refusals]
            not_taken: ClientError | None = None
            with ThreadPoolExecutor(BATCH) as pool:
                tries = [(n, pool.submit(self._put, puts[n], now)) for n in todo]
                for n, tried in tries:
                    try:
                        refusals[n] = tried.result()
                    except ClientError as error:
                        if error.response["Error"]["Code"] not in _NOT_TAKEN:
                            raise
                        not_taken = error
            if not_taken is None:
                break
            if pause is None:
                raise not_taken
            self._sleep(pause)
        return [refusals[n] for n in range(len(puts))]

    def get(self, kind: str, ids: Sequence[str]) -> list[AgentRecord]:
        """Read records, strongly consistent, in no order; those that are not there are left out."""
        found: list[AgentRecord] = []
        for start in range(0, len(ids), _READS):
            keys = [self._key(kind, id_) for id_ in ids[start : start + _READS]]
            todo: Mapping[str, Any] = {self._table: {"Keys": keys, "ConsistentRead": True}}
            while todo:  # what a throttled answer leaves out comes back as unprocessed
                answer = self._client.batch_get_item(RequestItems=todo)
                found += map(_record, answer["Responses"].get(self._table, []))
                todo = answer.get("UnprocessedKeys", {})
                if todo:
                    self._sleep(PAUSES_S[0])
        return found

    def page(
        self, kind: str, after: str | None, limit: int
    ) -> tuple[list[AgentRecord], str | None]:
        """Read a page of a kind in the order of ids; the second value is the next `after`.

        A page may be short, or empty, before the end.
        """
        answer = self._client.query(
            TableName=self._table,
            KeyConditionExpression="#shard = :shard AND #agent BETWEEN :after AND :end",
            ExpressionAttributeNames={"#shard": "shard", "#agent": "agent"},  # reserved words
            ExpressionAttributeValues={
                ":shard": {"S": self._partition},
                # Just behind an id: no printable character is smaller than a space.
                ":after": {"S": f"{kind}#" if after is None else f"{kind}#{after}\x01"},
                ":end": {"S": f"{kind}$"},  # $ follows #
            },
            Limit=limit,
            ConsistentRead=True,
        )
        last = answer.get("LastEvaluatedKey")
        following = None if last is None else last["agent"]["S"].partition("#")[2]
        return [_record(item) for item in answer["Items"]], following

    def _put(self, put: Put, now: int) -> AgentRecord | None:
        record = put.record
        item: Item = {**self._key(record.kind, record.id), "version": {"N": str(record.version)}}
        if record.body is not None:
            item["body"] = {"S": record.body}
        if record.expires_at is not None:
            item["expires_at"] = {"N": str(record.expires_at)}
        # TTL deletes late: what has expired is as good as not there.
        unknown = "(attribute_not_exists(#version) OR #expires_at <= :now)"
        older = "#version < :version"
        if put.may_be_new and put.may_be_there:
            condition = f"{unknown} OR {older}"
        elif put.may_be_new:
            condition = f"{unknown} OR ({older} AND attribute_not_exists(#body))"
        else:
            condition = f"{older} AND attribute_exists(#body) AND NOT {unknown}"
        names = ("version", "expires_at", "body")
        try:
            self._client.put_item(
                TableName=self._table,
                Item=item,
                ConditionExpression=condition,
                ExpressionAttributeNames={f"#{n}": n for n in names if f"#{n}" in condition},
                ExpressionAttributeValues={":now": {"N": str(now)}, ":version": item["version"]},
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != _CONDITION_FAILED:
                raise
            old = error.response.get("Item")
            if old is None:
                return AgentRecord(record.kind, record.id, -1, None, None)
            return _record(cast("Item", old))
        return None

    def _key(self, kind: str, id_: str) -> Item:
        return {"shard": {"S": self._partition}, "agent": {"S": f"{kind}#{id_}"}}


def _record(item: Mapping[str, Any]) -> AgentRecord:
    kind, _, id_ = item["agent"]["S"].partition("#")
    return AgentRecord(
        kind=kind,
        id=id_,
        version=int(item["version"]["N"]),
        body=item["body"]["S"] if "body" in item else None,
        expires_at=int(item["expires_at"]["N"]) if "expires_at" in item else None,
    )
