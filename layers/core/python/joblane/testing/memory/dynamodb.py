"""DynamoDB in memory, as far as the product uses it: a hundred times as fast as moto.

It refuses what DynamoDB refuses. What the unit tests asked it is asked of another implementation
afterwards (`tests/support/asked.py`).
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from botocore.exceptions import ClientError

from joblane.testing.memory.evaluation import (
    Action,
    Item,
    Names,
    Operand,
    Test,
    order,
    refusal,
    update_item,
)
from joblane.testing.memory.expressions import Parser, Placeholders
from joblane.testing.memory.item_rules import (
    LARGEST_PAGE,
    Key,
    batch_gets,
    batch_writes,
    check_index_keys,
    check_item,
    check_not_key,
    check_size,
    check_value,
    empty_key,
    key_of,
    place,
    schema_of,
    transaction_parts,
)
from joblane.testing.memory.schemas import SCHEMAS, Index

READS = frozenset({"get_item", "batch_get_item", "query"})

_RETURNS = "ReturnValuesOnConditionCheckFailure"
_EXPRESSIONS = ("Update", "Condition", "KeyCondition", "Filter", "Projection")
_RETURNED = {
    "put_item": {"NONE", "ALL_OLD"},
    "delete_item": {"NONE", "ALL_OLD"},
    "update_item": {"NONE", "ALL_OLD", "ALL_NEW"},
}
"""The values of ReturnValues that are known here."""
_OPERATIONS = {
    "Put": "put_item",
    "Update": "update_item",
    "Delete": "delete_item",
    "ConditionCheck": "condition_check",
}


@dataclass
class Plan:
    """The expressions of a request, parsed."""

    update: list[Action] = field(default_factory=list)
    condition: Test | None = None
    partition: Operand | None = None
    keys: Test | None = None
    filter: Test | None = None
    projection: list[Names] = field(default_factory=list)

    @staticmethod
    def of(request: Item) -> "Plan":
        """The plan of a request. Raises ClientError."""
        texts = [
            (kind, request[name])
            for kind in _EXPRESSIONS
            if (name := f"{kind}Expression") in request
        ]
        for what in ("Names", "Values"):
            given = request.get(f"ExpressionAttribute{what}")
            if given is not None and not (given and texts):
                raise refusal(
                    f"ExpressionAttribute{what} can only be specified when using expressions"
                    if given
                    else f"ExpressionAttribute{what} must not be empty"
                )
        values = request.get("ExpressionAttributeValues", {})
        for value in values.values():
            check_value(value)
        return _plan(
            request["TableName"],
            request.get("IndexName"),
            tuple(texts),
            tuple(request.get("ExpressionAttributeNames", {}).items()),
            tuple((name, next(iter(value))) for name, value in values.items()),
        )


@lru_cache(10_000)
def _plan(
    table: str,
    index: str | None,
    texts: tuple[tuple[str, str], ...],
    names: tuple[tuple[str, str], ...],
    kinds: tuple[tuple[str, str], ...],
) -> Plan:
    placeholders, plan = Placeholders(dict(names), dict(kinds)), Plan()
    keys = _keys(table, index)
    for kind, text in texts:
        parser = Parser(f"{kind}Expression", text, placeholders)
        match kind:
            case "Update":
                plan.update = parser.update()
                for action in plan.update:
                    check_not_key(table, action.names[0])
            case "Condition":
                plan.condition = parser.condition()
            case "KeyCondition":
                plan.partition, plan.keys = parser.key_condition(keys)
            case "Filter":
                plan.filter = parser.condition()
                if wrong := {path[0] for path in parser.paths} & keys.keys():
                    raise refusal(
                        "Filter Expression can only contain non-primary key attributes:"
                        f" Primary key attribute: {min(wrong)}"
                    )
            case _:
                plan.projection = parser.projection()
    placeholders.check_used()
    return plan


def _keys(table: str, index: str | None) -> Mapping[str, str]:
    """The keys of a table, or of one of its indexes."""
    return _index(table, index).keys if index is not None else schema_of(table).keys


def _index(table: str, index: str) -> Index:
    indexes = schema_of(table).indexes
    if index not in indexes:
        raise refusal(f"The table does not have the specified index: {index}")
    return indexes[index]


@dataclass(frozen=True)
class Change:
    """What a write does to one item."""

    table: str
    key: Key
    old: Item | None
    new: Item | None
    size: int = 0
    holds: bool = True
    """Whether its condition does."""

    def refuse(self, request: Item, code: str) -> Item:
        """What its client is told if it does not."""
        found: Item = {"Code": code, "Message": "The conditional request failed"}
        return found | ({"Item": dict(self.old)} if self.old and _RETURNS in request else {})


@dataclass
class Tables:
    """What all tables hold. An item is never changed, only replaced."""

    rows: dict[str, dict[Key, Item]] = field(
        default_factory=lambda: {table: {} for table in SCHEMAS}
    )
    _before: dict[str, dict[Key, Item | None]] = field(
        default_factory=lambda: {table: {} for table in SCHEMAS}
    )
    """Each row as it was before its last change."""
    listener: Callable[[str, Item | None, Item | None], None] | None = None
    """Is told of each change of an item: its table, and the item before and after."""

    def call(self, operation: str, request: Item, *, stale: bool = False) -> Item:
        """Do what a client of DynamoDB was asked. Raises what it would raise.

        `stale`: a read that is not consistent finds what there was before the last change.
        """
        tables = (
            (request["TableName"],) if "TableName" in request else request.get("RequestItems", ())
        )
        if not all(table in self.rows for table in tables):
            raise refusal("Requested resource not found", "ResourceNotFoundException")
        answer: Item = getattr(self, f"_{operation}")(request, stale=stale)
        return answer

    def _put_item(self, request: Item, **_: Any) -> Item:
        return self._write("put_item", request)

    def _update_item(self, request: Item, **_: Any) -> Item:
        return self._write("update_item", request)

    def _delete_item(self, request: Item, **_: Any) -> Item:
        return self._write("delete_item", request)

    def _write(self, operation: str, request: Item) -> Item:
        returned = request.get("ReturnValues", "NONE")
        if returned not in _RETURNED[operation]:
            raise refusal(f"ReturnValues can not be {returned}")
        change = self._change(operation, request)
        if not change.holds:
            told = change.refuse(request, "ConditionalCheckFailedException")
            response: Any = {
                "Error": told,
                **({"Item": told.pop("Item")} if "Item" in told else {}),
            }
            raise ClientError(response, operation)
        self._make(change)
        wanted = {"ALL_NEW": change.new, "ALL_OLD": change.old}.get(returned)
        return {} if wanted is None else {"Attributes": dict(wanted)}

    def _batch_write_item(self, request: Item, **_: Any) -> Item:
        for table, change in batch_writes(request):
            ((kind, part),) = change.items()
            operation = {"PutRequest": "put_item", "DeleteRequest": "delete_item"}[kind]
            self._make(self._change(operation, {"TableName": table, **part}))
        return {"UnprocessedItems": {}}

    def _transact_write_items(self, request: Item, **_: Any) -> Item:
        parts = transaction_parts(request)
        changes = [self._change(_OPERATIONS[kind], part) for kind, part in parts]
        if not all(change.holds for change in changes):
            reasons = [
                {"Code": "None"} if change.holds else change.refuse(part, "ConditionalCheckFailed")
                for (_, part), change in zip(parts, changes, strict=True)
            ]
            codes = ", ".join(reason["Code"] for reason in reasons)
            refused: Any = refusal(
                "Transaction cancelled, please refer cancellation reasons for specific reasons"
                f" [{codes}]",
                "TransactionCanceledException",
            )
            refused.response["CancellationReasons"] = reasons
            raise refused
        for change in changes:
            self._make(change)
        return {}

    def _change(self, operation: str, request: Item) -> Change:
        """What a request would do. Raises ClientError: it is not valid."""
        table, plan = request["TableName"], Plan.of(request)
        key, values = place(table, request), request.get("ExpressionAttributeValues", {})
        size = 0
        if operation == "put_item":
            check_index_keys(table, request["Item"])
            check_size(size := check_item(request["Item"]), updated=False)
        old = self.rows[table].get(key)
        if plan.condition is not None and not plan.condition(old or {}, values):
            return Change(table, key, old, old, holds=False)
        match operation:
            case "put_item":
                return Change(table, key, old, dict(request["Item"]), size)
            case "delete_item":
                return Change(table, key, old, None)
            case "update_item":
                new = update_item(old or dict(request["Key"]), plan.update, values)
                check_index_keys(table, new)
                check_size(size := check_item(new), updated=True)
                return Change(table, key, old, new, size)
        return Change(table, key, old, old)  # it only checks a condition

    def _make(self, change: Change) -> None:
        rows = self.rows[change.table]
        self._before[change.table][change.key] = change.old
        rows.pop(change.key, None)
        if change.new is not None:
            rows[change.key] = change.new
        if self.listener is not None and change.old != change.new:
            self.listener(change.table, change.old, change.new)

    def _get_item(self, request: Item, *, stale: bool) -> Item:
        table = request["TableName"]
        items = self._read(table, [key_of(table, request["Key"])], request, stale=stale)
        return {"Item": items[0]} if items else {}

    def _batch_get_item(self, request: Item, *, stale: bool) -> Item:
        found = {
            table: self._read(table, keys, {"TableName": table, **options}, stale=stale)
            for table, keys, options in batch_gets(request)
        }
        return {"Responses": found, "UnprocessedKeys": {}}

    def _read(self, table: str, keys: list[Key], request: Item, *, stale: bool) -> list[Item]:
        shown, rows = _shown(Plan.of(request)), self.rows[table]
        if stale and not request.get("ConsistentRead"):
            before = self._before[table]
            items = [before.get(key, rows.get(key)) for key in keys]
        else:
            items = [rows.get(key) for key in keys]
        return [_cut(item, shown) for item in items if item is not None]

    def _query(self, request: Item, *, stale: bool) -> Item:
        table, index = request["TableName"], request.get("IndexName")
        keys, consistent = _keys(table, index), request.get("ConsistentRead", False)
        plan, values = Plan.of(request), request.get("ExpressionAttributeValues", {})
        if consistent and index is not None:
            raise refusal("Consistent reads are not supported on global secondary indexes")
        if request.get("Limit", 1) < 1:
            raise refusal("1 validation error detected: Value at 'limit' failed to satisfy")
        if plan.partition is None or plan.keys is None:
            raise refusal("Either the KeyConditions or KeyConditionExpression parameter must be")
        (partition, *_), unique = keys, {**keys, **SCHEMAS[table].keys}
        wanted = plan.partition.read({}, values)
        if "" in wanted.values():
            raise empty_key(f"Key: {partition}")
        found = [
            item
            for item in self._seen(table, stale=stale and not consistent)
            if item.get(partition) == wanted
            and keys.keys() <= item.keys()
            and plan.keys(item, values)
        ]
        backwards = not request.get("ScanIndexForward", True)

        def place_of(item: Item) -> list[Any]:
            return [order(item[name]) for name in unique]

        found.sort(key=place_of, reverse=backwards)
        if (start := request.get("ExclusiveStartKey")) is not None:
            if start.keys() != unique.keys():
                raise refusal("The provided starting key is invalid")
            after = place_of(start)
            found = [
                i for i in found if (place_of(i) < after if backwards else place_of(i) > after)
            ]
        page = _page(found, request.get("Limit"))
        shown = _shown(plan)
        if index is not None and not _index(table, index).whole:
            shown = unique.keys() if shown is None else shown & unique.keys()
        answer: Item = {
            "Items": [
                _cut(item, shown)
                for item in page
                if plan.filter is None or plan.filter(item, values)
            ]
        }
        if len(page) < len(found) or len(page) == request.get("Limit"):
            answer["LastEvaluatedKey"] = {name: page[-1][name] for name in unique}
        return answer

    def _scan(self, request: Item, **_: Any) -> Item:
        assert request.keys() == {"TableName"}, "only tests scan"
        items = list(self.rows[request["TableName"]].values())
        return {"Items": items, "Count": len(items)}

    def _delete_table(self, request: Item, **_: Any) -> Item:
        del self.rows[request["TableName"]]
        return {}

    def _seen(self, table: str, *, stale: bool) -> Iterable[Item]:
        rows = self.rows[table]
        if not stale:
            return rows.values()
        items = {**rows, **self._before[table]}.values()
        return [item for item in items if item is not None]


def _page(found: list[Item], limit: int | None) -> list[Item]:
    """The items that one answer may have."""
    found = found[:limit]
    size = 0
    for number, item in enumerate(found):
        size += check_item(item)
        if size > LARGEST_PAGE:
            return found[:number]
    return found


def _shown(plan: Plan) -> AbstractSet[str] | None:
    """The attributes that are wanted; None for all of them."""
    assert all(len(path) == 1 for path in plan.projection), "only whole attributes here"
    return {path[0] for path in plan.projection} or None


def _cut(item: Item, shown: AbstractSet[str] | None) -> Item:
    if shown is None:
        return dict(item)
    return {name: value for name, value in item.items() if name in shown}


class Dynamo:
    """A client of DynamoDB, as botocore would make it; `around` makes each of its calls."""

    def __init__(
        self, tables: Tables, around: Callable[[str, Callable[[bool], Item]], Item]
    ) -> None:
        self._tables = tables
        self._around = around

    def __getattr__(self, operation: str) -> Callable[..., Item]:
        """Any operation, by its name."""
        return lambda **request: self._around(
            operation, lambda stale: self._tables.call(operation, request, stale=stale)
        )
