"""DynamoDB in memory, as far as the product uses it: a hundred times as fast as moto.

The model-based test makes hundreds of thousands of calls. `tests/unit/test_model.py` lets one
small world make each of its calls here and to moto too, and compares the answers.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any

from botocore.exceptions import ClientError

from joblane.deployment.names import table_name
from tests.support.aws import (
    AUDIT_TABLE,
    DESCRIPTOR,
    INDEXES,
    KEY_INDEXES,
    NAME,
)

Item = dict[str, Any]

KEYS: dict[str, tuple[str, ...]] = {
    DESCRIPTOR.jobs_table: ("job_id", "sk"),
    DESCRIPTOR.agents_table: ("shard", "agent"),
    table_name(NAME, "conditions"): ("condition", "sk"),
    table_name(NAME, "settings"): ("queue",),
    table_name(NAME, "counters"): ("series", "at_minute"),
    table_name(NAME, "keys"): ("key",),
    AUDIT_TABLE: ("tenant", "id"),
    DESCRIPTOR.output_table: ("stream", "seq"),
    DESCRIPTOR.types_table: ("type",),
}

ALL_INDEXES = {**INDEXES, **KEY_INDEXES}

READS = frozenset({"get_item", "batch_get_item", "query"})

_RETURNS = "ReturnValuesOnConditionCheckFailure"

_TOKEN = re.compile(r"\s*(#\w+(?:\.#\w+)+|[#:]?\w+|<>|<=|>=|[=<>(),])")


@dataclass
class Names:
    """What the placeholders of one request stand for, and the item that it is about."""

    item: Item
    names: Mapping[str, str]
    values: Mapping[str, Any]

    def __call__(self, token: str) -> Any:
        """The value of an operand; None for an attribute that is not there."""
        if token.startswith(":"):
            return self.values[token]
        first, *path = token.split(".")
        found = self.item.get(self.name(first))
        for part in path:
            found = None if found is None else found.get("M", {}).get(self.name(part))
        return found

    def name(self, token: str) -> str:
        """The attribute of an operand."""
        return self.names[token] if token.startswith("#") else token


Test = Callable[[Names], bool]


def _values(keys: Item, table: str) -> tuple[str, ...]:
    """The values of a table's keys, strings or numbers."""
    return tuple(next(iter(keys[name].values())) for name in KEYS[table])


