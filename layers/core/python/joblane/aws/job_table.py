"""Adapter for the `jobs` table: reads, and the conditional update that every write uses."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from botocore.exceptions import ClientError

from joblane.aws.job_items import DATA, Item, attention, from_item, key, number, text
from joblane.formats.ids import before_id
from joblane.job.head import Head, Step
from joblane.job.lifecycle import State

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

_CONDITION_FAILED = "ConditionalCheckFailedException"
_BATCH_GET = 100  # DynamoDB's own limit on keys in a BatchGetItem
_FIRST_ID, _LAST_ID = "0" * 26, "7" + "Z" * 25


class Refused(Exception):
    """A conditional write was refused; `head` is the current job, None if there is none."""

    def __init__(self, head: Head | None) -> None:
        super().__init__("no such job" if head is None else f"the job is {head.state}")
        self.head = head


@dataclass(frozen=True, slots=True)
class Condition:
    """When a write may happen; attributes are written `#name`."""

    text: str
    values: Item = field(default_factory=dict)


class JobTable:
    """Reads jobs, and writes them by conditional updates."""

    def __init__(self, client: "DynamoDBClient", table: str) -> None:
        self._client = client
        self._table = table

    def get(self, job_id: str) -> Head | None:
        """Read one job, strongly consistent, so that a submitter finds what it just submitted."""
        answer = self._client.get_item(TableName=self._table, Key=key(job_id), ConsistentRead=True)
        item = answer.get("Item")
        try:
            return None if item is None else self._complete(item)
        except Refused:
            return None

    def heads(self, job_ids: Sequence[str], *, consistent: bool = False) -> list[Head]:
        """Read many jobs, in the order of their ids, without absent ones.

        One request for each hundred, and one more for those of them with long submissions.
        Submissions in S3 are not read: their heads have them abridged.
        """
        found = self._batch_get([key(job_id) for job_id in job_ids], consistent=consistent)
        in_data = [key(item["job_id"]["S"], DATA) for item in found if "spec" not in item]
        data = {item["job_id"]["S"]: item for item in found if "spec" in item}
        data |= {item["job_id"]["S"]: item for item in self._batch_get(in_data)}
        heads = {
            job_id: from_item(item, data[job_id])
            for item in found
            if (job_id := item["job_id"]["S"]) in data  # else it was deleted between the reads
        }
        return [heads[job_id] for job_id in job_ids if job_id in heads]

    def page(
        self, tenant: str, *, limit: int, before: str | None, since: str | None = None
    ) -> tuple[list[Head], str | None]:
        """Read a tenant's jobs, newest first: at most `limit`, with ids below `before`.

        `since` is the least id that is wanted. Two requests a page (keys, then a batch of
        heads) however long the table is. Returns the id to continue from, or None at the end.
        """
        ids, following = self._ids(
            "by_tenant", "tenant", tenant, limit=limit, before=before, since=since
        )
        return self.heads(ids), following

    def attention_page(
        self, tenant: str, state: State, *, limit: int, before: str | None, since: str | None = None
    ) -> tuple[list[Head], str | None]:
        """Read a tenant's jobs in one of the states that need attention, newest first.

        As `page`. The index lags by moments: a job that has just moved on is left out.
        """
        partition = attention(tenant, state)
        ids, following = self._ids(
            "attention", "attention", partition, limit=limit, before=before, since=since
        )
        return [head for head in self.heads(ids) if head.state is state], following

    def due_page(
        self, shard: str, now_ms: int, *, limit: int, after: Mapping[str, Any] | None
    ) -> tuple[list[Head], Mapping[str, Any] | None]:
        """Read jobs of one shard whose `wake_at` has passed, the earliest first.

        `after` is the second value of the previous page, None for the first page; the second value
        is None on the last page. The heads are
        read consistently, because the index may lag behind them.
        """
        request: dict[str, Any] = {
            "TableName": self._table,
            "IndexName": "wake",
            "KeyConditionExpression": "wake = :shard AND wake_at <= :now",
            "ExpressionAttributeValues": {":shard": text(shard), ":now": number(now_ms)},
            "Limit": limit,
        }
        if after is not None:
            request["ExclusiveStartKey"] = after
        answer = self._client.query(**request)
        ids = [row["job_id"]["S"] for row in answer["Items"]]
        return self.heads(ids, consistent=True), answer.get("LastEvaluatedKey")

    def _ids(  # noqa: PLR0913 - the parts of a Query
        self,
        index: str,
        name: str,
        value: str,
        *,
        limit: int,
        before: str | None,
        since: str | None,
    ) -> tuple[list[str], str | None]:
        newest = _LAST_ID if before is None else before_id(before)
        oldest = since or _FIRST_ID
        if newest is None or newest < oldest:
            return [], None
        answer = self._client.query(
            TableName=self._table,
            IndexName=index,
            KeyConditionExpression=f"{name} = :value AND job_id BETWEEN :oldest AND :newest",
            ExpressionAttributeValues={
                ":value": text(value),
                ":oldest": text(oldest),
                ":newest": text(newest),
            },
            ScanIndexForward=False,
            Limit=limit,
        )
        ids = [row["job_id"]["S"] for row in answer["Items"]]
        return ids, ids[-1] if "LastEvaluatedKey" in answer and ids else None

    def _transition(  # noqa: PLR0913 - the parts of an UpdateItem
        self,
        job_id: str,
        steps: Sequence[Step],
        condition: Condition,
        *,
        sets: Item | None = None,
        removes: Iterable[str] = (),
        adds: Iterable[str] = (),
        instead: bool = False,
    ) -> Item:
        """Write a transition and its lines in the timeline. Returns the new item.

        The SDK repeats a call whose response was lost, and the second one is refused. A refusal
        that shows our own steps at the end of the timeline is a success.
        With `instead` the steps replace the timeline; the condition must exclude that another
        writer has added a line.
        """
        lines = [text(step.encode()) for step in steps]
        sets = {**(sets or {}), "state": text(steps[-1].state)}
        if instead:
            sets["timeline"] = {"L": lines}
        return self._update(
            job_id,
            condition,
            lambda old: old["timeline"]["L"][-len(lines) :] == lines,
            sets=sets,
            removes=removes,
            adds=adds,
            lines=() if instead else lines,
        )

    def _update(  # noqa: PLR0913 - the parts of an UpdateItem
        self,
        job_id: str,
        condition: Condition,
        is_repeated: Callable[[Item], bool],
        *,
        sets: Item,
        removes: Iterable[str] = (),
        adds: Iterable[str] = (),
        lines: Sequence[Item] = (),
    ) -> Item:
        values = {f":set_{name}": value for name, value in sets.items()} | condition.values
        parts = [f"#{name} = :set_{name}" for name in sets]
        if lines:
            parts.append("#timeline = list_append(#timeline, :lines)")
            values[":lines"] = {"L": list(lines)}
        update = f"SET {', '.join(parts)}" if parts else ""
        if names := [f"#{name}" for name in removes]:
            update += f" REMOVE {', '.join(names)}"
        if names := [f"#{name} :one" for name in adds]:
            update += f" ADD {', '.join(names)}"
            values[":one"] = number(1)
        try:
            return self._client.update_item(
                TableName=self._table,
                Key=key(job_id),
                UpdateExpression=update,
                ConditionExpression=condition.text,
                ExpressionAttributeNames={
                    f"#{name}": name for name in re.findall(r"#(\w+)", update + condition.text)
                },
                ExpressionAttributeValues=values,
                ReturnValues="ALL_NEW",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )["Attributes"]
        except ClientError as error:
            old = refusal_of(error)
            if not old:
                raise Refused(None) from error
            if is_repeated(old):
                return old
            raise Refused(self._complete(old)) from error

    def _complete(self, item: Item) -> Head:
        """Turn an item into a head, reading DATA if the submission is there.

        Raises Refused(None) if that is gone: the job was deleted since the item was read.
        """
        if "spec" in item:
            return from_item(item, item)
        answer = self._client.get_item(
            TableName=self._table, Key=key(item["job_id"]["S"], DATA), ConsistentRead=True
        )
        if "Item" not in answer:
            raise Refused(None)
        return from_item(item, answer["Item"])

    def _batch_get(self, keys: list[Item], *, consistent: bool = False) -> list[Item]:
        found: list[Item] = []
        for start in range(0, len(keys), _BATCH_GET):
            batch = {"Keys": keys[start : start + _BATCH_GET], "ConsistentRead": consistent}
            todo: Mapping[str, Any] = {self._table: batch}
            while todo:  # what a throttled answer leaves out comes back as unprocessed
                answer = self._client.batch_get_item(RequestItems=todo)
                found += answer["Responses"].get(self._table, [])
                todo = answer.get("UnprocessedKeys", {})
        return found


def refusal_of(error: ClientError) -> Item:
    """Return the item that refused a conditional write; re-raises any other error."""
    if error.response["Error"]["Code"] != _CONDITION_FAILED:
        raise error
    return cast("Item", error.response.get("Item") or {})
