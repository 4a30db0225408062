"""A table of DynamoDB: the requests and the encoding of values that all stores share."""

import re
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from joblane.errors import Failure

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

Item = dict[str, Any]
"""Attributes as DynamoDB encodes them: `{"epoch": {"N": "1"}}`."""

Row = dict[str, Any]
"""The same attributes as Python values: `{"epoch": 1}`."""

_BATCH_GET = 100  # DynamoDB's own limit on keys in a BatchGetItem
_BATCH_WRITE = 25  # and in a BatchWriteItem
_PAUSE_S = 0.1  # before keys are sent again that a throttled answer left out

_BUSY_PAUSES_S = (0.02, 0.05, 0.1, 0.2)
"""Before a write is made again that met a transaction of the same item. Those take some
milliseconds; the SDK does not repeat this error."""

_WITH_ITEM = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}

_REFUSALS = frozenset({"None", "ConditionalCheckFailed", "TransactionConflict"})
"""Reasons of a transaction that was refused for what its items are; others are errors."""


class ConditionFailed(Failure):
    """A conditional write was refused; `row` is the stored item, empty if there is none."""

    def __init__(self, row: Row) -> None:
        super().__init__("the condition of the write does not hold")
        self.row = row


class TransactionRefused(Failure):
    """A transaction was refused as a whole: nothing of it was written."""

    def __init__(self, reasons: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(
            "a condition of the transaction does not hold, or one of its items is busy"
        )
        self._reasons = reasons

    def has_failed(self, number: int) -> bool:
        """Whether the condition of a write, counted from 0, does not hold."""
        return self._reasons[number].get("Code") == "ConditionalCheckFailed"

    def row(self, number: int) -> Row:
        """The stored item that failed a condition; empty if there is none."""
        return decode(self._reasons[number].get("Item") or {})


class Table:
    """Requests to one table.

    Expressions write an attribute as `#name` and a value as `:name`; values are given by name.
    Writes raise ConditionFailed, and every method Unavailable.
    """

    def __init__(self, client: "DynamoDBClient", name: str) -> None:
        self.client = client
        self.name = name

    def get(self, key: Row) -> Row | None:
        """Read one item, strongly consistent."""
        answer = self.client.get_item(TableName=self.name, Key=encode(key), ConsistentRead=True)
        return decode(answer["Item"]) if "Item" in answer else None

    def get_many(self, keys: Sequence[Row], *, consistent: bool = False) -> list[Row]:
        """Read many items, a hundred in a request, in any order and without absent ones.

        A key that comes twice is read once: DynamoDB refuses the request otherwise, and an agent
        lists a job twice while it claims what it is about to adopt.
        """
        found: list[Row] = []
        distinct = [*{tuple(sorted(key.items())): key for key in keys}.values()]
        for start in range(0, len(distinct), _BATCH_GET):
            wanted = [encode(key) for key in distinct[start : start + _BATCH_GET]]
            todo: Mapping[str, Any] = {self.name: {"Keys": wanted, "ConsistentRead": consistent}}
            while todo:
                answer = self.client.batch_get_item(RequestItems=todo)
                found += map(decode, answer["Responses"].get(self.name, []))
                todo = answer.get("UnprocessedKeys", {})
                if todo:
                    time.sleep(_PAUSE_S)
        return found

    def query(
        self, condition: str, values: Row, *, start: Row | None = None, **options: object
    ) -> tuple[list[Row], Row | None]:
        """Read a page of a partition, and the `start` of the next page; None at the end.

        `options` are parameters of DynamoDB's Query, such as `Limit`.
        """
        if start is not None:
            options["ExclusiveStartKey"] = encode(start)
        text = f"{condition} {options.get('ProjectionExpression', '')}"
        request = {**self._request(text, values), "KeyConditionExpression": condition, **options}
        answer = self.client.query(**request)
        last = answer.get("LastEvaluatedKey")
        return list(map(decode, answer["Items"])), None if last is None else decode(last)

    def query_all(
        self,
        condition: str,
        values: Row,
        **options: Any,
    ) -> Iterator[Row]:
        """Read all pages of a partition."""
        rows, start = self.query(condition, values, **options)
        yield from rows
        while start is not None:
            rows, start = self.query(condition, values, start=start, **options)
            yield from rows

    def put(self, row: Row, condition: str = "", /, **values: object) -> None:
        """Write a whole item; attributes that are None are left out."""
        self._write(self.client.put_item, "", condition, values, Item=encode(row))

    def replace(self, row: Row) -> Row:
        """Write a whole item as `put` does. Returns it as it was, empty if it was absent."""
        return self._write(
            self.client.put_item, "", "", {}, Item=encode(row), ReturnValues="ALL_OLD"
        )

    def update(self, key: Row, update: str, condition: str = "", /, **values: object) -> Row:
        """Update attributes of an item. Returns the new item."""
        return self.send_update(self.update_request(key, update, condition, values))

    def update_request(
        self, key: Row, update: str, condition: str, values: Row, *, wants_row: bool = True
    ) -> Item:
        """The request of `update`; its answer has the new item if `wants_row`."""
        options = {
            "UpdateExpression": update,
            "ReturnValues": "ALL_NEW" if wants_row else "NONE",
            "Key": encode(key),
        }
        return self._conditional(update, condition, values, **options)

    def send_update(self, request: Item) -> Row:
        """Make an `update_request`. Returns the new item, or nothing."""
        return self._send(self.client.update_item, request)

    def as_put(self, row: Row, condition: str = "", /, **values: object) -> Item:
        """`put` as a part of a transaction."""
        return {"Put": self._conditional("", condition, values, Item=encode(row))}

    def as_update(self, key: Row, update: str, condition: str, /, **values: object) -> Item:
        """`update` as a part of a transaction."""
        request = {**self._request(f"{update} {condition}", values), "Key": encode(key)}
        conditional = {"UpdateExpression": update, "ConditionExpression": condition}
        return {"Update": {**request, **conditional, **_WITH_ITEM}}

    def as_delete(self, key: Row, condition: str = "", /, **values: object) -> Item:
        """`delete` as a part of a transaction."""
        return {"Delete": self._conditional("", condition, values, Key=encode(key))}

    def transact(self, writes: Sequence[Item]) -> None:
        """Make writes of this table and others, all or none; costs twice their write units.

        The SDK repeats a call whose answer was lost with the same token, and DynamoDB makes it
        once. Raises TransactionRefused if a condition does not hold, or if an item is being written
        by another request.
        """
        parts: Any = writes
        try:
            self.client.transact_write_items(TransactItems=parts)
        except ClientError as error:
            reasons: Any = error.response.get("CancellationReasons", [])
            codes = {reason.get("Code", "None") for reason in reasons}
            if not codes or not codes <= _REFUSALS:
                raise
            raise TransactionRefused(reasons) from error

    def delete(self, key: Row, condition: str = "", /, **values: object) -> Row:
        """Delete an item. Returns it as it was, empty if it was absent."""
        options = {"Key": encode(key), "ReturnValues": "ALL_OLD"}
        return self._write(self.client.delete_item, "", condition, values, **options)

    def put_many(self, rows: Sequence[Row]) -> None:
        """Write many whole items without a condition, 25 in a request."""
        self._write_many([{"PutRequest": {"Item": encode(row)}} for row in rows])

    def delete_many(self, keys: Sequence[Row]) -> None:
        """Delete many items, 25 in a request; absent ones are no error."""
        self._write_many([{"DeleteRequest": {"Key": encode(key)}} for key in keys])

    def _write_many(self, writes: Sequence[Item]) -> None:
        for start in range(0, len(writes), _BATCH_WRITE):
            wanted = writes[start : start + _BATCH_WRITE]
            todo: Mapping[str, Any] = {self.name: wanted}
            while todo:
                todo = self.client.batch_write_item(RequestItems=todo).get("UnprocessedItems", {})
                if todo:
                    time.sleep(_PAUSE_S)

    def _write(
        self,
        operation: Callable[..., Mapping[str, Any]],
        update: str,
        condition: str,
        values: Row,
        **options: object,
    ) -> Row:
        return self._send(operation, self._conditional(update, condition, values, **options))

    def _conditional(self, update: str, condition: str, values: Row, **options: object) -> Item:
        """A request to write an item, with the condition if there is one."""
        request = {**self._request(f"{update} {condition}", values), **options}
        if condition:
            request["ConditionExpression"] = condition
            request.update(_WITH_ITEM)
        return request

    @staticmethod
    def _send(operation: Callable[..., Mapping[str, Any]], request: Item) -> Row:
        pauses = iter(_BUSY_PAUSES_S)
        while True:
            try:
                return decode(operation(**request).get("Attributes", {}))
            except ClientError as error:
                code = error.response["Error"]["Code"]
                if code == "TransactionConflictException" and (wait_s := next(pauses, None)):
                    time.sleep(wait_s)
                    continue
                if code != "ConditionalCheckFailedException":
                    raise
                stored: Any = error.response.get("Item") or {}  # the stubs lack it
                raise ConditionFailed(decode(stored)) from error

    def _request(self, expressions: str, values: Row) -> dict[str, Any]:
        """The table and the placeholders of expressions; DynamoDB refuses empty sets of them."""
        request: dict[str, Any] = {"TableName": self.name}
        if names := re.findall(r"#(\w+)", expressions):
            request["ExpressionAttributeNames"] = {f"#{name}": name for name in names}
        if values:
            request["ExpressionAttributeValues"] = {f":{n}": _encode(v) for n, v in values.items()}
        return request


class Store:
    """Reads and writes the items of one table."""

    def __init__(self, client: "DynamoDBClient", table: str) -> None:
        self._table = Table(client, table)


def _encode(value: object) -> Item:
    """Encode one value for DynamoDB."""
    match value:
        case str() | bytes():
            return {"S" if isinstance(value, str) else "B": value}
        case bool():
            return {"BOOL": value}
        case int():
            return {"N": str(value)}
        case frozenset():
            return {"SS": sorted(value)}
        case list() | tuple():
            return {"L": [_encode(entry) for entry in value]}
        case dict():
            return {"M": encode(value)}
    raise TypeError(f"DynamoDB stores no {type(value).__name__} here")


def encode(row: Row) -> Item:
    """Encode attributes, without those that are None."""
    return {name: _encode(value) for name, value in row.items() if value is not None}


def decode(item: Mapping[str, Any]) -> Row:
    """Inverse of `encode`, also for an image in an event of Lambda, whose bytes are in base64."""
    # Most are texts, and a cold start or a page of jobs decodes thousands.
    return {n: value["S"] if "S" in value else _decode(value) for n, value in item.items()}


def _decode(value: Mapping[str, Any]) -> Any:
    ((kind, content),) = value.items()
    match kind:
        case "S":
            return content
        case "N":
            return int(content)
        case "SS":
            return frozenset(content)
        case "L":
            return [_decode(entry) for entry in content]
        case "M":
            return decode(content)
        case _:  # bytes, and in an event their text
            return b64decode(content) if kind == "B" and isinstance(content, str) else content