class _Parser:
    """Parses a condition: comparisons, IN, BETWEEN, functions, NOT, AND, OR, parentheses."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        assert "".join(self._tokens) == re.sub(r"\s", "", text), text

    def parse(self) -> Test:
        found = self._any()
        assert not self._tokens, self._tokens
        return found

    def _take(self, *wanted: str) -> str:
        token: str = self._tokens.pop(0)
        assert not wanted or token in wanted, (token, wanted)
        return token

    def _next_is(self, *words: str) -> bool:
        return bool(self._tokens) and self._tokens[0] in words

    def _any(self) -> Test:
        parts = [self._all()]
        while self._next_is("OR"):
            self._take()
            parts.append(self._all())
        return lambda names: any(part(names) for part in parts)

    def _all(self) -> Test:
        parts = [self._one()]
        while self._next_is("AND"):
            self._take()
            parts.append(self._one())
        return lambda names: all(part(names) for part in parts)

    def _one(self) -> Test:
        if self._next_is("("):
            self._take()
            found = self._any()
            self._take(")")
            return found
        first = self._take()
        if first == "size":
            (name,) = self._arguments()
            self._take("=")
            wanted = self._take()
            return lambda names: len(names(name)["L"]) == int(names(wanted)["N"])
        if self._next_is("("):
            return self._function(first)
        match self._take("=", "<>", "<", "<=", ">", ">=", "IN", "BETWEEN"):
            case "IN":
                choices = self._arguments()
                return lambda names: any(_compare("=", names(first), names(c)) for c in choices)
            case "BETWEEN":
                low, _, high = self._take(), self._take("AND"), self._take()
                return lambda names: (
                    _compare(">=", names(first), names(low))
                    and _compare("<=", names(first), names(high))
                )
            case sign:
                second = self._take()
                return lambda names: _compare(sign, names(first), names(second))

    def _function(self, name: str) -> Test:
        arguments = self._arguments()
        match name:
            case "attribute_exists":
                return lambda names: names(arguments[0]) is not None
            case "attribute_not_exists":
                return lambda names: names(arguments[0]) is None
            case "begins_with":
                return lambda names: names(arguments[0])["S"].startswith(names(arguments[1])["S"])
        raise AssertionError(f"no function {name} here")

    def _arguments(self) -> list[str]:
        self._take("(")
        found = [self._take()]
        while self._take(",", ")") == ",":
            found.append(self._take())
        return found


@lru_cache(1000)
def _condition(text: str) -> Test:
    return _Parser(text).parse()


def _compare(sign: str, a: Any, b: Any) -> bool:
    if a is None or b is None:
        return sign == "<>"
    if sign in {"=", "<>"}:
        return (a == b) is (sign == "=")
    x, y = _order(a), _order(b)
    found: bool = {"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}[sign]
    return found


def _order(value: Mapping[str, str]) -> Any:
    return Decimal(value["N"]) if "N" in value else value["S"]


_CLAUSE = re.compile(r"\b(SET|REMOVE|ADD)\b")


def _update(names: Names, text: str) -> Item:
    """The item after an update expression; every operand is what it was before it."""
    after = dict(names.item)
    parts = _CLAUSE.split(text)[1:]
    for clause, body in zip(parts[::2], parts[1::2], strict=True):
        for action in re.split(r",(?![^(]*\))", body):
            to, *value = re.split(r"[\s=]+", action.strip(), maxsplit=1)
            name = names.name(to)
            match clause:
                case "SET":
                    after[name] = _value(names, value[0])
                case "REMOVE":
                    after.pop(name, None)
                case "ADD":
                    after[name] = _sum(names(to), names(value[0]))
    return after


def _value(names: Names, text: str) -> Any:
    if not text.startswith("list_append("):
        return names(text)
    old, new = text.removeprefix("list_append(").removesuffix(")").split(", ")
    return {"L": [*names(old)["L"], *names(new)["L"]]}


def _sum(old: Any, new: Item) -> Item:
    if "SS" in new:
        return {"SS": sorted({*(old["SS"] if old else ()), *new["SS"]})}
    return {"N": str(Decimal(old["N"] if old else 0) + Decimal(new["N"]))}


@dataclass
class Tables:
    """What all tables hold. An item is never changed, only replaced."""

    rows: dict[str, dict[tuple[str, ...], Item]] = field(
        default_factory=lambda: {table: {} for table in KEYS}
    )
    _before: dict[str, dict[tuple[str, ...], Item | None]] = field(
        default_factory=lambda: {table: {} for table in KEYS}
    )
    """Each row as it was before its last change."""
    listener: Callable[[str, Item | None, Item | None], None] | None = None
    """Is told of each change of an item: its table, and the item before and after."""

    def call(self, operation: str, request: Item, *, stale: bool = False) -> Item:
        """Do what a client of DynamoDB was asked. Raises what it would raise.

        `stale`: a read that is not consistent finds what there was before the last change.
        """
        answer: Item = getattr(self, f"_{operation}")(request, stale=stale)
        return answer

    def _put_item(self, request: Item, **_: Any) -> Item:
        return self._write(request, request["Item"], lambda _names: dict(request["Item"]))

    def _update_item(self, request: Item, **_: Any) -> Item:
        text = request["UpdateExpression"]
        return self._write(request, request["Key"], lambda names: _update(names, text))

    def _delete_item(self, request: Item, **_: Any) -> Item:
        return self._write(request, request["Key"], lambda _names: None)

    def _batch_write_item(self, request: Item, **_: Any) -> Item:
        for table, changes in request["RequestItems"].items():
            for change in changes:
                key = {"TableName": table, "Key": change["DeleteRequest"]["Key"]}
                self._write(key, key["Key"], lambda _names: None)
        return {"UnprocessedItems": {}}

    def _transact_write_items(self, request: Item, **_: Any) -> Item:
        parts = [next(iter(part.items())) for part in request["TransactItems"]]
        reasons = [self._refusal(part) for _, part in parts]
        if any(reason["Code"] != "None" for reason in reasons):
            refusal: Item = {"Error": {"Code": "TransactionCanceledException"}}
            refusal["CancellationReasons"] = reasons
            raise ClientError(refusal, "TransactWriteItems")  # type: ignore[arg-type] # see above
        for kind, part in parts:
            getattr(self, f"_{kind.lower()}_item")(part, stale=False)
        return {}

    def _refusal(self, part: Item) -> Item:
        """Why a part of a transaction is refused."""
        table = part["TableName"]
        old = self.rows[table].get(_values(part["Item"] if "Item" in part else part["Key"], table))
        if _condition(part["ConditionExpression"])(_names(part, old or {})):
            return {"Code": "None"}
        found = {"Item": dict(old)} if old is not None and _RETURNS in part else {}
        return {"Code": "ConditionalCheckFailed", **found}

    def _write(self, request: Item, keys: Item, change: Callable[[Names], Item | None]) -> Item:
        table = request["TableName"]
        key = _values(keys, table)
        old = self.rows[table].get(key)
        names = _names(request, old or {})
        if (text := request.get("ConditionExpression")) and not _condition(text)(names):
            refusal: Item = {"Error": {"Code": "ConditionalCheckFailedException"}}
            if old is not None and _RETURNS in request:
                refusal["Item"] = dict(old)
            raise ClientError(refusal, "Write")  # type: ignore[arg-type] # a refusal has the item
        if old is None and "Key" in request:
            names.item = dict(keys)
        new = change(names)
        self._before[table][key] = old
        self.rows[table].pop(key, None)
        if new is not None:
            self.rows[table][key] = new
        if self.listener is not None and old != new:
            self.listener(table, old, new)
        match request.get("ReturnValues"):
            case "ALL_NEW" if new is not None:
                return {"Attributes": dict(new)}
            case "ALL_OLD" if old is not None:
                return {"Attributes": dict(old)}
        return {}

    def _get_item(self, request: Item, *, stale: bool) -> Item:
        item = self._read(request["TableName"], request["Key"], request, stale=stale)
        return {} if item is None else {"Item": item}

    def _batch_get_item(self, request: Item, *, stale: bool) -> Item:
        found = {
            table: [
                item
                for key in wanted["Keys"]
                if (item := self._read(table, key, wanted, stale=stale)) is not None
            ]
            for table, wanted in request["RequestItems"].items()
        }
        return {"Responses": found, "UnprocessedKeys": {}}

    def _read(self, table: str, keys: Item, request: Item, *, stale: bool) -> Item | None:
        key = _values(keys, table)
        item = self.rows[table].get(key)
        if stale and not request.get("ConsistentRead"):
            item = self._before[table].get(key, item)
        return None if item is None else dict(item)

    def _query(self, request: Item, *, stale: bool) -> Item:
        table, index = request["TableName"], request.get("IndexName")
        keys = KEYS[table]
        sort = ALL_INDEXES[index][1] if index in ALL_INDEXES else keys[-1]
        matches = _condition(request["KeyConditionExpression"])
        stale = stale and not request.get("ConsistentRead")
        found = [
            item
            for item in self._seen(table, stale=stale)
            if _has(item, ALL_INDEXES.get(index or "", ())) and matches(_names(request, item))
        ]
        backwards = not request.get("ScanIndexForward", True)
        found.sort(key=lambda item: (_order(item[sort]), _id(item, keys)), reverse=backwards)
        if "ExclusiveStartKey" in request:
            start = request["ExclusiveStartKey"]
            after = (_order(start[sort]), _id(start, keys))
            found = [i for i in found if ((_order(i[sort]), _id(i, keys)) > after) != backwards]
        if text := request.get("FilterExpression"):
            assert "Limit" not in request, "DynamoDB filters after it has cut the page"
            found = [item for item in found if _condition(text)(_names(request, item))]
        limit = request.get("Limit", len(found) + 1)
        shown = {*keys, *ALL_INDEXES[index]} if index else None  # indexes are KEYS_ONLY
        if text := request.get("ProjectionExpression"):
            shown = {request["ExpressionAttributeNames"][name] for name in text.split(", ")}
        page = [
            {name: value for name, value in item.items() if shown is None or name in shown}
            for item in found[:limit]
        ]
        if len(found) <= limit:
            return {"Items": page}
        last = {name: page[-1][name] for name in (*keys, *ALL_INDEXES.get(index or "", ()))}
        return {"Items": page, "LastEvaluatedKey": last}

    def _seen(self, table: str, *, stale: bool) -> Iterator[Item]:
        if not stale:
            yield from self.rows[table].values()
            return
        for key in {**self.rows[table], **self._before[table]}:
            item = self._before[table].get(key, self.rows[table].get(key))
            if item is not None:
                yield item


def _names(request: Item, item: Item) -> Names:
    return Names(
        item,
        request.get("ExpressionAttributeNames", {}),
        request.get("ExpressionAttributeValues", {}),
    )


def _has(item: Item, keys: tuple[str, ...]) -> bool:
    return all(name in item for name in keys)


def _id(item: Item, keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(next(iter(item[name].values())) for name in keys)


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
